//! `ttl LIST`: the time to live (of IPv6 the hop limit) with which a packet came.
//!
//! `drop tcp to any port bgp ttl !255` lets only neighbours on the link open BGP's connections (RFC
//! 5082). It is asked for where packets come in: Linux's own copy of the rules sees what it
//! forwards with one hop less.

use super::{Condition, Examples, List, Match, Row, Span, Test, Unknown, set_of};
use crate::language::{Item, Line, Word, span};
use crate::mistake::Hint;
use crate::model::Hook;
use crate::nftables::Sentence;

const EXPECTED: &str = "hops, 0 to 255, and ranges of them: 1, 254-255";

pub(crate) struct ByTtl;

impl Condition for ByTtl {
    type Value = List<Span>;

    const WORDS: &'static [&'static str] = &["ttl"];
    const TEST: Test<List<Span>> =
        Test::Moment(|list, headers| list.holds(|span| span.contains(headers.ttl.into())));
    const MANUAL: Row = Some((
        "`ttl LIST`",
        "the TTL or hop limit that it came with: `255`, `!254-255`; where packets come in only",
    ));
    const EXAMPLES: Examples = Examples::Items("ttl", &["64", "255", "0-4", "2-63"]);
    const UNKNOWN: Option<Unknown> = Some(Unknown {
        hooks: &[Hook::Forward, Hook::Output],
        why: "behind input it is not known with which TTL a packet came",
        instead: "ttl in input, or in a chain that only input jumps to",
    });

    fn read(line: &mut Line, _: &Word) -> Option<List<Span>> {
        line.list("the TTL", EXPECTED, hops)
    }

    fn print(list: &List<Span>, _: &Match) -> String {
        format!("ttl {}", list.print(Span::to_string))
    }

    fn nftables(list: &List<Span>, sentence: &mut Sentence) -> Option<()> {
        let field = if sentence.ip() == "ip" { "ip ttl" } else { "ip6 hoplimit" };
        // Ranges in a set must not overlap.
        let merged = List { not: false, items: list.items.clone() }.spans();
        let set = set_of(&List { not: list.not, items: merged }, Span::to_string);
        sentence.say(format!("{field} {set}"));
        Some(())
    }

    fn by_family(_: &List<Span>) -> bool {
        true
    }
}

fn hops(text: &str) -> Item<Span> {
    span(text)
        .ok()
        .filter(|span| span.last <= u8::MAX.into())
        .ok_or_else(|| (format!("{text:?} is no TTL"), Hint::expected(EXPECTED)))
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
    fn only_neighbours_open_a_session() {
        let filter = read("chain input\ndrop tcp to any port bgp ttl !255\n").unwrap();
        let outcome = |ttl, destination_port| {
            let headers = Headers { version: 6, protocol: 6, destination_port, ttl, ..Headers::default() };
            filter.evaluate(Hook::Input, &headers, &Context::default(), &Now::default(), None)
        };
        assert_eq!(outcome(255, 179).outcome, Outcome::Accept);
        assert_eq!(outcome(254, 179).outcome, Outcome::Drop);
        assert_eq!(outcome(254, 80).outcome, Outcome::Accept);
        // The next packet of the connection may come by a longer way.
        assert!(outcome(255, 179).varies && !outcome(254, 80).varies);
    }

    #[test]
    fn it_is_the_hop_limit_in_ipv6() {
        let text = read("chain input\ndrop ttl !0-4,3-7,255\n").unwrap().nftables(&[], None, true).unwrap();
        assert!(text.contains("meta nfproto ipv4 ip ttl != { 0-7, 255 } counter drop"), "{text}");
        assert!(text.contains("meta nfproto ipv6 ip6 hoplimit != { 0-7, 255 } counter drop"), "{text}");
    }

    #[test]
    fn it_has_eight_bits_and_is_known_where_packets_come_in() {
        assert!(read("chain input\ndrop ttl 250-256").unwrap_err().contains("\"250-256\" is no TTL"));
        let jumped = "chain a\ndrop ttl 1\nchain output\njump a";
        assert!(read(jumped).unwrap_err().contains("behind input it is not known"));
        assert!(read(&jumped.replace("output", "input")).is_ok());
    }
}
