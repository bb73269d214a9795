//! What an element is.
//!
//! An element handles the packets of a batch, in order, and says by its [`Context`] where each
//! goes. It never calls another element: what it emits waits until it has returned, so that no
//! element is entered twice at once, and a graph may have loops. Only pulling goes through at once,
//! from whoever wants packets back to the queue that has them.
//!
//! There are three kinds of port (Click, section 2.2 of the paper): on a *push* connection the
//! source of a packet begins, on a *pull* connection its destination; an *agnostic* port is what
//! the other end of its connection is. An element with agnostic ports writes [`Element::act`] once
//! and serves both.

use std::any::Any;

use crate::{Batch, Context, Handler, HandlerError};

/// One step on a packet's way. A worker owns its instance: nothing in it is shared, except by its
/// own choice.
pub trait Element: Any + Send {
    /// The kind of element, the same for all its instances.
    fn class(&self) -> &'static str;

    /// What the outputs are called where they have names; a class of the language says how many
    /// there are.
    fn outputs(&self) -> &'static [&'static str] {
        &[]
    }

    /// How many inputs an element has that is put into a graph without the language.
    fn inputs(&self) -> usize {
        1
    }

    /// What an agnostic element does with a batch, pushed or pulled: packets that stay in the batch
    /// go on by output 0; the others it emits elsewhere, drops or keeps.
    fn act(&mut self, _batch: &mut Batch, _cx: &mut Context<'_>) {}

    /// A batch, never empty, that arrives at an input. What is still in the batch afterwards is
    /// freed, uncounted.
    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        self.act(batch, cx);
        cx.emit_batch(0, batch);
    }

    /// Somebody wants up to `quota` packets (1 to 64) from an output: put them into the batch,
    /// which is empty. Elements in between ask their own input with [`Context::pull`].
    fn pull(&mut self, _output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        cx.pull(0, quota, batch);
        if !batch.is_empty() {
            self.act(batch, cx);
        }
    }

    /// Called once, when all elements are made and connected: the place to schedule a task, set a
    /// timer, open a file, find other elements. An error refuses the whole graph.
    fn initialize(&mut self, _cx: &mut Context<'_>) -> Result<(), String> {
        Ok(())
    }

    /// The element's turn, after [`Context::schedule`]. Like Click's tasks, it runs once for each
    /// schedule. Returns whether it did any work; when no task of the graph does, the thread may
    /// sleep.
    fn task(&mut self, _cx: &mut Context<'_>) -> bool {
        false
    }

    /// A timer set by [`Context::set_timer`] has expired.
    fn timer(&mut self, _id: u32, _cx: &mut Context<'_>) {}

    /// A file descriptor given to [`Context::watch`] is readable.
    fn ready(&mut self, _fd: std::os::fd::RawFd, _cx: &mut Context<'_>) {}

    /// For an element that stores packets and tells who pushes to it when it can take no more
    /// ([`Context::has_room`], [`Context::room_again`]): whether it is full now.
    fn full(&self) -> Option<bool> {
        None
    }

    /// The process was sent a signal that this element asked for by [`Context::catch_signal`]; it
    /// is still asked for.
    fn signal(&mut self, _signal: i32, _cx: &mut Context<'_>) {}

    /// Somebody asked the program to stop ([`Context::stop`]). An element that directs the run
    /// (Script, DriverManager) returns true when it wants to go on.
    fn stopped(&mut self, _cx: &mut Context<'_>) -> bool {
        false
    }

    /// The handlers, in the order they are listed in. Those that every element has (`name`,
    /// `class`, `config`, `ports`, `handlers`, and with a task `scheduled`, `tickets`,
    /// `home_thread`) are not among them.
    fn handlers(&self) -> Vec<Handler> {
        Vec::new()
    }

    /// Reads a handler. `argument` is empty unless the handler takes one.
    fn read(&mut self, handler: &str, argument: &str, cx: &mut Context<'_>) -> Result<String, HandlerError> {
        let _ = (argument, cx);
        Err(HandlerError::unknown(handler))
    }

    /// Writes a handler.
    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let _ = (value, cx);
        Err(HandlerError::unknown(handler))
    }

    /// Whether it goes on as it is in a graph that takes this one's place, if its configuration did
    /// not change. One that is to begin anew, as a script does, says no.
    fn stays(&self) -> bool {
        true
    }

    /// Whether another configuration can be written to its `config` handler. Then its class makes a
    /// new one, which begins ([`Element::initialize`]) and takes this one's place
    /// ([`Element::succeed`]).
    fn reconfigures(&self) -> bool {
        false
    }

    /// Takes the place of `old`, of the same class, whose `config` handler was written: keeps what
    /// is not said by arguments. Its timers and its turn are as they were.
    fn succeed(&mut self, old: Box<dyn Element>, _cx: &mut Context<'_>) {
        self.take_state(old);
    }

    /// Takes over what an element of the same name and class knew, in the graph that this one's
    /// replaces. Elements that stay ([`Element::stays`]) and whose configuration did not change are
    /// moved into the new graph whole, and are not asked.
    fn take_state(&mut self, _old: Box<dyn Element>) {}
}
