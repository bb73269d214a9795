//! What packets are judged by, in the filter's language: for Bifrost, and by `rules`' translation
//! for Linux.

use lab::prefixes::Random;
use rules::Filter;

use crate::ExperimentError;

/// Rules of the long list: those that the core routers of Uppsala University had in 2008.
const RULES: usize = 600;

/// What packets are judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// Nothing: all pass.
    Nothing,
    /// An access list of 600 rules, the last of which takes what no other one does: all that is
    /// sent here.
    Rules,
    /// The list, behind rules that let established flows pass: connection tracking.
    Tracked,
}

impl Judge {
    /// The chain `forward` in words; empty for [`Judge::Nothing`].
    pub fn rules(self) -> String {
        match self {
            Judge::Nothing => String::new(),
            Judge::Rules => long(),
            Judge::Tracked => "drop state invalid\naccept state established,related\n".to_owned() + &long(),
        }
    }

    /// The filter.
    pub fn filter(self) -> Result<Filter, ExperimentError> {
        let text = format!("chain forward policy drop\n{}", self.rules());
        let text = if self == Judge::Nothing { String::new() } else { text };
        let read = Filter::read("experiment", &text, &mut |_| Err(std::io::ErrorKind::NotFound.into()));
        read.map_err(|mistakes| ExperimentError::Words(mistakes.to_string()))
    }

    /// The same in router.toml.
    pub fn toml(self) -> String {
        match self {
            Judge::Nothing => String::new(),
            _ => format!("[filter.forward]\npolicy = \"drop\"\nrules = \"\"\"\n{}\"\"\"\n", self.rules()),
        }
    }
}

/// Rules about other hosts and services, and then one for everything.
fn long() -> String {
    let mut random = Random(600);
    let mut text = String::new();
    for _ in 1..RULES {
        let action = if random.chance(60) { "accept" } else { "drop" };
        let protocol = if random.chance(75) { "tcp" } else { "udp" };
        let from = format!("172.{}.{}.0/24", 16 + random.below(16), random.below(256));
        let to = format!("192.168.{}.{}", random.below(256), random.below(256));
        text += &format!("{action} {protocol} from {from} to {to} port {}\n", 1 + random.below(1024));
    }
    text + "accept\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_rules_for_both() {
        for (judge, count) in [(Judge::Rules, RULES), (Judge::Tracked, RULES + 2)] {
            let filter = judge.filter().unwrap();
            assert_eq!(filter.rules().count(), count);
            assert!(filter.nftables(&["in0".to_owned()], None, true).unwrap().contains("at_forward"));
            assert!(judge.toml().starts_with("[filter.forward]"));
        }
        assert_eq!(Judge::Nothing.filter().unwrap().rules().count(), 0);
    }
}
