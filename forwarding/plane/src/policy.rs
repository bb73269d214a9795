//! What the router does to packets beyond forwarding them: the filter and the flow table, seen from
//! the control thread.
//!
//! The parts that workers share live longer than any graph: a changed filter is compiled beside the
//! one in force and takes its place between two batches, and a worker that is started again finds
//! the flows where they were. What only costs when it is wanted is in the graph only then
//! ([`Policy::stages`]).

use std::sync::Arc;

use elements::router::standard::Stages;
use elements::router::{ControlConnections, Ended, Rulebook, Sampling, SharedContext};
use flow::{Settings, Table, Tuple};
use graph::Environment;
use ipnet::IpNet;
use nat::Nat;
use port::Driver;
use rules::{Compiled, Filter, FlowState, Hook, Ledger};

use crate::{FlowSnapshot, PlaneError, offload};

/// Accounts of flows that may wait for the control thread.
const ACCOUNTS: usize = 1 << 16;

/// Bytes of the flow table of packets that are only thought of: for more flows than one packet
/// begins.
const DRY_RUN_MEMORY: usize = 4 << 20;

/// What is wanted.
#[derive(Clone, Debug, Default)]
pub struct PolicySettings {
    /// The filter, its interfaces not resolved.
    pub filter: Filter,
    /// The flow table; `None`: flows are not tracked, unless the filter asks for their state.
    pub flows: Option<Settings>,
    /// The rules of address translation; `None`: nothing is translated.
    pub nat: Option<nat::Rules>,
    /// Whether connections that FTP's control connections announce are let in.
    pub ftp: bool,
    /// What chooses packets for sFlow; `None`: nothing does.
    pub sampling: Option<Sampling>,
    /// Whether flows that are decided are offloaded to the driver, on ports without zero-copy.
    pub offload: bool,
}

/// What is kept of flows.
struct Flows {
    table: Arc<Table>,
    ended: Arc<Ended>,
    /// Bindings, and what control connections of FTP have announced, translated or not.
    nat: Arc<Nat>,
    ftp: Option<Arc<ControlConnections>>,
}

/// Another policy, made beside the one in force: nothing of it can be refused any more. Whoever
/// does not adopt it abandons it, for it may hold a flow table.
pub struct Prepared {
    settings: PolicySettings,
    compiled: Compiled,
    /// A flow table, where none was.
    flows: Option<Flows>,
}

impl Prepared {
    /// Gives a context access to the flows, if they are tracked only now.
    pub fn track(&self, context: &SharedContext) -> Result<(), PlaneError> {
        self.flows.as_ref().map_or(Ok(()), |flows| flows.give(context))
    }
}

/// The filter and the flow table.
pub struct Policy {
    settings: PolicySettings,
    flows: Option<Flows>,
    /// A flow table of a policy that was abandoned: the driver's programs know it already.
    spare: Option<Flows>,
    book: Arc<Rulebook>,
    ledger: Ledger,
    workers: usize,
    /// Whether flows are translated, and some into the other family. It stays so when the rules go:
    /// what a flow has been given it keeps until it ends, or its inside address would be seen
    /// outside.
    translates: bool,
    crosses: bool,
}

impl Flows {
    /// What the settings come to.
    fn wanted(
        settings: &PolicySettings,
        driver: &mut Driver,
        book: &Rulebook,
        workers: usize,
    ) -> Result<Option<Flows>, PlaneError> {
        let Some(wanted) = wanted(settings) else { return Ok(None) };
        let table = offload::table(&wanted, settings.offload.then_some(driver), book, workers)?;
        table.set_needed(is_needed(settings));
        Ok(Some(Flows {
            table,
            ended: Ended::new(ACCOUNTS),
            nat: Arc::new(Nat::new()),
            ftp: settings.ftp.then(ControlConnections::new),
        }))
    }

    fn give(&self, context: &SharedContext) -> Result<(), PlaneError> {
        context.give(self.table.worker()?, self.ended.clone(), self.nat.clone(), self.ftp.clone());
        Ok(())
    }
}

impl Flows {
    /// Gives a context a table of its own, with one flow at most, and these bindings.
    fn for_dry_run(
        &self,
        context: &SharedContext,
        nat: Arc<Nat>,
        flow: Option<&FlowSnapshot>,
    ) -> Result<(), PlaneError> {
        let table = Table::new(&Settings { memory: DRY_RUN_MEMORY, fragments: 1, ..Settings::default() })?;
        let mut worker = table.worker()?;
        flow.iter().for_each(|flow| flow.put_into(&mut worker, &nat));
        context.give(worker, Ended::new(1), nat, None);
        Ok(())
    }
}

impl Policy {
    /// For so many workers, and for the driver. `ports` says the numbers of the ports that a name
    /// or pattern stands for.
    pub fn new(
        settings: PolicySettings,
        workers: usize,
        driver: &mut Driver,
        ports: impl Fn(&str) -> Vec<u16>,
    ) -> Result<Policy, PlaneError> {
        // What the driver forwards is counted beside what the workers judge.
        let mut ledger = Ledger::new(workers + 1);
        let book = Rulebook::new(compile(&settings.filter, &mut ledger, ports)?);
        let flows = Flows::wanted(&settings, driver, &book, workers)?;
        let mut policy =
            Policy { settings, flows, spare: None, book, ledger, workers, translates: false, crosses: false };
        policy.translate_from_now_on();
        Ok(policy)
    }

    /// Follows the settings, as far as they ask for more.
    fn translate_from_now_on(&mut self) {
        self.translates |= self.settings.nat.is_some();
        self.crosses |= crosses(&self.settings);
        self.book.translate(self.translates);
    }

    /// What it puts into the graph.
    pub fn stages(&self) -> Stages {
        let (compiled, _) = self.book.current();
        self.stages_of(&self.settings, &compiled, self.flows.as_ref())
    }

    /// What another policy would put into the graph.
    pub fn stages_with(&self, prepared: &Prepared) -> Stages {
        let flows = self.flows.as_ref().or(prepared.flows.as_ref());
        self.stages_of(&prepared.settings, &prepared.compiled, flows)
    }

    fn stages_of(&self, settings: &PolicySettings, compiled: &Compiled, flows: Option<&Flows>) -> Stages {
        let rules = |hook| !compiled.passes_all(hook);
        let nat = settings.nat.as_ref();
        Stages {
            fast: true,
            flows: flows.is_some(),
            input: rules(Hook::Input),
            transit: rules(Hook::Forward) || rules(Hook::Output) || flows.is_some(),
            translation: self.translates || nat.is_some(),
            families: self.crosses || crosses(settings),
            ftp: flows.is_some_and(|flows| flows.ftp.is_some()),
            clamp: nat.is_some_and(|nat| !nat.clamps.is_empty()),
            sampling: settings.sampling.is_some(),
        }
    }

    /// The context of a worker.
    pub fn context(&self, worker: usize) -> Result<SharedContext, PlaneError> {
        let context = SharedContext::new(worker);
        self.track(&context)?;
        self.sample(&context);
        Ok(context)
    }

    /// Tells a context whether packets are chosen for sFlow, and by what.
    pub fn sample(&self, context: &SharedContext) {
        context.sample(self.settings.sampling.clone());
    }

    /// Gives a context access to the flows, if they are tracked.
    pub fn track(&self, context: &SharedContext) -> Result<(), PlaneError> {
        self.flows.as_ref().map_or(Ok(()), |flows| flows.give(context))
    }

    /// Shares what the elements of every worker need.
    pub fn share(&self, environment: &mut Environment) {
        environment.share(self.book.clone());
        // For the checks of a program; each worker has its own.
        environment.share(SharedContext::for_dry_run(FlowState::Untracked));
    }

    /// The flow that lives and that a packet would belong to.
    pub fn flow_snapshot(&self, packet: &Tuple) -> Option<FlowSnapshot> {
        FlowSnapshot::of(self.table()?, packet)
    }

    /// What the elements need to judge a packet in a dry run, of a flow that is known or
    /// of none: nothing is counted, no flow begins, and what is translated is by the bindings `nat`
    /// ([`Nat::for_dry_run`]).
    pub fn for_dry_run(
        &self,
        environment: &Environment,
        nat: Option<&Arc<Nat>>,
        flow: Option<&FlowSnapshot>,
    ) -> Environment {
        let mut dry_run = environment.clone();
        let (compiled, _) = self.book.current();
        dry_run.share(Rulebook::new(compiled.for_dry_run()));
        let state = if self.flows.is_some() { FlowState::New } else { FlowState::Untracked };
        let context = SharedContext::for_dry_run(state);
        if let Some(flows) = self.flows.as_ref().filter(|_| nat.is_some() || flow.is_some()) {
            // Where there is no memory for it, nothing is translated.
            let _ = flows.for_dry_run(&context, nat.cloned().unwrap_or_default(), flow);
        }
        dry_run.share(context);
        dry_run
    }

    /// Makes what other settings come to, or the same with other ports, beside what is in force.
    pub fn prepare(
        &mut self,
        settings: PolicySettings,
        driver: &mut Driver,
        ports: impl Fn(&str) -> Vec<u16>,
    ) -> Result<Prepared, PlaneError> {
        let compiled = compile(&settings.filter, &mut self.ledger, ports)?;
        let flows = match &self.flows {
            Some(_) => None,
            None if wanted(&settings).is_some() && self.spare.is_some() => self.spare.take(),
            None => Flows::wanted(&settings, driver, &self.book, self.workers)?,
        };
        Ok(Prepared { settings, compiled, flows })
    }

    /// Puts it in force. A flow table that is there stays as it is.
    pub fn adopt(&mut self, prepared: Prepared) {
        let Prepared { settings, compiled, flows } = prepared;
        self.book.change(compiled);
        self.flows = self.flows.take().or(flows);
        if let Some(flows) = &self.flows {
            flows.table.set_needed(is_needed(&settings));
        }
        self.settings = settings;
        self.translate_from_now_on();
    }

    /// Lets it go.
    pub fn abandon(&mut self, prepared: Prepared) {
        self.spare = prepared.flows.or(self.spare.take());
    }

    /// Changes the members of an address set of the filter in place; how many it has then, `None`
    /// when there is none of this name. What comes and goes at once is there afterwards.
    pub fn change_set(&mut self, name: &str, come: &[IpNet], go: &[IpNet]) -> Option<usize> {
        let (compiled, _) = self.book.current();
        let (_, set) = compiled.sets().iter().find(|(known, _)| known == name)?;
        let set = set.change(come, go);
        let members = set.len();
        self.book.change(compiled.with_set(name, set.clone())?);
        let kept = self.settings.filter.sets.iter_mut().filter(|(known, _)| known == name);
        kept.for_each(|(_, old)| *old = set.clone());
        Some(members)
    }

    /// Puts the rules of address translation in force, for ports with these names and addresses.
    pub fn translate(&self, ports: &[nat::Port]) {
        const NONE: nat::Rules = nat::Rules {
            capacity: 0,
            log: false,
            lowest_ipv6_mtu: nat::Rules::LOWEST_IPV6_MTU,
            half: None,
            rules: Vec::new(),
            clamps: Vec::new(),
        };
        let Some(flows) = &self.flows else { return };
        let (none, nat) = (NONE, &self.settings.nat);
        if flows.nat.install(nat.as_ref().unwrap_or(&none), ports, crate::plane::is_named) {
            self.book.ask_anew();
        }
    }

    /// Whether flows may be translated, by rules that are in force or by such as were.
    pub fn translates(&self) -> bool {
        self.translates
    }

    /// Address translation, if there is any.
    pub fn nat(&self) -> Option<&Arc<Nat>> {
        self.settings.nat.as_ref().and_then(|_| self.bindings())
    }

    /// Bindings and what is expected, where flows are tracked.
    pub fn bindings(&self) -> Option<&Arc<Nat>> {
        self.flows.as_ref().map(|flows| &flows.nat)
    }

    /// What is in force.
    pub fn settings(&self) -> &PolicySettings {
        &self.settings
    }

    /// The flow table.
    pub fn table(&self) -> Option<&Arc<Table>> {
        self.flows.as_ref().map(|flows| &flows.table)
    }

    /// Has connections of TCP say anew where they are: Linux may have forwarded some of their
    /// segments, and windows have moved on.
    pub fn resume_flows(&self) {
        /// Entries at a time, between which others may reclaim.
        const STEP: u32 = 4096;
        let Some(mut worker) = self.table().and_then(|table| table.worker().ok()) else { return };
        let (mut next, now) = (Some(0), graph::steady_now());
        while let Some(from) = next {
            worker.online();
            next = worker.resume(from, STEP, now);
            worker.offline();
        }
    }

    /// The filter in force.
    pub fn book(&self) -> &Arc<Rulebook> {
        &self.book
    }

    /// Whether a packet may be judged or changed by the flow that it belongs to.
    pub fn depends_on_flows(&self) -> bool {
        self.translates || asks_for_states(&self.settings)
    }

    /// Whether flows can be offloaded to the driver: not where packets are sampled, for it chooses
    /// none.
    pub fn offloads(&self) -> bool {
        self.settings.sampling.is_none() && self.flows.as_ref().is_some_and(|flows| flows.table.is_shared())
    }

    /// Accounts of flows, where they are tracked.
    pub fn ended(&self) -> Option<&Arc<Ended>> {
        self.flows.as_ref().map(|flows| &flows.ended)
    }

    /// How many workers it is for.
    pub fn workers(&self) -> usize {
        self.workers
    }
}

/// The flow table that the settings come to.
fn wanted(settings: &PolicySettings) -> Option<Settings> {
    let translation = settings.nat.is_some();
    // A verdict that stands in a flow's entry is one that the driver can apply.
    let helps = || settings.offload && settings.filter.rules().next().is_some();
    let wanted = settings.flows.or_else(|| match is_needed(settings) {
        true => Some(Settings::default()),
        false => helps().then(offload::modest),
    });
    wanted.map(|wanted| Settings { translation, ..wanted })
}

/// Whether flows are translated into the other family.
fn crosses(settings: &PolicySettings) -> bool {
    let into_the_other = |rule: &nat::Rule| matches!(rule.action, nat::Action::Nat64 { .. });
    settings.nat.as_ref().is_some_and(|nat| nat.rules.iter().any(into_the_other))
}

/// Whether something depends on flows being known.
fn is_needed(settings: &PolicySettings) -> bool {
    settings.flows.is_some() || settings.nat.is_some() || asks_for_states(settings)
}

fn asks_for_states(settings: &PolicySettings) -> bool {
    settings.filter.rules().any(|(_, rule)| rule.matches.states.is_some())
}

fn compile(
    filter: &Filter,
    ledger: &mut Ledger,
    ports: impl Fn(&str) -> Vec<u16>,
) -> Result<Compiled, PlaneError> {
    let mut filter = filter.clone();
    filter.resolve(ports);
    let accounts = ledger.open(&filter);
    Ok(Compiled::new(Arc::new(filter), accounts)?)
}
