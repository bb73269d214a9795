//! `[graph]`, `[filter]` and `[nat]`: the graph that workers run, and what it judges and translates
//! by. What samples for sFlow is in that graph as well.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use config::Router;
use fib::Locality;
use firewall::Adopted;
use graph::Registry;
use tracing::{debug, info};

use super::absent;
use super::forwarding::Forwarding;
use super::section::{Change, Section};
use super::settings;

/// What is prepared.
#[derive(Default)]
pub(crate) struct Rules {
    prepared: Option<plane::Change>,
}

impl Section for Rules {
    fn check(router: &Router, registry: &Registry) -> Result<Vec<String>, String> {
        let of_graph = elements::router::standard::check(&settings::hooks(&router.graph), registry)
            .map_err(|refusal| refusal.to_string())?;
        let mut warnings: Vec<_> = of_graph.lines().map(str::to_owned).collect();
        let of_filter = router.filter.check().map_err(|error| error.to_string())?;
        warnings.extend(of_filter.iter().map(ToString::to_string));
        warnings.extend(absent::warnings(router));
        Ok(warnings)
    }

    fn effects(&self, change: &Change) -> Vec<String> {
        let mut effects = Vec::new();
        if change.differs(|router| &router.graph) {
            effects.push(
                "[graph]: workers run another graph; elements that stay keep what they know".to_owned(),
            );
        }
        if change.differs(|router| &router.filter) {
            let [before, after] = [&change.before, &change.after].map(|router| router.filter.rules().count());
            effects.push(format!(
                "[filter]: {after} rules for {before}; each flow is judged by them with its next packet"
            ));
        }
        if change.differs(|router| &router.nat) {
            effects.push(
                "[nat]: new flows are translated by other rules; those there are keep theirs".to_owned(),
            );
        }
        effects
    }

    fn prepare(&mut self, change: &mut Change, forwarding: &mut Forwarding) -> Result<(), String> {
        let (hooks, policy) = wanted(change, forwarding);
        self.prepared = Some(forwarding.plane.prepare(hooks, policy).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn apply(&mut self, _: &Change, forwarding: &mut Forwarding) {
        forwarding.put_in_force(self.prepared.take());
    }

    fn abort(&mut self, forwarding: &mut Forwarding) {
        if let Some(prepared) = self.prepared.take() {
            forwarding.plane.abandon(prepared);
        }
    }
}

/// What a change comes to. Linux's own firewall stays as it is, until what it could touch is left
/// to Linux.
fn wanted(change: &Change, forwarding: &Forwarding) -> (plane::Hooks, plane::PolicySettings) {
    let policy = settings::policy(&change.after, &forwarding.firewall, change.sampling.clone());
    (settings::hooks(&change.after.graph), policy)
}

impl Forwarding {
    /// Has workers judge by another firewall of Linux's.
    ///
    /// # Errors
    /// Its rules cannot be compiled, or there is no memory: nothing has changed.
    pub(super) fn judge_by(&mut self, firewall: Adopted) -> Result<(), String> {
        let sampling = self.plane.policy().settings().sampling.clone();
        let policy = settings::policy(&self.router, &firewall, sampling);
        let hooks = settings::hooks(&self.router.graph);
        let prepared = self.plane.prepare(hooks, policy).map_err(|error| error.to_string())?;
        // Flows outlive the rules, so Linux is told of them until it translates by none.
        if firewall.nat.is_some() || firewall.families == [true; 2] {
            self.copy_is_due |= self.linux_nat != firewall.nat;
            self.linux_nat.clone_from(&firewall.nat);
        }
        self.put_in_force(Some(prepared));
        self.firewall = firewall;
        Ok(())
    }

    fn put_in_force(&mut self, prepared: Option<plane::Change>) {
        let translated = self.plane.policy().translates();
        if let Some(prepared) = prepared {
            self.plane.adopt(prepared, &mut self.tables);
        }
        self.watches.follow(&mut self.plane);
        if self.plane.policy().translates() != translated {
            let model = self.mirror.model();
            let own = model.addresses().map(|own| own.net.addr());
            let locals = own.map(|address| (address, model.locality(address))).collect();
            self.tell_local(locals);
        }
        self.translate();
    }

    /// Tells the driver which of the router's own addresses are for Linux at once. While addresses
    /// are translated none is: answers to translated flows come to them, and workers look whether
    /// they do.
    pub(super) fn tell_local(&mut self, addresses: BTreeMap<IpAddr, Locality>) {
        let translated = self.plane.policy().translates();
        let driver = self.plane.driver_mut();
        for (address, of) in addresses {
            let told = match of.any() && !translated {
                true => driver.add_local(address, of),
                false => driver.remove_local(address),
            };
            if let Err(error) = told {
                debug!("{address}: {error}");
            }
        }
    }

    /// Puts the rules of address translation in force for the addresses that Linux has on their
    /// interfaces, whether those are taken yet or not: a flow that lives must not lose its address
    /// while ports are being taken.
    pub(super) fn translate(&mut self) {
        let model = self.mirror.model();
        let mut addresses: HashMap<&str, Vec<IpAddr>> = HashMap::new();
        for address in model.addresses() {
            let Some(link) = model.links.by_index(address.ifindex) else { continue };
            addresses.entry(&link.name).or_default().push(address.net.addr());
        }
        self.plane.translate(|name| addresses.get(name).cloned().unwrap_or_default());
        self.log_blocks();
        self.copy_is_due |= self.router.nat.is_some() || self.linux_nat.is_some();
    }

    /// Logs how blocks of ports follow from hosts, when it is another way than before.
    fn log_blocks(&mut self) {
        let rules = self.plane.policy().settings().nat.as_ref();
        let lines = rules.map(nat::Rules::log_lines).unwrap_or_default();
        lines
            .iter()
            .filter(|line| !self.blocks.contains(line))
            .for_each(|line| info!(target: "nat", "{line}"));
        self.blocks = lines;
    }
}
