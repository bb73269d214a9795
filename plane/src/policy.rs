//! What the router does to packets beyond forwarding them: the filter and the flow table, seen from the control thread.
//!
//! The parts that workers share live longer than any graph: a changed filter is compiled beside the one in force and takes its
//! place between two batches, and a worker that is started again finds the flows where they were. What only costs when it is
//! wanted is in the graph only then ([`Policy::stages`]).

use std::sync::Arc;

use elements::router::standard::Stages;
use elements::router::{Ended, Rulebook, SharedSeat};
use flow::{Settings, Table};
use graph::Environment;
use nat::Nat;
use rules::{Compiled, Filter, FlowState, Hook, Ledger};

use crate::PlaneError;

/// Accounts of flows that may wait for the control thread.
const ACCOUNTS: usize = 1 << 16;

/// What is wanted.
#[derive(Clone, Debug, Default)]
pub struct PolicySettings {
    /// The filter, its interfaces not resolved.
    pub filter: Filter,
    /// The flow table; `None`: flows are not tracked, unless the filter asks for their state.
    pub flows: Option<Settings>,
    /// The rules of address translation; `None`: nothing is translated.
    pub nat: Option<nat::Rules>,
    /// Whether accounts of flows are wanted when they end.
    pub accounts: bool,
}

/// The filter and the flow table.
pub struct Policy {
    settings: PolicySettings,
    table: Option<Arc<Table>>,
    book: Arc<Rulebook>,
    ledger: Ledger,
    ended: Option<Arc<Ended>>,
    nat: Option<Arc<Nat>>,
    workers: usize,
}

impl Policy {
    /// For so many workers. `ports` says the numbers of the ports that a name or pattern stands for.
    pub fn new(
        settings: PolicySettings,
        workers: usize,
        ports: impl Fn(&str) -> Vec<u16>,
    ) -> Result<Policy, PlaneError> {
        let mut ledger = Ledger::new(workers);
        let compiled = compile(&settings.filter, &mut ledger, ports)?;
        let table = match wanted(&settings) {
            Some(settings) => Some(Table::new(&settings)?),
            None => None,
        };
        // What ends gives back its ports.
        let ended = (settings.accounts || settings.nat.is_some()).then(|| Ended::new(ACCOUNTS));
        let nat = settings.nat.is_some().then(|| Arc::new(Nat::new()));
        Ok(Policy { settings, table, book: Rulebook::new(compiled), ledger, ended, nat, workers })
    }

    /// What it puts into the graph.
    pub fn stages(&self) -> Stages {
        let (compiled, _) = self.book.current();
        let rules = |hook| !compiled.passes_all(hook);
        Stages {
            input: rules(Hook::Input),
            transit: rules(Hook::Forward) || rules(Hook::Output) || self.table.is_some(),
            translation: self.nat.is_some(),
        }
    }

    /// The seat of a worker.
    pub fn seat(&self, worker: usize) -> Result<SharedSeat, PlaneError> {
        let flows = match &self.table {
            Some(table) => Some(table.worker()?),
            None => None,
        };
        let seat = SharedSeat::new(worker, flows, self.ended.clone());
        self.nat.iter().for_each(|nat| seat.translate(nat.clone()));
        Ok(seat)
    }

    /// Shares what the elements of every worker need.
    pub fn share(&self, environment: &mut Environment) {
        environment.share(self.book.clone());
        // For the checks of a program; each worker has its own.
        environment.share(SharedSeat::imagined(FlowState::Untracked));
    }

    /// What the elements need to judge a packet that is only thought of: nothing is counted, and no flow begins.
    pub fn imagine(&self, environment: &Environment) -> Environment {
        let mut imagined = environment.clone();
        let (compiled, _) = self.book.current();
        let filter = compiled.filter().clone();
        let accounts = Ledger::new(1).open(&filter);
        // It was compiled before.
        if let Ok(compiled) = Compiled::new(filter, accounts) {
            imagined.share(Rulebook::new(compiled));
        }
        let state = if self.table.is_some() { FlowState::New } else { FlowState::Untracked };
        imagined.share(SharedSeat::imagined(state));
        imagined
    }

    /// Another filter, or the same with other ports. On an error the one in force stays. Whether flows are tracked only now: every
    /// worker is to be given access to them.
    pub fn change(&mut self, filter: Filter, ports: impl Fn(&str) -> Vec<u16>) -> Result<bool, PlaneError> {
        let settings = PolicySettings { filter, ..self.settings.clone() };
        let table = match wanted(&settings).filter(|_| self.table.is_none()) {
            Some(settings) => Some(Table::new(&settings)?),
            None => None,
        };
        let compiled = compile(&settings.filter, &mut self.ledger, ports)?;
        self.book.change(compiled);
        self.settings = settings;
        let begins = table.is_some();
        self.table = table.or(self.table.take());
        Ok(begins)
    }

    /// Puts rules of address translation in force, for ports with these names and addresses. Nothing is translated by rules that
    /// come when there were none at the start.
    pub fn translate(&mut self, rules: Option<nat::Rules>, ports: &[nat::Port]) {
        let (Some(nat), Some(rules)) = (&self.nat, rules) else { return };
        nat.install(&rules, ports, crate::plane::is_named);
        self.settings.nat = Some(rules);
    }

    /// Address translation, if there is any.
    pub fn nat(&self) -> Option<&Arc<Nat>> {
        self.nat.as_ref()
    }

    /// What is in force.
    pub fn settings(&self) -> &PolicySettings {
        &self.settings
    }

    /// The flow table.
    pub fn table(&self) -> Option<&Arc<Table>> {
        self.table.as_ref()
    }

    /// The filter in force.
    pub fn book(&self) -> &Arc<Rulebook> {
        &self.book
    }

    /// Accounts of flows, if they are wanted.
    pub fn ended(&self) -> Option<&Arc<Ended>> {
        self.ended.as_ref()
    }

    /// How many workers it is for.
    pub fn workers(&self) -> usize {
        self.workers
    }
}

/// The flow table that the settings come to.
fn wanted(settings: &PolicySettings) -> Option<Settings> {
    let asks = || settings.filter.rules().any(|(_, rule)| rule.matches.states.is_some());
    let translation = settings.nat.is_some();
    let wanted = settings.flows.or_else(|| (asks() || translation).then(Settings::default));
    wanted.map(|wanted| Settings { translation, ..wanted })
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
