//! By which rules a packet passes or not: those that workers ask, and Linux's copy of them for what
//! Linux alone carries.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use ::rules::{Context, Filter, FlowState, Hook, Now, Outcome};
use fib::{HopKind, InterfaceId, TableId};
use wire::{Headers, ethernet, protocol};

use super::{Step, step};
use crate::daemon::forwarding::Forwarding;

/// The packet that is asked about.
#[derive(Clone, Copy)]
pub(super) struct Asked<'f> {
    /// As it comes in.
    pub frame: &'f [u8],
    /// The table that routes it.
    pub table: TableId,
    /// Where it really goes.
    pub destination: IpAddr,
    /// That with the port, if its destination is translated.
    pub aim: Option<([u8; 16], u16)>,
}

/// How a packet enters.
#[derive(Clone, Copy)]
pub(super) enum Entry<'q> {
    /// By an interface of the plane's.
    Port(InterfaceId),
    /// By another of Linux's.
    Interface(&'q str),
    /// It is the router's own.
    Router,
}

impl Forwarding {
    /// The rules that decide at an element of the filter. `state`: of the flow that the packet
    /// belongs to.
    pub(super) fn explain_filter(
        &self,
        element: &str,
        ports: (InterfaceId, InterfaceId),
        (state, dnat): (Option<FlowState>, bool),
        asked: Asked<'_>,
        steps: &mut Vec<Step>,
    ) {
        let hooks: &[Hook] = match element.trim_end_matches(['4', '6']) {
            "input" => &[Hook::Input],
            "filter" | "unresolved" => &[Hook::Forward, Hook::Output],
            _ => return,
        };
        let policy = self.plane.policy();
        let (compiled, _) = policy.book().current();
        let otherwise = if policy.table().is_some() { FlowState::New } else { FlowState::Untracked };
        let state = state.unwrap_or(otherwise);
        let context = Context { in_port: ports.0.0, out_port: Some(ports.1.0), state, dnat, mark: 0 };
        let hooks: Vec<Hook> = hooks.iter().copied().filter(|hook| !compiled.passes_all(*hook)).collect();
        self.explain_chains(compiled.filter(), &hooks, context, asked, steps);
    }

    /// Whether workers leave what goes there to Linux, rules and all, as they see one direction of
    /// it only.
    pub(super) fn is_of_linux(&self, asked: Asked<'_>) -> bool {
        let (local, output) = self.leads(asked);
        self.plane.policy().table().is_some()
            && (local || output.is_some_and(|name| self.port_of(&name).is_none()))
    }

    /// Whether an address is this machine's, and the interface by which Linux sends what is not.
    fn leads(&self, asked: Asked<'_>) -> (bool, Option<String>) {
        let view = self.view();
        let id = view.lookup(asked.table, asked.destination);
        let found = self.mirror.explain(&self.tables, asked.table, asked.destination);
        let way = found.and_then(|found| found.route.ways.into_iter().next());
        (view.hop(id).kind() == HopKind::Local, way.map(|way| way.device))
    }

    /// The interface of the plane's that is called so.
    pub(super) fn port_of(&self, name: &str) -> Option<InterfaceId> {
        self.plane.interface_named(name)
    }

    /// The rules by which Linux decides about a packet of its own: its table has the same, in
    /// chains for packets by Bifrost's ports.
    pub(super) fn explain_linux(&self, entry: Entry<'_>, asked: Asked<'_>, steps: &mut Vec<Step>) {
        let policy = self.plane.policy();
        let (compiled, _) = policy.book().current();
        if policy.nat().is_none() && Hook::ALL.into_iter().all(|hook| compiled.passes_all(hook)) {
            return;
        }
        let (local, device) = self.leads(asked);
        let output = device.as_deref().filter(|_| !local);
        let mut hooks = Vec::new();
        if let Entry::Port(_) = entry {
            hooks.push(Hook::Input);
            hooks.extend(output.map(|_| Hook::Forward));
        }
        hooks.extend(output.and_then(|name| self.port_of(name)).map(|_| Hook::Output));
        hooks.retain(|hook| !compiled.passes_all(*hook));
        let both = match self.firewall.judges() {
            true => "by its own rules, and its copy of Bifrost's: nft list ruleset",
            false => "by its copy of the rules: nft list table inet bifrost",
        };
        match (hooks.is_empty(), policy.nat().is_some()) {
            (true, false) => {
                return step(
                    steps,
                    "Linux",
                    "lets it pass",
                    "no rule is for it: they are for packets by Bifrost's ports",
                );
            }
            (true, true) => step(steps, "Linux", "translates it, or not", both),
            (false, false) => step(steps, "Linux", "judges it", both),
            (false, true) => step(steps, "Linux", "judges and translates it", both),
        }
        // An interface that is no port has a name as well, by which rules may ask for it.
        let (input, foreign) = match entry {
            Entry::Port(id) => (id, output),
            Entry::Interface(name) => (InterfaceId::NONE, Some(name)),
            Entry::Router => (InterfaceId::NONE, None),
        };
        let foreign = foreign.filter(|name| self.port_of(name).is_none());
        let mut filter = Filter::clone(compiled.filter());
        filter.resolve(|word| {
            let means =
                |name: &str| word.strip_suffix('*').map_or(word == name, |start| name.starts_with(start));
            let ports = self.plane.interface_names().filter(|(name, _)| means(name)).map(|(_, id)| id.0);
            ports.chain(foreign.filter(|name| means(name)).map(|_| InterfaceId::NONE.0)).collect()
        });
        let out_port = output.map(|name| self.port_of(name).unwrap_or(InterfaceId::NONE).0);
        let (state, dnat) = (FlowState::New, asked.aim.is_some());
        let context = Context { in_port: input.0, out_port, state, dnat, mark: 0 };
        self.explain_chains(&filter, &hooks, context, asked, steps);
    }

    fn explain_chains(
        &self,
        filter: &Filter,
        hooks: &[Hook],
        mut context: Context,
        asked: Asked<'_>,
        steps: &mut Vec<Step>,
    ) {
        let ip = asked.frame.get(ethernet::HEADER..).unwrap_or_default();
        let Ok(headers) = Headers::parse(ip) else { return };
        // The rules for transit see where it really goes, if that is of its family.
        let same = |(address, _): &([u8; 16], u16)| nat::address(address).is_ipv4() == (headers.version == 4);
        let bound = asked.aim.filter(same).map_or(headers, |(destination, port)| {
            let port = if protocol::has_ports(headers.protocol) { port } else { headers.destination_port };
            Headers { destination, destination_port: port, ..headers }
        });
        let book = self.plane.policy().book();
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        let now = Now { monotonic: 0, utc, local_offset: book.local_offset() };
        for hook in hooks {
            let seen = if *hook == Hook::Input { &headers } else { &bound };
            let explained = filter.explain(*hook, seen, &context, &now);
            context.mark = explained.decision.mark;
            let way = explained.steps.join("\n");
            step(steps, &format!("chain {}", hook.name()), &explained.summary, &way);
            if explained.decision.outcome != Outcome::Accept {
                return;
            }
        }
    }
}
