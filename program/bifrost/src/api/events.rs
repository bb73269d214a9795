//! What happens, for those who listen: the daemon is looked at twice a second, while somebody does,
//! and what differs from the last look is an event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::problem::{Kind, Problem, busy};
use super::request_threads::ApiContext;
use crate::control::Answer;
use crate::subject::{Config, InterfaceStatus, MirrorStatus, PortStatus, VirtualRouterStatus};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// Clients who may listen.
const LISTENERS: usize = 16;
/// Events that a slow client may be behind.
const BEHIND: usize = 256;

/// What was seen, by what it is (`port`, ...) and its name; and the configuration.
#[derive(Default)]
struct Seen {
    raw: Arc<str>,
    things: BTreeMap<(&'static str, String), Value>,
}

pub(super) struct Events {
    sender: broadcast::Sender<Bytes>,
    last: Mutex<Option<Seen>>,
    number: AtomicU64,
}

impl Default for Events {
    fn default() -> Events {
        Events { sender: broadcast::channel(BEHIND).0, last: Mutex::default(), number: AtomicU64::new(0) }
    }
}

impl Events {
    /// What happens from now on; and how things are now.
    pub fn subscribe(&self, context: &ApiContext) -> Result<(broadcast::Receiver<Bytes>, Bytes), Problem> {
        if self.sender.receiver_count() >= LISTENERS {
            return Err(Kind::Busy.because(format!("{LISTENERS} clients listen already")));
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = look(&*context.answer).map_err(busy)?;
        let receiver = self.sender.subscribe();
        let now: Vec<Value> = (seen.things.iter())
            .map(|((what, name), value)| json!({ "event": what, "name": name, "now": value }))
            .collect();
        let revision = context.answer.history().ok().and_then(|history| history.running);
        let first = event("begun", None, &json!({ "revision": revision, "now": now }));
        // Others hear of what has happened since the last look.
        if let Some(before) = last.replace(seen) {
            self.tell(context, &before, last.as_ref());
        }
        Ok((receiver, first))
    }

    fn tell(&self, context: &ApiContext, before: &Seen, now: Option<&Seen>) {
        let Some(now) = now else { return };
        for (what, value) in differences(before, now, &*context.answer) {
            let number = self.number.fetch_add(1, Relaxed) + 1;
            // Nobody may listen any more.
            let _ = self.sender.send(event(what, Some(number), &value));
        }
    }
}

/// Looks as long as the daemon lives.
pub(super) fn watch(context: &ApiContext) {
    loop {
        thread::sleep(LOOK);
        let events = &context.events;
        let mut last = events.last.lock().unwrap_or_else(PoisonError::into_inner);
        if events.sender.receiver_count() == 0 {
            *last = None;
            continue;
        }
        // What cannot be told now is told with the next look.
        let Ok(now) = look(&*context.answer) else { continue };
        if let Some(before) = last.replace(now) {
            events.tell(context, &before, last.as_ref());
        }
    }
}

fn look(answer: &dyn Answer) -> Result<Seen, String> {
    let mut things = BTreeMap::new();
    for port in answer.ask::<Vec<PortStatus>>()? {
        things.insert(("port", port.name), json!({ "state": port.state, "lane": port.lane }));
    }
    for one in answer.ask::<Vec<InterfaceStatus>>()? {
        let value = json!({ "up": one.up, "adopted": one.adopted, "addresses": one.addresses });
        things.insert(("interface", one.name), value);
    }
    for router in answer.ask::<Vec<VirtualRouterStatus>>()? {
        let value = json!({ "state": router.state, "why": router.why });
        things.insert(("redundancy", router.name), value);
    }
    let mirror = answer.ask::<MirrorStatus>()?;
    things.insert(("mirror", mirror.source), json!({ "synced": mirror.synced }));
    Ok(Seen { raw: answer.ask::<Config>()?.raw, things })
}

/// What has happened between two looks.
fn differences(before: &Seen, now: &Seen, answer: &dyn Answer) -> Vec<(&'static str, Value)> {
    let mut found = Vec::new();
    if before.raw != now.raw {
        let newest = answer.history().ok().and_then(|history| history.revisions.into_iter().next());
        found.push(("commit", serde_json::to_value(newest).unwrap_or_default()));
    }
    found.extend(things_that_differ(before, now));
    found
}

fn things_that_differ(before: &Seen, now: &Seen) -> Vec<(&'static str, Value)> {
    let mut found = Vec::new();
    for key in before.things.keys().chain(now.things.keys()).collect::<BTreeSet<_>>() {
        let (was, is) = (before.things.get(key), now.things.get(key));
        if was != is {
            found.push((key.0, json!({ "name": key.1, "before": was, "now": is })));
        }
    }
    found
}

fn event(what: &str, number: Option<u64>, value: &impl Serialize) -> Bytes {
    let id = number.map_or(String::new(), |number| format!("id: {number}\n"));
    // JSON has no line of its own.
    let data = serde_json::to_string(value).unwrap_or_default();
    Bytes::from(format!("{id}event: {what}\ndata: {data}\n\n"))
}

/// What is said to a client who was too slow.
pub(super) fn missed(number: u64) -> Bytes {
    event("missed", None, &json!({ "events": number }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_what_differs() {
        let seen = |things: &[(&'static str, &str, u64)]| Seen {
            raw: "".into(),
            things: things
                .iter()
                .map(|(what, name, value)| ((*what, (*name).to_owned()), json!(value)))
                .collect(),
        };
        let before = seen(&[("port", "eth0", 1), ("port", "eth1", 1), ("mirror", "netlink", 1)]);
        let now = seen(&[("port", "eth0", 2), ("mirror", "netlink", 1), ("port", "eth2", 1)]);
        let found = things_that_differ(&before, &now);
        assert_eq!(
            found,
            [
                ("port", json!({"name": "eth0", "before": 1, "now": 2})),
                ("port", json!({"name": "eth1", "before": 1, "now": null})),
                ("port", json!({"name": "eth2", "before": null, "now": 1})),
            ]
        );
        let event = event("port", Some(7), &json!({"why": "a\nb"}));
        assert_eq!(event, Bytes::from("id: 7\nevent: port\ndata: {\"why\":\"a\\nb\"}\n\n"));
    }
}
