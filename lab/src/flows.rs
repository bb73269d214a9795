//! UDP flows at a steady rate, and a sink that counts them flow by flow.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{JoinHandle, sleep},
    time::{Duration, Instant},
};

use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};

use crate::{Host, LabError, Result, wait_for};

/// A sender of UDP datagrams: one socket (so one source port) a flow, taking turns.
pub struct Flows {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Flows {
    /// Starts to send `rate` datagrams a second of `size` payload bytes (8 or more: a sequence
    /// number opens each), over `flows` flows; flow i goes to destination i modulo their number.
    /// All destinations are of one family.
    pub fn start(
        host: &Host,
        destinations: Vec<SocketAddr>,
        flows: usize,
        size: usize,
        rate: u32,
    ) -> Result<Flows> {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (stop.clone(), sent.clone());
        let any: IpAddr = match destinations.first() {
            Some(SocketAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        let (ready, opened) = std::sync::mpsc::channel();
        let thread = host.inside(move || {
            let sockets: std::io::Result<Vec<UdpSocket>> =
                (0..flows).map(|_| UdpSocket::bind((any, 0))).collect();
            let sockets = match sockets {
                Ok(sockets) => sockets,
                Err(e) => return drop(ready.send(Err(e))),
            };
            let _receiver_waits = ready.send(Ok(()));
            let mut payload = vec![0; size.max(8)];
            let (start, mut n) = (Instant::now(), 0u64);
            while !stopped.load(Relaxed) {
                let due = (start.elapsed().as_secs_f64() * f64::from(rate)) as u64;
                // After a pause (another program had the core) what is overdue is left out: a burst
                // would overflow queues.
                n = n.max(due.saturating_sub(u64::from(rate) / 250 + 1));
                while n < due && !stopped.load(Relaxed) {
                    payload[..8].copy_from_slice(&n.to_be_bytes());
                    let flow = n as usize % flows;
                    // A full queue or an ICMP error that came back is a datagram not sent, and no
                    // reason to stop.
                    if sockets[flow].send_to(&payload, destinations[flow % destinations.len()]).is_ok() {
                        count.fetch_add(1, Relaxed);
                    }
                    n += 1;
                }
                sleep(Duration::from_millis(1));
            }
        })?;
        match opened.recv() {
            Ok(Ok(())) => Ok(Flows { stop, sent, thread: Some(thread) }),
            Ok(Err(e)) => Err(LabError::io("a UDP socket")(e)),
            Err(_) => Err(LabError::io("a UDP socket")(std::io::Error::other("the sender ended"))),
        }
    }

    /// Datagrams sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Ends it; how many it sent.
    pub fn stop(mut self) -> u64 {
        self.end();
        self.sent()
    }

    fn end(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _its_panic_is_reported = thread.join();
        }
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.end();
    }
}

/// A socket on a port that a receiver of before may have had: a program that another test starts at
/// this moment has it, too, until it is one of its own.
fn bound(port: u16) -> std::io::Result<UdpSocket> {
    let limit = Instant::now() + Duration::from_secs(2);
    loop {
        match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < limit => {
                std::thread::sleep(Duration::from_millis(10));
            }
            bound => return bound,
        }
    }
}

/// A receiver of UDP datagrams on one port of a host, of both families.
pub struct Sink {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    started: Instant,
    newest: Arc<AtomicU64>,
    thread: Option<JoinHandle<HashMap<SocketAddr, u64>>>,
}

impl Sink {
    /// Starts to receive.
    pub fn start(host: &Host, port: u16) -> Result<Sink> {
        let (stop, received) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (started, newest) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let (stopped, count, arrival) = (stop.clone(), received.clone(), newest.clone());
        let (ready, opened) = std::sync::mpsc::channel();
        let thread = host.inside(move || {
            let mut flows = HashMap::new();
            let wait = Some(Duration::from_millis(20));
            let socket = bound(port).and_then(|socket| {
                socket.set_read_timeout(wait)?;
                // What arrives while another program has the core waits here. The default holds
                // some 50 ms of a stream, and a shared machine takes a core away for longer.
                setsockopt(&socket, RcvBufForce, &(16 << 20))?;
                Ok(socket)
            });
            let socket = match socket {
                Ok(socket) => socket,
                Err(e) => {
                    let _receiver_waits = ready.send(Err(e));
                    return flows;
                }
            };
            let _receiver_waits = ready.send(Ok(()));
            let mut payload = [0; 2048];
            while !stopped.load(Relaxed) {
                if let Ok((_, from)) = socket.recv_from(&mut payload) {
                    *flows.entry(from).or_insert(0) += 1;
                    arrival.store(started.elapsed().as_nanos() as u64, Relaxed);
                    count.fetch_add(1, Relaxed);
                }
            }
            flows
        })?;
        match opened.recv() {
            Ok(Ok(())) => Ok(Sink { stop, received, started, newest, thread: Some(thread) }),
            Ok(Err(e)) => Err(LabError::io(format!("UDP port {port}"))(e)),
            Err(_) => Err(LabError::io("a UDP socket")(std::io::Error::other("the receiver ended"))),
        }
    }

    /// Datagrams received so far.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// When the newest datagram arrived.
    pub fn newest(&self) -> Instant {
        self.started + Duration::from_nanos(self.newest.load(Relaxed))
    }

    /// Waits until `count` datagrams have arrived.
    pub fn has_received(&self, count: u64, limit: Duration) -> Result<()> {
        wait_for(&format!("{count} datagrams"), limit, || match self.received() {
            n if n >= count => Ok(()),
            n => Err(format!("{n} arrived")),
        })
    }

    /// Ends it once nothing comes any more; how many datagrams came from each source address and
    /// port.
    pub fn stop(mut self) -> HashMap<SocketAddr, u64> {
        self.end()
    }

    fn end(&mut self) -> HashMap<SocketAddr, u64> {
        self.stop.store(true, Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.end();
    }
}
