//! What an element is.

use crate::{Batch, Context};

/// One step of what happens to packets.
///
/// An element gets packets in batches by one of its inputs, and passes each on by one of its outputs, or ends its way
/// ([`Context`] has the ways). A packet it does neither with is freed when the batch is dropped or used again, and that is
/// not counted: decide about every packet.
///
/// An element belongs to one worker. What it shares with others it shares through tables made to be read without locks.
pub trait Element: Send {
    /// The kind of element, in Click's style: `DecrementTtl4`.
    fn class(&self) -> &'static str;

    /// The names of its outputs, in the order of their numbers.
    fn outputs(&self) -> &'static [&'static str];

    /// How many inputs it has.
    fn inputs(&self) -> usize {
        1
    }

    /// Handles a batch, never empty, that came by `input`. Packets left in it are freed.
    fn push(&mut self, input: usize, batch: &mut Batch, cx: &mut Context<'_>);
}
