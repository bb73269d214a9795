//! # Null: passes packets on as they are.
//!
//! Group: basic
//! Usage: `Null()`
//! Ports: 1 input, 1 output; agnostic
//!
//! Gives a place in a configuration a name, and measures what an element costs that does nothing.
//!
//! See also: [PushNull], [PullNull], [Idle]
//!
//! # PushNull: passes packets on as they are, pushed.
//!
//! Group: basic
//! Usage: `PushNull()`
//! Ports: 1 input, 1 output; push
//!
//! Makes what is behind and in front of it push, where both could be either.
//!
//! See also: [Null], [PullNull]
//!
//! # PullNull: passes packets on as they are, pulled.
//!
//! Group: basic
//! Usage: `PullNull()`
//! Ports: 1 input, 1 output; pull
//!
//! Makes what is behind and in front of it pull, where both could be either.
//!
//! See also: [Null], [PushNull]
//!
//! # Null1: passes packets on as they are, as Null.
//!
//! Group: basic
//! Usage: `Null1()`
//! Ports: 1 input, 1 output; agnostic
//!
//! A [Null] of another name, which tells it apart from the others in what is counted by class.
//!
//! See also: [Null]
//!
//! # Null2: passes packets on as they are, as Null.
//!
//! Group: basic
//! Usage: `Null2()`
//! Ports: 1 input, 1 output; agnostic
//!
//! A [Null] of another name, which tells it apart from the others in what is counted by class.
//!
//! See also: [Null]
//!
//! # Null3: passes packets on as they are, as Null.
//!
//! Group: basic
//! Usage: `Null3()`
//! Ports: 1 input, 1 output; agnostic
//!
//! A [Null] of another name, which tells it apart from the others in what is counted by class.
//!
//! See also: [Null]
//!
//! # Null4: passes packets on as they are, as Null.
//!
//! Group: basic
//! Usage: `Null4()`
//! Ports: 1 input, 1 output; agnostic
//!
//! A [Null] of another name, which tells it apart from the others in what is counted by class.
//!
//! See also: [Null]
//!
//! # Null5: passes packets on as they are, as Null.
//!
//! Group: basic
//! Usage: `Null5()`
//! Ports: 1 input, 1 output; agnostic
//!
//! A [Null] of another name, which tells it apart from the others in what is counted by class.
//!
//! See also: [Null]
//!
//! # Null6: passes packets on as they are, as Null.
//!
//! Group: basic
//! Usage: `Null6()`
//! Ports: 1 input, 1 output; agnostic
//!
//! A [Null] of another name, which tells it apart from the others in what is counted by class.
//!
//! See also: [Null]
//!
//! # Null7: passes packets on as they are, as Null.
//!
//! Group: basic
//! Usage: `Null7()`
//! Ports: 1 input, 1 output; agnostic
//!
//! A [Null] of another name, which tells it apart from the others in what is counted by class.
//!
//! See also: [Null]
//!
//! # Null8: passes packets on as they are, as Null.
//!
//! Group: basic
//! Usage: `Null8()`
//! Ports: 1 input, 1 output; agnostic
//!
//! A [Null] of another name, which tells it apart from the others in what is counted by class.
//!
//! See also: [Null]

use graph::arguments::{Arguments, Refused};
use graph::{Class, Element};

struct Null {
    class: &'static str,
}

impl Element for Null {
    fn class(&self) -> &'static str {
        self.class
    }
}

fn make(class: &'static str, args: &mut Arguments<'_>) -> Result<Box<dyn Element>, Refused> {
    args.finish()?;
    Ok(Box::new(Null { class }))
}

macro_rules! null {
    ($($constant:ident $name:literal $processing:ident;)*) => {$(
        pub const $constant: Class = Class {
            name: $name,
            ports: "1/1",
            processing: Class::$processing,
            flow: Class::COMPLETE_FLOW,
            source: include_str!("null.rs"),
            make: |args, _| make($name, args),
        };
    )*};
}

null! {
    NULL "Null" AGNOSTIC;
    NULL1 "Null1" AGNOSTIC;
    NULL2 "Null2" AGNOSTIC;
    NULL3 "Null3" AGNOSTIC;
    NULL4 "Null4" AGNOSTIC;
    NULL5 "Null5" AGNOSTIC;
    NULL6 "Null6" AGNOSTIC;
    NULL7 "Null7" AGNOSTIC;
    NULL8 "Null8" AGNOSTIC;
    PUSH_NULL "PushNull" PUSH;
    PULL_NULL "PullNull" PULL;
}
