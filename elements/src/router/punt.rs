//! Punt: to Linux, whole.
//!
//! What Bifrost cannot complete itself is handed over as it came in; Linux sees it arrive on the port that it came by. The
//! class decides which limit it counts against.

use graph::{Batch, Context, Element};
use wire::Class;

/// Hands packets to Linux. No outputs.
pub struct Punt {
    /// `None`: what the packet itself says.
    class: Option<Class>,
}

impl Punt {
    /// Transit that Linux completes: class `unresolved`.
    pub fn transit() -> Punt {
        Punt { class: Some(Class::Unresolved) }
    }

    /// Packets for this machine: each by its own class.
    pub fn local() -> Punt {
        Punt { class: None }
    }
}

impl Element for Punt {
    fn class(&self) -> &'static str {
        "Punt"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &[]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        for packet in batch.drain() {
            let class = self.class.unwrap_or_else(|| Class::of_frame(packet.data()));
            cx.punt(packet, class);
        }
    }
}
