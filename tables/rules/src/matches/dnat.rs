//! `dnat`: the destination of the packet's flow is translated.
//!
//! `accept in wan dnat` lets in what is forwarded, without naming each forward again. It is asked
//! for behind input: whether a new flow is led elsewhere is found out there. Of a flow that lives
//! both directions match, as with `ct status dnat` in nftables.

use super::{Condition, Examples, Match, Row, Test, Unknown};
use crate::language::{Line, Word};
use crate::model::Hook;
use crate::nftables::Sentence;

/// What of a flow is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Translated {
    /// Its destination.
    Destination,
}

pub(crate) struct ByTranslated;

impl Condition for ByTranslated {
    type Value = Translated;

    const WORDS: &'static [&'static str] = &["dnat"];
    const TEST: Test<Translated> = Test::Constant(|_, _, context, _| context.dnat);
    const MANUAL: Row = Some(("`dnat`", "a flow whose destination is translated; behind `input` only"));
    const EXAMPLES: Examples = Examples::Whole(&["dnat"]);
    const UNKNOWN: Option<Unknown> = Some(Unknown {
        hooks: &[Hook::Input],
        why: "at input it is not known yet where a new flow is led",
        instead: "dnat in forward or output, or in a chain that only they jump to",
    });

    fn read(_: &mut Line, _: &Word) -> Option<Translated> {
        Some(Translated::Destination)
    }

    fn print(_: &Translated, _: &Match) -> String {
        "dnat".to_owned()
    }

    fn nftables(_: &Translated, sentence: &mut Sentence) -> Option<()> {
        sentence.say("ct status dnat".to_owned());
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use wire::Headers;

    use crate::{Context, Filter, Hook, Now, Outcome};

    fn read(text: &str) -> Result<Filter, String> {
        Filter::read("f", text, &mut |_| Err(std::io::ErrorKind::NotFound.into()))
            .map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn what_is_led_elsewhere_passes() {
        let filter = read("chain forward policy drop\naccept dnat\n").unwrap();
        let outcome = |dnat| {
            let context = Context { dnat, ..Context::default() };
            filter.evaluate(Hook::Forward, &Headers::default(), &context, &Now::default(), None).outcome
        };
        assert_eq!((outcome(true), outcome(false)), (Outcome::Accept, Outcome::Drop));
        let text = filter.nftables(&[], None, true).unwrap();
        assert!(text.contains("ct status dnat counter accept"), "{text}");
    }

    #[test]
    fn it_is_known_behind_input() {
        assert!(read("chain input\naccept dnat").unwrap_err().contains("not known yet where a new flow"));
        assert!(read("chain output\naccept dnat").is_ok());
    }
}
