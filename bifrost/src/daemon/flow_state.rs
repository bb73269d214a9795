//! Flows across a restart: written down when the daemon stops, and put back before the next one takes a port.
//!
//! Without this a restart would be a mid-stream pickup for every connection (`[flow] pickup`), and a translated one that does not speak
//! first from inside would be lost: the answer comes to an address of the router's own, where nobody knows it. Decisions of rules are not written down; each flow is judged anew by the rules that are in force then.
//!
//! A kill is not announced, so while the daemon runs a thread writes the same every ten seconds or so; flows that began since are learnt
//! again from the middle of the stream, if their own side speaks first.
//!
//! The file lies beside the control socket: it is for the next minutes, not for the next boot. One whose checksum is wrong, or that
//! another version wrote, is as good as none.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fib::PortId;
use flow::{Inserted, Snapshot, Table, Worker};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::control::Control;
use super::settings;

/// What the file begins with: bytes that name it, and the version of what follows.
const MAGIC: &[u8; 8] = b"BFFLOWS1";
/// How often flows are written down while the daemon runs, at most.
const EVERY: Duration = Duration::from_secs(10);
/// Entries of the flow table looked at before others may free theirs.
const STEP: u32 = 4096;

/// What the flows' values mean.
#[derive(Serialize, Deserialize)]
struct Head {
    /// When it was written, ns since 1970.
    written: u64,
    /// The same on the flow table's clock.
    steady: u64,
    /// Names of the ports, by number.
    ports: Vec<String>,
    flows: u64,
}

/// The thread that writes now and then.
pub(super) struct Saving {
    thread: Option<JoinHandle<Duration>>,
    next: Instant,
    /// What was written down before this start has been looked for. What is written later are the flows that there are.
    restored: bool,
}

impl Saving {
    pub(super) fn new() -> Saving {
        Saving { thread: None, next: Instant::now() + EVERY, restored: false }
    }

    fn due(&mut self) -> bool {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            let took = self.finish();
            // A table of millions takes its time: at most a twentieth of one core.
            self.next = Instant::now() + EVERY.max(20 * took);
        }
        self.thread.is_none() && Instant::now() >= self.next
    }

    fn begin(&mut self, write: impl FnOnce() + Send + 'static) {
        let timed = move || {
            let begun = Instant::now();
            write();
            begun.elapsed()
        };
        // Without a thread there is another chance soon.
        self.thread = std::thread::Builder::new().name("flow-state".to_owned()).spawn(timed).ok();
        self.next = Instant::now() + EVERY;
    }

    /// Waits for the one that is writing; how long it took.
    fn finish(&mut self) -> Duration {
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

/// Writes a table's flows into a file; how many there were.
fn save(table: &Arc<Table>, path: &Path, names: Vec<String>) -> io::Result<u64> {
    let worker = table.worker().map_err(|error| io::Error::other(error.to_string()))?;
    let (bytes, flows) = written(&worker, names)?;
    let beside = path.with_extension("flows.new");
    std::fs::write(&beside, bytes)?;
    std::fs::rename(&beside, path)?;
    Ok(flows)
}

fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Control {
    fn state_file(&self) -> PathBuf {
        self.router.control.socket.with_extension("flows")
    }

    /// Writes the flows down, after the workers have ended. `names`: of the ports, by number.
    pub(super) fn save_flows(&mut self, names: Vec<String>) {
        let Some(table) = self.plane.policy().table().cloned() else { return };
        // One that is still writing would put older flows in the place of these.
        self.saving.finish();
        match save(&table, &self.state_file(), names) {
            Ok(flows) => info!("{flows} flows are written down for the next start"),
            Err(error) => warn!("{}: flows are not written down: {error}", self.state_file().display()),
        }
    }

    /// Has the flows written down beside the control thread, if it is time again.
    pub(super) fn save_flows_sometimes(&mut self) {
        let Some(table) = self.plane.policy().table().cloned().filter(|_| self.saving.due()) else { return };
        let names = self.plane.ports().iter().map(|port| port.name.clone()).collect();
        let path = self.state_file();
        self.saving.begin(move || {
            if let Err(error) = save(&table, &path, names) {
                warn!("{}: flows are not written down: {error}", path.display());
            }
        });
    }

    /// Puts back what was written down, if anything was; before the first port is taken.
    pub(super) fn restore_flows(&mut self) {
        if std::mem::replace(&mut self.saving.restored, true) || self.plane.policy().table().is_none() {
            return;
        }
        let path = self.state_file();
        let Ok(bytes) = std::fs::read(&path) else { return };
        // Once is enough: what is in it grows old.
        if let Err(error) = std::fs::remove_file(&path) {
            warn!("{}: {error}", path.display());
        }
        self.prepare_translation();
        match self.put_back(&bytes) {
            Ok((kept, given)) => info!("{kept} of {given} flows go on"),
            Err(error) => warn!("{}: flows begin anew: {error}", path.display()),
        }
    }

    /// Lets the rules of address translation know the ports that will be taken.
    fn prepare_translation(&mut self) {
        let mut addresses: HashMap<PortId, Vec<IpAddr>> = HashMap::new();
        for link in self.mirror.model().links.iter() {
            let Some(rule) = self.router.port(&link.name) else { continue };
            if let Ok(id) = self.plane.expect(&link.name, settings::port(rule, &self.router)) {
                let here = self.mirror.model().addresses().filter(|address| address.ifindex == link.ifindex);
                addresses.insert(id, here.map(|address| address.net.addr()).collect());
            }
        }
        self.plane.translate(|port| addresses.get(&port).cloned().unwrap_or_default());
    }

    fn put_back(&self, bytes: &[u8]) -> io::Result<(u64, u64)> {
        let (head, mut flows) = read(bytes)?;
        let policy = self.plane.policy();
        let Some(table) = policy.table() else { return Ok((0, head.flows)) };
        let mut worker = table.worker().map_err(|error| io::Error::other(error.to_string()))?;
        let now = graph::steady_now();
        // How far the clocks lie apart. Times before this program's beginning wrap, as the table expects.
        let shift = now.wrapping_sub(head.steady.wrapping_add(wall().saturating_sub(head.written)));
        let numbers: Vec<u16> = head.ports.iter().map(|name| self.number_of(name)).collect();
        let mut kept = 0;
        for _ in 0..head.flows {
            let (mut snapshot, rest): (Snapshot, _) =
                postcard::take_from_bytes(flows).map_err(|_| invalid("a flow is not readable"))?;
            flows = rest;
            let account = &mut snapshot.account;
            account.ports =
                account.ports.map(|port| numbers.get(usize::from(port)).copied().unwrap_or(flow::NO_PORT));
            account.last = account.last.wrapping_add(shift);
            account.start = account.start.wrapping_add(shift);
            if self.flow_log.is_some() {
                // The log has told of what was before.
                (account.start, account.packets, account.bytes) = (now, [0; 2], [0; 2]);
            }
            let (original, reply) = (account.original, account.reply);
            let bindings = policy.nat().filter(|_| account.is_translated());
            if account.is_translated() && !bindings.is_some_and(|nat| nat.restore(&original, &reply, now)) {
                continue;
            }
            match worker.restore(&snapshot, now) {
                Ok(Inserted::New(_)) => kept += 1,
                _ => bindings.iter().for_each(|nat| nat.release_tuples(&original, &reply, now, &mut |_| {})),
            }
        }
        Ok((kept, head.flows))
    }

    fn number_of(&self, name: &str) -> u16 {
        let port = self.plane.ports().iter().find(|port| port.name == name);
        port.map_or(flow::NO_PORT, |port| port.id.0)
    }
}

/// The file's bytes, and how many flows are in it.
fn written(worker: &Worker, ports: Vec<String>) -> io::Result<(Vec<u8>, u64)> {
    let encode = |error: postcard::Error| io::Error::other(error.to_string());
    let steady = graph::steady_now();
    let (mut flows, mut count, mut wrong) = (Vec::new(), 0, None);
    let mut next = Some(0);
    while let Some(from) = next {
        worker.online();
        next = worker.flows(from, STEP, steady, &mut |hit, _| match postcard::to_extend(
            &worker.snapshot(hit, steady),
            std::mem::take(&mut flows),
        ) {
            Ok(longer) => (flows, count) = (longer, count + 1),
            Err(error) => wrong = Some(error),
        });
        worker.offline();
    }
    if let Some(error) = wrong {
        return Err(encode(error));
    }
    let head = Head { written: wall(), steady, ports, flows: count };
    let mut bytes = postcard::to_extend(&head, MAGIC.to_vec()).map_err(encode)?;
    bytes.append(&mut flows);
    let sum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    Ok((bytes, count))
}

/// What the file says of its flows, and the flows' bytes.
fn read(bytes: &[u8]) -> io::Result<(Head, &[u8])> {
    let (body, sum) = bytes.split_last_chunk::<4>().ok_or_else(|| invalid("it is cut short"))?;
    let rest = body.strip_prefix(MAGIC).ok_or_else(|| invalid("another version wrote it"))?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return Err(invalid("its checksum is wrong"));
    }
    postcard::take_from_bytes(rest).map_err(|_| invalid("its head is not readable"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::{Opening, Settings, Tuple};
    use wire::Headers;

    /// A worker of a table with so many flows.
    fn flows(count: u16) -> Worker {
        let table = Table::new(&Settings { memory: 4 << 20, ..Settings::default() }).unwrap();
        let mut worker = table.worker().unwrap();
        for number in 0..count {
            let [high, low] = number.to_be_bytes();
            let ip = [
                &[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, high, low, 10, 1, 0, 1][..],
                &[0, 7, 0, 53, 0, 8, 0, 0],
            ]
            .concat();
            let headers = Headers::parse(&ip).unwrap();
            let original = Tuple::of(&headers, 0);
            let opening =
                Opening { headers: &headers, ip: &ip, original, reply: None, ports: [0, 1], mark: 0 };
            worker.insert(&opening, 1_000_000).unwrap();
        }
        worker
    }

    #[test]
    fn what_is_written_is_read() {
        let (bytes, count) = written(&flows(500), vec!["left".into(), "right".into()]).unwrap();
        let (head, mut rest) = read(&bytes).unwrap();
        assert_eq!((count, head.flows, head.ports.len()), (500, 500, 2));
        for _ in 0..500 {
            let (snapshot, more): (Snapshot, _) = postcard::take_from_bytes(rest).unwrap();
            assert_eq!((snapshot.account.ports, snapshot.account.packets), ([0, 1], [1, 0]));
            rest = more;
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let (bytes, _) = written(&flows(3), Vec::new()).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(read(&damaged).is_err(), "byte {at}");
            assert!(read(&bytes[..at]).is_err(), "{at} bytes");
        }
    }
}
