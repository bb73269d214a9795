//! What a change of rules does to the flows that live.
//!
//! Every flow is judged by new rules with its next packet, in the state that it is in then; what it
//! was translated to it keeps. So the rules of the candidate are asked about such a packet of each
//! flow, both ways, and those in force as well: what they drop already is not the change's doing.
//! The control thread only says where to look; the rest is done by who asks, on the table as it is
//! then, a few thousand entries at a time.

use std::collections::HashMap;
use std::sync::Arc;

use ::rules::{BATCH, Compiled, Context, Decision, Filter, FlowState, Hook, Ledger, Now, Outcome, RuleId};
use config::Router;
use flow::{Account, Phase, Table, Tuple};
use wire::{Headers, icmp4, icmp6, protocol, tcp};

use super::control::{Control, Door};
use super::reload::Reloading;
use crate::screen::units;

/// Entries of the flow table looked at before others may free theirs.
const STEP: u32 = 4096;
/// Rules that are told.
const TOP: usize = 10;

/// Where to look, and by what to judge.
struct Forecast {
    table: Arc<Table>,
    /// The rules in force, and those that may be.
    filters: [Filter; 2],
    local_offset: i32,
}

/// Who decides that a packet is dropped.
type Dropper = (Hook, Option<RuleId>);

/// What comes of the flows.
#[derive(Default)]
struct Found {
    flows: u64,
    /// That would be dropped, and are not yet.
    dropped: HashMap<Dropper, u64>,
    /// That are dropped now, and would not be.
    freed: u64,
}

impl Reloading {
    /// What a configuration does to the flows that live, a line each; nothing where it has the same
    /// rules, or flows are not tracked.
    pub(super) fn forecast(&self, door: &Door, router: &Router) -> Result<Vec<String>, String> {
        let router = router.clone();
        match self.on_control(door, move |control| Ok(control.forecast(&router)))? {
            Some(forecast) => forecast.lines(),
            None => Ok(Vec::new()),
        }
    }
}

impl Control {
    fn forecast(&self, after: &Router) -> Option<Forecast> {
        let forwarding = &self.forwarding;
        let policy = forwarding.plane.policy();
        let table = policy.table()?.clone();
        if forwarding.router.filter == after.filter {
            return None;
        }
        let (compiled, _) = policy.book().current();
        let mut before = Filter::clone(compiled.filter());
        // Members may have come and gone since it was compiled.
        before.sets = compiled.sets().to_vec();
        let mut filter = forwarding.firewall.behind(&after.filter);
        filter.resolve(|word| {
            let means =
                |name: &str| word.strip_suffix('*').map_or(word == name, |start| name.starts_with(start));
            forwarding.plane.interface_names().filter(|(name, _)| means(name)).map(|(_, id)| id.0).collect()
        });
        Some(Forecast { table, filters: [before, filter], local_offset: policy.book().local_offset() })
    }
}

impl Forecast {
    fn lines(self) -> Result<Vec<String>, String> {
        let compile = |filter: &Filter| {
            let filter = Arc::new(filter.with_rates_kept());
            let accounts = Ledger::new(1).open(&filter);
            Compiled::new(filter, accounts).map_err(|error| error.to_string())
        };
        let [before, after] = &self.filters;
        let compiled = [compile(before)?, compile(after)?];
        let utc = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let utc = utc.map_or(0, |since| since.as_secs() as i64);
        let now = Now { monotonic: 0, utc, local_offset: self.local_offset };
        let worker = self.table.worker().map_err(|error| error.to_string())?;
        let (mut found, mut next) = (Found::default(), Some(0));
        let steady = graph::steady_now();
        while let Some(from) = next {
            let mut accounts = Vec::new();
            worker.online();
            next = worker.flows(from, STEP, steady, &mut |_, account| accounts.push(*account));
            worker.offline();
            found.look(&compiled, &now, &accounts);
        }
        Ok(found.told(after))
    }
}

impl Found {
    fn look(&mut self, compiled: &[Compiled; 2], now: &Now, accounts: &[Account]) {
        // What only Linux sees both ways of is judged by Linux; what has ended by nobody.
        let passes = |account: &&Account| {
            !account.ports.contains(&flow::NO_PORT)
                && !matches!(account.phase, Phase::Finished | Phase::Reset)
        };
        let accounts: Vec<&Account> = accounts.iter().filter(passes).collect();
        for batch in accounts.chunks(BATCH / 2) {
            let packets: Vec<Packet> = batch.iter().flat_map(|account| Packet::both_ways(account)).collect();
            let [before, after] = compiled.each_ref().map(|compiled| droppers(compiled, now, &packets));
            for (before, after) in before.chunks(2).zip(after.chunks(2)) {
                self.flows += 1;
                let now = before.iter().flatten().next();
                match (now, after.iter().flatten().next()) {
                    (None, Some(dropper)) => *self.dropped.entry(*dropper).or_default() += 1,
                    (Some(_), None) => self.freed += 1,
                    _ => {}
                }
            }
        }
    }

    fn told(self, filter: &Filter) -> Vec<String> {
        let all = units::count(self.flows);
        let dropped: u64 = self.dropped.values().sum();
        let mut lines = vec![match dropped {
            0 => format!("flows: of {all} that live none would be dropped that is not dropped now"),
            some => format!("flows: of {all} that live {} would be dropped", units::count(some)),
        }];
        let mut droppers: Vec<(Dropper, u64)> = self.dropped.into_iter().collect();
        droppers.sort_by_key(|((hook, rule), count)| (u64::MAX - count, *hook, *rule));
        for ((hook, rule), count) in droppers.iter().take(TOP) {
            lines.push(format!("  {} {}", units::count(*count), by(filter, *hook, *rule)));
        }
        if let Some((_, rest)) = droppers.split_at_checked(TOP).filter(|(_, rest)| !rest.is_empty()) {
            let count: u64 = rest.iter().map(|(_, count)| count).sum();
            lines.push(format!("  {} by {} others", units::count(count), rest.len()));
        }
        if self.freed > 0 {
            lines.push(format!("flows: {} that are dropped now would pass", units::count(self.freed)));
        }
        lines
    }
}

fn by(filter: &Filter, hook: Hook, rule: Option<RuleId>) -> String {
    match rule.and_then(|id| filter.rule(id)) {
        Some((chain, rule)) => {
            let name = rule.name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
            format!("by rule {name}({}) of chain {}: {rule}", rule.place, chain.name)
        }
        None => format!("by the policy of chain {}", hook.name()),
    }
}

/// The next packet of a flow, one way.
struct Packet {
    /// As it comes.
    came: Headers,
    /// Bound for where it really goes.
    bound: Headers,
    /// By which port, and out by which.
    ports: [u16; 2],
    state: FlowState,
    /// The flow's destination is translated.
    dnat: bool,
}

impl Packet {
    fn both_ways(account: &Account) -> [Packet; 2] {
        let unanswered = matches!(account.phase, Phase::Unreplied | Phase::Opening);
        let (Account { original, reply, ports: [input, output], .. }, dnat) = (account, account.has_dnat());
        let length = |way: usize| {
            let average = account.bytes[way] / account.packets[way].max(1);
            u16::try_from(average).unwrap_or(u16::MAX)
        };
        let forth = if unanswered { FlowState::New } else { FlowState::Established };
        let syn = account.phase == Phase::Opening;
        let back = FlowState::Established;
        [
            Packet::new(original, &reply.reversed(), [*input, *output], forth, length(0), syn, false),
            Packet::new(reply, &original.reversed(), [*output, *input], back, length(1), false, true),
        ]
        .map(|packet| Packet { dnat, ..packet })
    }

    fn new(
        came: &Tuple,
        leaving: &Tuple,
        ports: [u16; 2],
        state: FlowState,
        length: u16,
        syn: bool,
        answer: bool,
    ) -> Packet {
        let version = if came.source_address().is_ipv4() { 4 } else { 6 };
        let icmp_type = match (came.protocol, answer) {
            (protocol::ICMP, false) => icmp4::ECHO,
            (protocol::ICMP, true) => icmp4::ECHO_REPLY,
            (protocol::ICMP6, false) => icmp6::ECHO,
            (protocol::ICMP6, true) => icmp6::ECHO_REPLY,
            _ => 0,
        };
        let tcp_flags = match came.protocol {
            protocol::TCP if syn => tcp::flag::SYN,
            protocol::TCP => tcp::flag::ACK,
            _ => 0,
        };
        let came = Headers {
            source: came.source,
            destination: came.destination,
            version,
            protocol: came.protocol,
            source_port: came.source_port,
            destination_port: came.destination_port,
            tcp_flags,
            icmp_type,
            ttl: 64,
            length,
            ..Headers::default()
        };
        // What will be of the other family rules know as it came.
        let same = leaving.destination_address().is_ipv4() == (version == 4);
        let (destination, port) = match same {
            true => (leaving.destination, leaving.destination_port),
            false => (came.destination, came.destination_port),
        };
        let port = if protocol::has_ports(came.protocol) { port } else { came.destination_port };
        let bound = Headers { destination, destination_port: port, ..came };
        Packet { came, bound, ports, state, dnat: false }
    }
}

/// Who drops each of these packets, up to a batch.
fn droppers(compiled: &Compiled, now: &Now, packets: &[Packet]) -> Vec<Option<Dropper>> {
    let mut droppers: Vec<Option<Dropper>> = vec![None; packets.len()];
    let mut marks = vec![0; packets.len()];
    for hook in Hook::ALL.into_iter().filter(|hook| !compiled.passes_all(*hook)) {
        let seen = |packet: &Packet| if hook == Hook::Input { packet.came } else { packet.bound };
        let headers: Vec<Headers> = packets.iter().map(seen).collect();
        let contexts: Vec<Context> = packets
            .iter()
            .zip(&marks)
            .map(|(packet, mark)| Context {
                in_port: packet.ports[0],
                out_port: (hook != Hook::Input).then_some(packet.ports[1]),
                state: packet.state,
                dnat: packet.dnat,
                mark: *mark,
            })
            .collect();
        let mut decisions = vec![Decision::default(); packets.len()];
        compiled.classify(0, hook, now, &headers, &contexts, &mut decisions);
        for ((dropper, mark), decision) in droppers.iter_mut().zip(&mut marks).zip(&decisions) {
            *mark = decision.mark;
            if decision.outcome != Outcome::Accept {
                dropper.get_or_insert((hook, decision.rule));
            }
        }
    }
    droppers
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::{Opening, Settings, Worker};

    const ENDS: [[u8; 4]; 3] = [[10, 1, 0, 1], [203, 0, 113, 1], [10, 1, 0, 9]];

    fn table(memory: usize) -> Arc<Table> {
        Table::new(&Settings { memory, ..Settings::default() }).unwrap()
    }

    /// Begins UDP flows of these numbers to port 53 of an address; what is led elsewhere is
    /// answered from there.
    fn begin(worker: &mut Worker, numbers: std::ops::Range<u32>, to: [u8; 4], led: Option<([u8; 4], u16)>) {
        for number in numbers {
            let [_, a, b, c] = number.to_be_bytes();
            let ip = [
                &[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, a, b, c][..],
                &to[..],
                &[0x9c, 0x40, 0, 53, 0, 8, 0, 0],
            ]
            .concat();
            let headers = Headers::parse(&ip).unwrap();
            let original = Tuple::of(&headers, 0);
            let reply = led.map(|(source, source_port)| Tuple {
                source: wire::headers::mapped(source),
                source_port,
                ..original.reversed()
            });
            let opening = Opening { headers: &headers, ip: &ip, original, reply, ports: [0, 1], mark: 0 };
            worker.insert(&opening, 1_000_000).unwrap();
        }
    }

    fn filter(text: &str) -> Filter {
        let mut filter = Filter::read("f", text, &mut |_| Err(std::io::ErrorKind::NotFound.into())).unwrap();
        filter.resolve(|name| if name == "left" { vec![0] } else { vec![1] });
        filter
    }

    fn lines(table: &Arc<Table>, before: &str, after: &str) -> Vec<String> {
        let filters = [filter(before), filter(after)];
        Forecast { table: table.clone(), filters, local_offset: 0 }.lines().unwrap()
    }

    #[test]
    fn flows_are_judged_both_ways_as_they_are() {
        let table = table(4 << 20);
        let mut worker = table.worker().unwrap();
        begin(&mut worker, 0..1_200, ENDS[0], None);
        begin(&mut worker, 5_000..5_010, ENDS[1], Some((ENDS[2], 5353)));
        worker.offline();
        let told = |before: &str, after: &str| lines(&table, before, after);
        let none = ["flows: of 1,210 that live none would be dropped that is not dropped now"];
        assert_eq!(told("chain forward", "chain forward\naccept udp\ndrop"), none);
        // Answers are of a flow; the first packets not yet.
        let after = "chain forward policy drop\naccept state established\naccept state new from 10.0.0.0/25";
        let expected =
            ["flows: of 1,210 that live 1,082 would be dropped", "  1,082 by the policy of chain forward"];
        assert_eq!(told("chain forward", after), expected);
        let after = "chain forward policy drop\naccept udp in left to any port 53 name asks";
        assert!(told("chain forward", after)[0].contains("1,210 would be dropped"), "answers too");
        // Rules for transit see where it really goes, those before it where it said.
        let after = "chain input\ndrop to 10.1.0.9 name never\nchain forward\ndrop in left to 10.1.0.9 port 5353 name led";
        let expected = [
            "flows: of 1,210 that live 10 would be dropped",
            "  10 by rule led (f:4) of chain forward: drop to 10.1.0.9 port 5353 in left",
        ];
        assert_eq!(told("chain forward", after), expected);
        // What is dropped already is not the change's doing; rates are kept to.
        let before = "chain input\ndrop from 10.0.0.0/24 in left";
        let after = "chain input\nreject from 10.0.0.0/25 in left\ndrop rate over 1pps\npolice 8kbit\nlog";
        let expected = [none[0], "flows: 128 that are dropped now would pass"];
        assert_eq!(told(before, after), expected);
    }

    #[test]
    fn the_most_are_told_first_and_the_rest_together() {
        let table = table(4 << 20);
        let mut worker = table.worker().unwrap();
        begin(&mut worker, 0..120, ENDS[0], None);
        worker.offline();
        let rules: Vec<String> = (0..15)
            .map(|n| format!("drop from 10.0.0.{}-10.0.0.{}", n * (n + 1) / 2, (n + 1) * (n + 2) / 2 - 1))
            .collect();
        let said = lines(&table, "chain forward", &format!("chain forward\n{}", rules.join("\n")));
        assert_eq!(said[0], "flows: of 120 that live 120 would be dropped");
        assert!(said[1].starts_with("  15 by rule (f:16) of chain forward"), "{said:?}");
        assert_eq!((said.len(), said.last().unwrap().as_str()), (12, "  15 by 5 others"));
    }
}
