//! `marked N[/MASK]`: the mark that an earlier rule set.

use super::{Condition, Examples, Match, Row, Test};
use crate::language::{Line, Word, number32};
use crate::mistake::Hint;
use crate::nftables::Sentence;

/// A mark to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Not this one.
    pub not: bool,
    /// The mark, within `mask`.
    pub value: u32,
    /// Which bits are compared.
    pub mask: u32,
}

pub(crate) struct ByMark;

impl Condition for ByMark {
    type Value = Mark;

    const WORDS: &'static [&'static str] = &["marked"];
    const TEST: Test<Mark> = Test::Circumstance(|wanted, circumstances| {
        (circumstances.mark & wanted.mask == wanted.value) != wanted.not
    });
    const MANUAL: Row = Some(("`marked N[/MASK]`", "the mark that an earlier rule set"));
    const EXAMPLES: Examples = Examples::Whole(&["marked 1", "marked !1", "marked 0x10/0xf0"]);

    fn read(line: &mut Line, _: &Word) -> Option<Mark> {
        let word = line.need("the mark", "a number, or number/mask")?;
        let (not, text) = word.text.strip_prefix('!').map_or((false, word.text), |text| (true, text));
        let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
        match (number32(value), number32(mask)) {
            (Some(value), Some(mask)) => Some(Mark { not, value: value & mask, mask }),
            _ => {
                let hint = Hint::expected("a number, or number/mask: 5, 0x10/0xf0");
                line.wrong(&word, format!("{text:?} is no mark"), hint);
                None
            }
        }
    }

    fn print(mark: &Mark, _: &Match) -> String {
        let not = if mark.not { "!" } else { "" };
        match mark.mask {
            u32::MAX => format!("marked {not}{:#x}", mark.value),
            mask => format!("marked {not}{:#x}/{mask:#x}", mark.value),
        }
    }

    fn nftables(mark: &Mark, sentence: &mut Sentence) -> Option<()> {
        let Mark { not, value, mask } = mark;
        let is = if *not { "!=" } else { "==" };
        sentence.say(format!("meta mark & {mask:#x} {is} {value:#x}"));
        Some(())
    }
}
