//! Ping whose losses can be counted while it runs and to the packet: ICMP echo from a socket of the
//! host's own.
//!
//! The `ping` program keeps its words in a buffer, so what it lost is only known at its end. Linux
//! has "ping sockets" (the kernel fills in identifier and checksum), which make one ourselves a
//! matter of a few lines.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};

use crate::{Host, LabError, Result};

/// An answer later than this counts as lost.
const PATIENCE: Duration = Duration::from_millis(500);

/// A running ping, from one host to an address of either family.
pub struct Ping {
    stop: Arc<AtomicBool>,
    record: Arc<Mutex<Record>>,
    thread: Option<JoinHandle<()>>,
}

/// What a ping met so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PingStatistics {
    /// Requests whose answer came, or should have come by now.
    pub sent: usize,
    /// Answers that came.
    pub received: usize,
    /// The longest run of requests in a row without an answer.
    pub longest_gap: usize,
    /// Median round trip of the answers.
    pub median: Duration,
    /// The longest round trip.
    pub longest: Duration,
}

impl PingStatistics {
    /// Requests that were not answered.
    pub fn lost(&self) -> usize {
        self.sent - self.received
    }
}

/// Every request: when it was sent, and after what time its answer came.
#[derive(Default)]
struct Record {
    requests: Vec<(Instant, Option<Duration>)>,
    newest_answer: usize,
}

impl Ping {
    /// Starts to ping, one request every `interval`, until stopped.
    pub fn start(host: &Host, destination: &str, interval: Duration) -> Result<Ping> {
        let address: IpAddr = destination.parse().map_err(|_| LabError::Output {
            program: "the caller of ping".to_owned(),
            expected: "an address",
            got: destination.to_owned(),
        })?;
        host.sysctl(&[("net.ipv4.ping_group_range", "0 0")])?;
        let opened = host.inside(move || open(address))?;
        let opened = opened.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread panicked")));
        let socket = opened.map_err(LabError::io("a ping socket"))?;
        let (stop, record) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Record::default())));
        let (stopped, written) = (stop.clone(), record.clone());
        let request = if address.is_ipv6() { 128 } else { 8 };
        let thread = std::thread::spawn(move || run(&socket, request, interval, &stopped, &written));
        Ok(Ping { stop, record, thread: Some(thread) })
    }

    /// What it met so far. A request still on its way does not count.
    pub fn statistics(&self) -> PingStatistics {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).statistics(Instant::now())
    }

    /// Ends it, waiting a moment for the last answers.
    pub fn stop(mut self) -> PingStatistics {
        self.end();
        self.record.lock().unwrap_or_else(PoisonError::into_inner).statistics(Instant::now() + PATIENCE)
    }

    fn end(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _its_panic_is_reported = thread.join();
        }
    }
}

impl Drop for Ping {
    fn drop(&mut self) {
        self.end();
    }
}

fn open(address: IpAddr) -> std::io::Result<UdpSocket> {
    let (family, protocol) = match address {
        IpAddr::V4(_) => (AddressFamily::Inet, SockProtocol::Icmp),
        IpAddr::V6(_) => (AddressFamily::Inet6, SockProtocol::IcmpV6),
    };
    let socket = UdpSocket::from(socket(family, SockType::Datagram, SockFlag::empty(), protocol)?);
    socket.connect(SocketAddr::new(address, 0))?;
    Ok(socket)
}

fn run(socket: &UdpSocket, request: u8, interval: Duration, stop: &AtomicBool, record: &Mutex<Record>) {
    let start = Instant::now();
    let mut sent = 0u32;
    let mut last_answers = None;
    loop {
        let now = Instant::now();
        let until = match last_answers {
            Some(end) if now >= end => return,
            Some(end) => end,
            None => start + interval * sent,
        };
        if last_answers.is_none() && stop.load(Relaxed) {
            last_answers = Some(now + PATIENCE);
            continue;
        }
        if last_answers.is_none() && now >= until {
            let mut message = [0u8; 64];
            message[0] = request;
            message[6..8].copy_from_slice(&(sent as u16).to_be_bytes());
            record.lock().unwrap_or_else(PoisonError::into_inner).requests.push((now, None));
            // No route at the moment, an ICMP error that came back: a request lost, which is what
            // is counted.
            let _lost = socket.send(&message);
            sent += 1;
            continue;
        }
        let _never_zero = socket.set_read_timeout(Some((until - now).max(Duration::from_micros(100))));
        let mut answer = [0u8; 128];
        if let Ok(length) = socket.recv(&mut answer)
            && length >= 8
        {
            let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
            record.answered(u16::from_be_bytes([answer[6], answer[7]]), Instant::now());
            if last_answers.is_some()
                && record.requests.iter().rev().take(100).all(|(_, answer)| answer.is_some())
            {
                return;
            }
        }
    }
}

impl Record {
    /// The sequence number has 16 bits: the newest request that ends in them is meant.
    fn answered(&mut self, sequence: u16, now: Instant) {
        let Some(newest) = self.requests.len().checked_sub(1) else { return };
        let Some(n) = newest.checked_sub(usize::from((newest as u16).wrapping_sub(sequence))) else { return };
        let (sent, answer) = &mut self.requests[n];
        answer.get_or_insert(now - *sent);
        self.newest_answer = self.newest_answer.max(n + 1);
    }

    fn statistics(&self, now: Instant) -> PingStatistics {
        let mut seen = PingStatistics::default();
        let (mut times, mut gap) = (Vec::new(), 0);
        for (n, (sent, answer)) in self.requests.iter().enumerate() {
            match answer {
                Some(time) => {
                    times.push(*time);
                    gap = 0;
                }
                None if n < self.newest_answer || now > *sent + PATIENCE => gap += 1,
                None => continue,
            }
            seen.sent += 1;
            seen.longest_gap = seen.longest_gap.max(gap);
        }
        times.sort();
        seen.received = times.len();
        seen.median = times.get(times.len() / 2).copied().unwrap_or_default();
        seen.longest = times.last().copied().unwrap_or_default();
        seen
    }
}

impl Host {
    /// Asks all of these addresses at once, so often each, every 20 ms; every request is answered.
    ///
    /// # Errors
    /// [`LabError::Output`] with what ping(8) said of an address that did not answer all.
    pub fn asks<A: AsRef<str>>(&self, addresses: &[A], requests: u64) -> Result<()> {
        std::thread::scope(|scope| {
            let asking = addresses.iter().map(|to| {
                let ping = format!("ping -q -c {requests} -i 0.02 -W 5 {}", to.as_ref());
                scope.spawn(move || {
                    let said = self.run(&ping)?;
                    if said.contains(" 0% packet loss") {
                        return Ok(());
                    }
                    Err(LabError::Output { program: ping, expected: "every answer", got: said })
                })
            });
            let asking: Vec<_> = asking.collect();
            let joined = asking.into_iter().map(|one| one.join().expect("it does not panic"));
            joined.collect()
        })
    }

    /// Whether an address answers within `limit`; asked again every 10 ms.
    pub fn reaches(&self, destination: &str, limit: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            let ping = self.command("ping").args(["-n", "-c1", "-W0.2", destination]).output();
            if ping.map_err(LabError::io("ping"))?.status.success() {
                return Ok(());
            }
            if start.elapsed() > limit {
                let what = format!("{} to reach {destination}", self.name());
                return Err(LabError::Timeout { what, after: limit, last: String::new() });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(count: usize, at: Instant) -> Record {
        Record { requests: vec![(at, None); count], newest_answer: 0 }
    }

    #[test]
    fn counts_what_is_missing_and_not_what_is_on_its_way() {
        let now = Instant::now();
        let mut record = sent(6, now);
        [0, 1, 3].into_iter().for_each(|n| record.answered(n, now));
        let seen = record.statistics(now);
        assert_eq!((seen.sent, seen.lost(), seen.longest_gap), (4, 1, 1));
        let later = record.statistics(now + 2 * PATIENCE);
        assert_eq!((later.sent, later.lost(), later.longest_gap), (6, 3, 2));
    }

    #[test]
    fn follows_the_sequence_beyond_sixteen_bits() {
        let now = Instant::now();
        let mut record = sent(70_000, now);
        record.answered(69_999u32 as u16, now);
        record.answered(65_000, now);
        assert!(record.requests[69_999].1.is_some() && record.requests[65_000].1.is_some());
        assert_eq!(record.statistics(now).received, 2);
    }
}
