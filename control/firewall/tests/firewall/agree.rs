//! Random filters are written for nftables, loaded, read back, and adopted: both judge random
//! packets alike. That Linux judges as what is written for it is the rules' own test.

#[path = "../../../../tables/rules/tests/rules/pools.rs"]
mod pools;

use pools::Random;
use rules::{Context, Decision, Filter, Hook, Now, Outcome, Policy};
use wire::Headers;

const NAMES: [&str; 3] = ["eth0", "eth1", "wlan*"];

/// A random filter of what can be read back: nftables' own words for the rest are not adopted.
fn filter(random: &mut Random) -> Filter {
    let text = pools::filter(random, 10);
    let read = Filter::read("random", &text, &mut |_| Err(std::io::ErrorKind::NotFound.into()));
    let mut filter = read.unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
    for rule in filter.chains.iter_mut().flat_map(|chain| &mut chain.rules) {
        (rule.effects.log, rule.effects.police) = (None, None);
        (rule.matches.rate, rule.matches.time, rule.matches.fragment) = (None, None, None);
    }
    filter.resolve(pools::ports);
    filter
}

/// What becomes of a packet that passes these, one behind the other.
fn through(ways: &[(&Filter, Hook)], headers: &Headers, context: &Context) -> Decision {
    let (mut headers, mut context) = (*headers, *context);
    let mut last = Decision::default();
    for (filter, hook) in ways {
        let decision = filter.evaluate(*hook, &headers, &context, &Now::default(), None);
        (headers.dscp, context.mark) = (decision.dscp.unwrap_or(headers.dscp), decision.mark);
        last = Decision { dscp: decision.dscp.or(last.dscp), ..decision };
        if decision.outcome != Outcome::Accept {
            break;
        }
    }
    last
}

#[test]
fn what_was_written_for_linux_is_read_back() {
    let mut random = Random(20_261_127);
    let names = NAMES.map(str::to_owned);
    let mut judged = [0; 2];
    for _ in 0..60 {
        let mut own = filter(&mut random);
        let beside = filter(&mut random);
        let text = own.nftables(&names, None, true).expect("all can be said");
        // What shows its upper layer's header is asked for in raw bytes there; ports ask for it as
        // well.
        let text = text.replace("inet bifrost", "inet others").replace("@th,0,24 >= 0 ", "");
        let text = match random.chance(50) {
            false => text,
            true => {
                // What passes its rules meets the policy of Linux's own chain.
                own.chains[..3].iter_mut().for_each(|chain| chain.policy = Policy::Drop);
                text.replace("; policy accept;", "; policy drop;")
            }
        };
        // Else no destination is translated.
        let adopted = super::adopted_beside(&text, true);
        assert!(adopted.problems.is_empty(), "{:#?}\n{text}", adopted.problems);
        assert_eq!(adopted.families, [true; 2]);
        let (mut alone, mut both) = (adopted.filter.clone(), adopted.behind(&beside));
        alone.resolve(pools::ports);
        both.resolve(pools::ports);
        for _ in 0..400 {
            let (headers, context) = pools::packet(&mut random, None);
            let known = |port: u16| port < 4;
            if !known(context.in_port) || !context.out_port.is_some_and(known) {
                continue;
            }
            // At Linux's `forward` the chains of two hooks stand.
            let forward = [(&own, Hook::Forward), (&own, Hook::Output)];
            for hooks in [&[(&own, Hook::Input)][..], &forward] {
                let hook = hooks[0].1;
                let meant = through(hooks, &headers, &context);
                let said = through(&[(&alone, hook)], &headers, &context);
                let with_another = through(&[(&alone, hook), (&beside, hook)], &headers, &context);
                let in_one = through(&[(&both, hook)], &headers, &context);
                let what = |decision: &Decision| match decision.outcome {
                    Outcome::Accept => (decision.outcome, decision.mark, decision.dscp),
                    other => (other, 0, None),
                };
                let reset = |(outcome, mark, dscp)| match outcome {
                    // Who tells the sender is another's to say: Linux is told in two lines.
                    Outcome::Reject(rules::Reject::Auto) if headers.protocol == wire::protocol::TCP => {
                        (Outcome::Reject(rules::Reject::TcpReset), mark, dscp)
                    }
                    Outcome::Reject(rules::Reject::Auto) => {
                        (Outcome::Reject(rules::Reject::Icmp(wire::IcmpError::RefusedPort)), mark, dscp)
                    }
                    other => (other, mark, dscp),
                };
                assert_eq!(what(&in_one), what(&with_another), "{hook:?} {headers:?} {context:?}\n{text}");
                assert_eq!(what(&said), reset(what(&meant)), "{hook:?} {headers:?} {context:?}\n{text}");
                judged[usize::from(meant.outcome == Outcome::Accept)] += 1;
            }
        }
    }
    assert!(judged.iter().all(|count| *count > 1000), "{judged:?} were dropped, accepted");
}
