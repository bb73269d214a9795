//! What the router's rules say of the packets that tunnels are made of: those between a tunnel's
//! two ends, which this machine itself sends and receives.
//!
//! Linux judges these packets like all others: the chain `input` when they come in, `output` when
//! they leave, by the state of a flow that they have of their own. It translates them where a rule
//! says so. Workers keep no flow of them. To the rules all packets of a tunnel that pass an
//! interface the same way are alike. So the rules are asked once, and again when they change.
//!
//! Only a plain yes is the plane's: the packet passes whatever the state of its flow, no rule wants
//! to see each one (to count, log or limit it), and none translates it. Everything else is Linux's,
//! which knows the flow. It has to see both ways of that: so a tunnel of which either way is
//! Linux's is Linux's as a whole, which the daemon sees to. Workers ask for themselves as well, so
//! that rules hold with the next packet.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use fib::{Ends, Gre, InterfaceId, Tunnel, TunnelWord};
use flow::Tuple;
use graph::Setup;
use nat::Nat;
use rules::{Compiled, Context, Decision, Filter, FlowState, Hook, Now, Outcome, RuleId};
use wire::headers::mapped;
use wire::{Headers, ipv4, ipv6};

use super::context::SharedContext;
use super::rulebook::{Reader, Rulebook};

/// Answers that are remembered; with more than that the first ones are forgotten.
const KNOWN: usize = 4096;

/// Packets of a tunnel that pass an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outer {
    /// What their header says.
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    key: Option<u32>,
    /// The port of UDP that those of a VXLAN go to, from one of many; else 0.
    port: u16,
    /// Where they come in or leave.
    interface: InterfaceId,
    /// Whether they leave.
    leaves: bool,
}

/// Why packets of a tunnel are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barred {
    /// A chain might not let them pass in this state, or is to see each one.
    Rules(FlowState),
    /// A rule of address translation would change them.
    Translation,
    /// A rule asks for a source port, of which each flow in a VXLAN has another.
    SourcePort,
}

impl Outer {
    /// Packets with these ends and this protocol that come in by an interface.
    pub(super) fn received(ends: &Ends, protocol: u8, interface: InterfaceId) -> Outer {
        let Ends { remote: source, local: destination, key, port, .. } = *ends;
        Outer { source, destination, protocol, key, port, interface, leaves: false }
    }

    /// Packets of a tunnel that come in by an interface, and those that leave by it.
    pub fn all(tunnel: &Tunnel, interface: InterfaceId) -> impl Iterator<Item = Outer> {
        let (ends, protocols) = (tunnel.ends(), tunnel.payload.protocols());
        let [_, Gre { key, .. }] = tunnel.payload.fields();
        let key = tunnel.payload.vxlan().map(|vxlan| vxlan.vni).or(key);
        protocols.iter().flat_map(move |protocol| {
            let received = Outer::received(&ends, *protocol, interface);
            let (source, destination) = (received.destination, received.source);
            [received, Outer { source, destination, key, leaves: true, ..received }]
        })
    }

    /// Packets of a tunnel that leave by an interface, with this version of IP inside.
    pub(super) fn sent(tunnel: &TunnelWord, version: u8, interface: InterfaceId) -> Outer {
        let [source, destination] = tunnel.addresses();
        let (protocol, vxlan) = (tunnel.protocol(version), tunnel.vxlan());
        let key = vxlan.map(|(vni, _)| vni).or_else(|| tunnel.key_out());
        let port = vxlan.map_or(0, |(_, port)| port);
        Outer { source, destination, protocol, key, port, interface, leaves: true }
    }

    /// Whether they leave.
    pub fn leaves(&self) -> bool {
        self.leaves
    }

    fn headers(&self) -> Headers {
        let [source_port, destination_port] = match (self.port, self.key) {
            (0, Some(key)) => [(key >> 16) as u16, key as u16],
            (port, _) => [0, port],
        };
        let bits = |address| match address {
            IpAddr::V4(address) => mapped(address.octets()),
            IpAddr::V6(address) => address.octets(),
        };
        let (version, transport) = if self.source.is_ipv4() { (4, ipv4::HEADER) } else { (6, ipv6::HEADER) };
        Headers {
            source: bits(self.source),
            destination: bits(self.destination),
            version,
            protocol: self.protocol,
            source_port,
            destination_port,
            transport: transport as u16,
            ..Headers::default()
        }
    }

    fn hook(&self) -> Hook {
        if self.leaves { Hook::Output } else { Hook::Input }
    }

    fn context(&self, state: FlowState) -> Context {
        let of = self.interface.0;
        let (in_port, out_port) = if self.leaves { (InterfaceId::NONE.0, Some(of)) } else { (of, None) };
        Context { in_port, out_port, state, ..Context::default() }
    }

    /// Whether these packets pass rules and are not translated; the rule that lets them. `rules`
    /// remember something of their own ([`Compiled::for_dry_run`]); `tracked`: the router knows
    /// flows.
    ///
    /// # Errors
    /// Why they are Linux's.
    pub fn pass(&self, rules: &Compiled, nat: Option<&Nat>, tracked: bool) -> Result<Option<RuleId>, Barred> {
        let states: &[_] = match tracked {
            true => &[FlowState::New, FlowState::Established],
            false => &[FlowState::Untracked],
        };
        if self.port != 0 && asks_for_source_ports(rules.filter()) {
            return Err(Barred::SourcePort);
        }
        let (headers, now) = ([self.headers()], Now::default());
        let mut decision = [Decision::default()];
        for state in states {
            rules.classify(0, self.hook(), &now, &headers, &[self.context(*state)], &mut decision);
            let [Decision { outcome, varies, dscp, .. }] = decision;
            if outcome != Outcome::Accept || varies || dscp.is_some() {
                return Err(Barred::Rules(*state));
            }
        }
        match nat.is_some_and(|nat| self.is_translated(nat)) {
            true => Err(Barred::Translation),
            false => Ok(decision[0].rule),
        }
    }

    /// Why, in words.
    pub fn explain(&self, barred: Barred, filter: &Filter) -> String {
        match barred {
            Barred::Translation => "translated by a rule of [nat]".to_owned(),
            Barred::SourcePort => "judged by their source ports".to_owned(),
            Barred::Rules(state) => {
                let (headers, context) = (self.headers(), self.context(state));
                filter.explain(self.hook(), &headers, &context, &Now::default()).summary
            }
        }
    }

    fn is_translated(&self, nat: &Nat) -> bool {
        let packet = Tuple::of(&self.headers(), 0);
        let nat = nat.for_dry_run(&packet);
        match self.leaves {
            false => !matches!(nat.destination(&packet, self.interface.0), Ok(None)),
            true => !matches!(nat.bind(&packet, None, [flow::NO_PORT, self.interface.0], 0), Ok(None)),
        }
    }
}

fn asks_for_source_ports(filter: &Filter) -> bool {
    filter.rules().any(|(_, rule)| rule.matches.source_ports.is_some())
}

/// The answers of the rules in force, as a worker's element remembers them.
pub(super) struct TunnelRules {
    /// None where nothing is judged.
    policy: Option<(SharedContext, Reader)>,
    /// The rules in force, to be asked.
    rules: Option<Compiled>,
    /// Of the answers: of the filter, and of the translation.
    generation: u32,
    version: u64,
    nat: Option<Arc<Nat>>,
    worker: usize,
    tracked: bool,
    known: HashMap<Outer, Result<Option<RuleId>, ()>>,
}

impl TunnelRules {
    /// Asks the rules that an element is made for.
    pub fn of(setup: &Setup<'_>) -> TunnelRules {
        let (context, book) =
            (setup.environment.get::<SharedContext>(), setup.environment.get::<Arc<Rulebook>>());
        let policy = context.zip(book).map(|(context, book)| {
            let reader = Reader::new((*book).clone());
            ((*context).clone(), reader)
        });
        TunnelRules { policy, ..TunnelRules::none() }
    }

    /// Lets everything pass.
    pub fn none() -> TunnelRules {
        TunnelRules {
            policy: None,
            rules: None,
            generation: 0,
            version: 0,
            nat: None,
            worker: 0,
            tracked: false,
            known: HashMap::new(),
        }
    }

    /// Whether packets like this one are the plane's. Takes the worker's context where the rules
    /// have changed: not to be asked by who holds it.
    #[cold]
    pub fn let_pass(&mut self, outer: &Outer) -> bool {
        self.answer(outer).is_ok()
    }

    /// Whether a packet of so many bytes that has come in is the plane's. It is counted with the
    /// rule that lets it pass, unless the chain `input` has judged it already, as it does where no
    /// flows are known. `now` in steady nanoseconds.
    #[cold]
    pub fn take_in(&mut self, outer: &Outer, bytes: usize, now: u64) -> bool {
        self.refresh();
        !self.tracked || self.let_out(outer, bytes, now)
    }

    /// The same of one that leaves.
    #[cold]
    pub fn let_out(&mut self, outer: &Outer, bytes: usize, now: u64) -> bool {
        let answer = self.answer(outer);
        if let (Ok(Some(rule)), Some((_, reader))) = (answer, &self.policy) {
            reader.compiled().accounts().count(self.worker, rule, 1, bytes as u64, now);
        }
        answer.is_ok()
    }

    /// Whether the router knows flows.
    pub fn know_flows(&mut self) -> bool {
        self.refresh();
        self.tracked
    }

    fn answer(&mut self, outer: &Outer) -> Result<Option<RuleId>, ()> {
        self.refresh();
        let TunnelRules { rules, nat, tracked, known, .. } = self;
        let Some(rules) = rules else { return Ok(None) };
        if let Some(answer) = known.get(outer) {
            return *answer;
        }
        if known.len() >= KNOWN {
            known.clear();
        }
        let answer = outer.pass(rules, nat.as_deref(), *tracked).map_err(drop);
        known.insert(*outer, answer);
        answer
    }

    /// Forgets what rules have said that are not in force any more.
    fn refresh(&mut self) {
        let Some((context, reader)) = &mut self.policy else { return };
        reader.refresh();
        if self.generation != reader.generation() {
            let context = context.lock();
            self.worker = context.number;
            self.nat.clone_from(&context.nat);
            self.tracked = context.flows.is_some();
            drop(context);
            self.generation = reader.generation();
            self.rules = Some(reader.compiled().for_dry_run());
            self.known.clear();
        }
        let version = self.nat.as_ref().map_or(0, |nat| nat.version());
        if std::mem::replace(&mut self.version, version) != version {
            self.known.clear();
        }
    }
}
