//! StaticThreadSched: says which thread elements are on.
//!
//! Group: control
//! Usage: `StaticThreadSched(ELEMENT THREAD, ...)`
//! Ports: none
//!
//! With `-j N` a program has N threads, of which all but the first have nothing to do unless
//! elements are told to be there. Each argument is the name of an element, or of a compound
//! element, which stands for all elements in it, and the number of a thread, from 0. What is not
//! named goes with the elements that it gets its packets from, and a queue with what pulls from it.
//!
//! See also: [ScheduleInfo]

use graph::arguments::{Arguments, Refused};
use graph::{Class, Context, Element, NodeId, Setup};

/// The class.
pub const CLASS: Class = Class {
    name: "StaticThreadSched",
    ports: "0/0",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("thread.rs"),
    make,
};

struct StaticThreadSched {
    homes: Vec<(String, usize)>,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let mut homes = Vec::new();
    for (piece, words) in args.rest_words() {
        match words.as_slice() {
            [] => {}
            [name, thread] => match thread.parse::<i32>() {
                // -1 is no thread in particular.
                Ok(thread) if thread >= -1 => {
                    homes.push((name.clone(), usize::try_from(thread).unwrap_or(0)))
                }
                Ok(_) => {
                    args.strange(&piece, format!("thread preference {thread} out of range"));
                    homes.push((name.clone(), 0));
                }
                Err(_) => args.wrong(&piece, "THREAD: invalid number"),
            },
            _ => args.wrong(&piece, "expected 'ELEMENT THREAD'"),
        }
    }
    args.finish()?;
    Ok(Box::new(StaticThreadSched { homes }))
}

impl Element for StaticThreadSched {
    fn class(&self) -> &'static str {
        "StaticThreadSched"
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let context = cx.name().rfind('/').map_or(String::new(), |slash| cx.name()[..=slash].to_owned());
        for (name, thread) in &self.homes {
            let inside = format!("{context}{name}/");
            let nodes: Vec<NodeId> = match cx.find(name) {
                Some(node) => vec![node],
                None => {
                    let within = cx.description().nodes.iter().filter(|node| node.name.starts_with(&inside));
                    within.map(|node| node.id).collect()
                }
            };
            if nodes.is_empty() {
                return Err(format!("'{name}' does not name an element"));
            }
            nodes.into_iter().for_each(|node| cx.set_home(node, *thread));
        }
        Ok(())
    }
}
