//! TranslatedSwitch: parts packets of translated flows from others
//!
//! Group: router
//! Usage: `TranslatedSwitch`
//! Ports: 1 input, 2 outputs; push
//!
//! Stands where packets leave that only Linux can send on: what is not translated is handed over as
//! it came, and the rest is translated first and sent as it leaves.
//!
//! Outputs:
//! - 0: of no flow, or of one that is not translated
//! - 1: of a translated flow
//!
//! See also: [Translate], [Punt]

use graph::{Batch, Class, Context, Element};

use super::context::SharedContext;
use super::router_context::on_flows;

/// The class `TranslatedSwitch`.
pub const CLASS: Class = Class {
    name: "TranslatedSwitch",
    ports: "1/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("translated_switch.rs"),
    make: |arguments, setup| on_flows(arguments, setup, |_, context| TranslatedSwitch { context }),
};

/// Parts what is translated from the rest.
pub struct TranslatedSwitch {
    context: SharedContext,
}

impl Element for TranslatedSwitch {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["plain", "translated"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut context = self.context.lock();
        let mut translated = 0u64;
        for (index, packet) in batch.packets().iter().enumerate() {
            let metadata = context.metadata(packet);
            translated |=
                u64::from(metadata.is_some_and(|metadata| metadata.hit.is_some_and(|hit| hit.translated)))
                    << index;
        }
        batch.take(translated, |_, packet| cx.emit(1, packet));
        cx.emit_batch(0, batch);
    }
}
