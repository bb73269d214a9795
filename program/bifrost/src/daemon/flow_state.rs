//! Flows across a restart: written down while the daemon runs and when it stops, and put back
//! before the next one takes a port.
//!
//! Without this a restart would be a mid-stream pickup for every connection (`[flow] pickup`), and
//! a translated one that does not speak first from inside would be lost: the answer comes to an
//! address of the router's own, where nobody knows it. Decisions of rules are not written down;
//! each flow is judged anew by the rules that are in force then.
//!
//! A kill is not announced, so a thread keeps the [file](super::flow_file) up to date ten times a
//! second.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use fib::TableId;
use flow::{Inserted, Key, Table, Timeouts, Worker};
use tracing::{info, warn};

use super::flow_file::{self, FlowFile, Head};
use super::flow_log::Log;
use super::forwarding::Forwarding;
use super::{interfaces, ports, settings};

/// What is to be kept up to date.
struct Order {
    table: Arc<Table>,
    /// Names of the ports, by number.
    names: Vec<String>,
}

/// The thread that writes.
#[derive(Default)]
pub(super) struct Saving {
    thread: Option<(SyncSender<Order>, JoinHandle<()>)>,
}

impl Saving {
    /// Has the file brought up to date, unless that is being done.
    fn ask(&mut self, order: Order, path: PathBuf) {
        if self.thread.is_none() {
            let (orders, received) = sync_channel(1);
            let builder = std::thread::Builder::new().name("flow-state".to_owned());
            // Without a thread there is another chance soon.
            self.thread = builder.spawn(move || keep(&received, &path)).ok().map(|thread| (orders, thread));
        }
        if let Some((orders, _)) = &self.thread {
            let _ = orders.try_send(order);
        }
    }

    /// Waits until nothing is being written any more, and lets go of the table.
    fn finish(&mut self) {
        if let Some((orders, thread)) = self.thread.take() {
            drop(orders);
            let _ = thread.join();
        }
    }
}

/// Keeps a file up to date as long as there are orders.
fn keep(orders: &Receiver<Order>, path: &Path) {
    let mut file: Option<FlowFile> = None;
    for Order { table, names } in orders {
        let goes_on = file.take().filter(|file| file.is_of(&table, &names));
        match goes_on.map_or_else(|| FlowFile::new(&table, path.to_owned(), names), Ok) {
            Ok(known) => {
                if let Err(error) = file.insert(known).go_on() {
                    warn!("{}: flows are not written down: {error}", path.display());
                }
            }
            Err(error) => return warn!("flows are written down only when the router stops: {error}"),
        }
    }
}

/// Where flows are written down.
fn state_file(forwarding: &Forwarding) -> PathBuf {
    forwarding.router.control.socket.with_extension("flows")
}

impl Saving {
    /// Writes the flows down, after the workers have ended. `logged`: whether the flow log knows of
    /// them; `names`: of the ports, by number.
    pub(super) fn save(&mut self, forwarding: &Forwarding, logged: bool, names: Vec<String>) {
        self.finish();
        let Some(table) = forwarding.plane.policy().table().cloned() else { return };
        let path = state_file(forwarding);
        let file = FlowFile::new(&table, path.clone(), names);
        match file.and_then(|mut file| file.write(logged)) {
            Ok(flows) => info!("{flows} flows are written down for the next start"),
            Err(error) => warn!("{}: flows are not written down: {error}", path.display()),
        }
    }

    /// Has what is new written down beside the control thread.
    pub(super) fn save_new(&mut self, forwarding: &Forwarding) {
        let Some(table) = forwarding.plane.policy().table().cloned() else { return self.finish() };
        self.ask(Order { table, names: forwarding.interface_names() }, state_file(forwarding));
    }
}

impl Forwarding {
    /// Puts back what was written down, if anything was; before the first port is taken. The log,
    /// where there is one, takes up those that it was not told of.
    pub(super) fn restore_flows(&mut self, log: Option<&Log>) {
        if self.plane.policy().table().is_none() {
            return;
        }
        let path = state_file(self);
        let bytes = match flow_file::read(&path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return,
            Err(error) => return warn!("{}: flows begin anew: {error}", path.display()),
        };
        self.prepare_translation();
        match self.put_back(&bytes, log) {
            // It stays until the next one is whole: this daemon may be killed before that.
            Ok((kept, given)) => info!("{kept} of {given} flows go on"),
            Err(error) => {
                warn!("{}: flows begin anew: {error}", path.display());
                // What cannot be taken up now will not be later.
                if let Err(error) = std::fs::remove_file(&path) {
                    warn!("{}: {error}", path.display());
                }
            }
        }
    }

    /// Lets the rules of address translation know the ports that will be taken, and the VLANs and
    /// bonds on them.
    fn prepare_translation(&mut self) {
        let Forwarding { plane, mirror, tables, router, .. } = self;
        let links = &mirror.model().links;
        for link in links.iter() {
            let Ok(place) = interfaces::place(link, links, router) else { continue };
            let reserved = if place.lies_above() {
                plane.reserve_interface(&link.name).map(drop)
            } else if let Some(rule) = interfaces::rule(link, links, router) {
                // A bridge is Linux's where flows are known.
                let bond =
                    interfaces::untagged_of(link, links, router).filter(|_| links.bridge_of(link).is_none());
                let bond = bond
                    .and_then(|(bond, _)| ports::interface(bond, mirror.table_of(bond.ifindex), [true; 2]));
                let expected = plane.expect(&link.name, settings::port(rule, router));
                expected.map(|id| plane.join(id, bond, tables))
            } else {
                // A bond is named by its members.
                continue;
            };
            if let Err(error) = reserved {
                warn!("{error}");
            }
        }
        self.translate();
    }

    /// How many flows go on, of how many.
    fn put_back(&self, bytes: &[u8], log: Option<&Log>) -> io::Result<(u64, u64)> {
        let blocks = flow_file::blocks(bytes)?;
        let Some(table) = self.plane.policy().table() else { return Ok((0, 0)) };
        let mut worker = table.worker().map_err(|error| io::Error::other(error.to_string()))?;
        let (mut kept, mut given) = (0, 0);
        // The newest first: of two that claim the same, that one has it.
        for (head, flows) in blocks.into_iter().rev() {
            self.put_back_block(&head, flows, &mut worker, log, [&mut kept, &mut given])?;
        }
        Ok((kept, given))
    }

    fn put_back_block(
        &self,
        head: &Head,
        mut flows: &[u8],
        worker: &mut Worker,
        log: Option<&Log>,
        [kept, given]: [&mut u64; 2],
    ) -> io::Result<()> {
        let (policy, now) = (self.plane.policy(), graph::steady_now());
        if head.boot != flow_file::boot()? {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the machine was started since"));
        }
        // How far the clocks lie apart. Times before this program's beginning wrap, as the table
        // expects.
        let passed = flow_file::since_boot()?.saturating_sub(head.written);
        let shift = now.wrapping_sub(head.steady.wrapping_add(passed));
        let numbers: Vec<u16> = head.ports.iter().map(|name| self.number_of(name)).collect();
        let tables: Vec<u16> = head.ports.iter().map(|name| self.table_named(name)).collect();
        for _ in 0..head.flows {
            let mut snapshot = flow_file::next_flow(&mut flows)?;
            let account = &mut snapshot.account;
            // VRFs may have other numbers now. Answers to what left by no port of ours come where
            // it came from.
            let [came, left] = account.ports.map(|port| tables.get(usize::from(port)).copied());
            account.original.table = came.unwrap_or_default();
            account.reply.table = left.unwrap_or(account.original.table);
            account.ports =
                account.ports.map(|port| numbers.get(usize::from(port)).copied().unwrap_or(flow::NO_PORT));
            if worker.find(&Key::of(&account.original)).is_some() {
                continue;
            }
            *given += 1;
            // What was told of a flow that a kill took by surprise is known as long as it has had
            // no slice.
            let told = head.told || head.steady.wrapping_sub(account.start) >= self.longest_untold();
            account.last = account.last.wrapping_add(shift);
            account.start = account.start.wrapping_add(shift);
            if log.is_some() {
                account.start = now;
                if told {
                    (account.packets, account.bytes) = ([0; 2], [0; 2]);
                }
            }
            let (original, reply) = (account.original, account.reply);
            let bindings = policy.nat().filter(|_| account.is_translated());
            if account.is_translated() && !bindings.is_some_and(|nat| nat.restore(&original, &reply, now)) {
                continue;
            }
            match worker.restore(&snapshot, now) {
                Ok(Inserted::New(hit)) => {
                    *kept += 1;
                    if let Some(log) = log.filter(|_| !told) {
                        log.take_up(&worker.snapshot(&hit, now).account);
                    }
                }
                _ => bindings.iter().for_each(|nat| nat.release_tuples(&original, &reply, now, &mut |_| {})),
            }
        }
        Ok(())
    }

    /// How long flows live before the log is told of them, at least, in ns.
    fn longest_untold(&self) -> u64 {
        let timeouts = self.router.flow.as_ref().map_or_else(Timeouts::default, |flow| flow.timeouts);
        timeouts.active.map_or(u64::MAX, |active| active.as_nanos() as u64)
    }

    /// The table by which flows are known that come in by an interface, taken or not.
    fn table_named(&self, name: &str) -> u16 {
        let link = self.mirror.model().links.by_name(name);
        link.and_then(|link| self.mirror.table_of(link.ifindex)).unwrap_or(TableId::MAIN).0
    }

    fn number_of(&self, name: &str) -> u16 {
        self.plane.interface_named(name).map_or(flow::NO_PORT, |id| id.0)
    }
}
