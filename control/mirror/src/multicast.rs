//! Linux's multicast routing tables, as PIM daemons and the like fill them: for each source and
//! group, by which interface packets come in, and by which they leave.
//!
//! What changes is heard, and all is read again when something was lost, when an interface comes
//! into multicast routing or leaves it (which changes entries without a word), and now and then.
//! What is heard while it is read counts more than what is read, for it comes in order.
//!
//! Which groups this machine itself has joined is asked for now and then: Linux does not tell.

use crate::netlink::group::{self, GroupMessage};
use crate::netlink::netconf::RTM_NEWNETCONF;
use crate::netlink::request::RTM_NEWRULE;
use crate::netlink::socket::{Dump, Notifications, Received};
use crate::netlink::{self, INTERRUPTED};
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of messages that may wait.
const RECEIVE_BUFFER: usize = 8 << 20;
/// Pause between two reads that nothing asks for.
const AUDIT: Duration = Duration::from_secs(10);
/// Pause before a read that something asks for: such things come in groups.
const REREAD_AFTER: Duration = Duration::from_millis(20);
/// Where Linux shows the interfaces that take part, if it has multicast routing.
const FAMILIES: [&str; 2] = ["/proc/net/ip_mr_vif", "/proc/net/ip6_mr_vif"];

/// Group and source. The unspecified source is any.
pub type GroupKey = (IpAddr, IpAddr);

/// An entry of Linux's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRoute {
    /// The interface that packets come in by; 0: it is gone.
    pub input: u32,
    /// Those that they leave by with a TTL above the number beside each.
    pub outputs: SmallVec<[(u32, u8); 4]>,
    /// There are several of this group and source, which Linux knows to tell apart.
    pub several: bool,
}

/// See the module's description.
pub struct GroupRoutes {
    notifications: Notifications,
    routes: BTreeMap<GroupKey, GroupRoute>,
    ruled: [bool; 2],
    reading: Option<Reading>,
    read_at: Instant,
    /// Moves with every change.
    generation: u64,
    /// Whether all has been read once.
    known: bool,
}

/// A read of everything under way.
struct Reading {
    /// What is still to be asked for.
    steps: Vec<(bool, Step)>,
    dump: Option<(bool, Dump)>,
    found: BTreeMap<GroupKey, GroupRoute>,
    ruled: [bool; 2],
    /// Of what was heard meanwhile.
    heard: HashSet<GroupKey>,
    interrupted: bool,
}

#[derive(Clone, Copy)]
enum Step {
    Routes,
    Rules,
}

impl Reading {
    /// Of the families that there are.
    fn new() -> Reading {
        let there = [false, true].into_iter().filter(|ipv6| Path::new(FAMILIES[usize::from(*ipv6)]).exists());
        Reading {
            steps: there.flat_map(|ipv6| [(ipv6, Step::Routes), (ipv6, Step::Rules)]).collect(),
            dump: None,
            found: BTreeMap::new(),
            ruled: [false; 2],
            heard: HashSet::new(),
            interrupted: false,
        }
    }

    /// Reads some; whether that was all.
    fn step(&mut self) -> io::Result<bool> {
        let (ipv6, mut dump) = match (self.dump.take(), self.steps.pop()) {
            (Some(under_way), step) => {
                self.steps.extend(step);
                under_way
            }
            (None, Some((ipv6, Step::Routes))) => (ipv6, Dump::groups(ipv6)?),
            (None, Some((ipv6, Step::Rules))) => (ipv6, Dump::group_rules(ipv6)?),
            (None, None) => return Ok(true),
        };
        let mut done = false;
        for message in netlink::messages(dump.receive()?) {
            self.interrupted |= message.flags & INTERRUPTED != 0;
            match i32::from(message.kind) {
                // An error: Linux has no rules for this family.
                libc::NLMSG_DONE | libc::NLMSG_ERROR => done = true,
                _ => self.take_in(message.kind, message.body, ipv6),
            }
        }
        if !done {
            self.dump = Some((ipv6, dump));
        }
        Ok(self.dump.is_none() && self.steps.is_empty())
    }

    fn take_in(&mut self, kind: u16, body: &[u8], ipv6: bool) {
        if kind == RTM_NEWRULE {
            self.ruled[usize::from(ipv6)] |= group::chooses_table(body).unwrap_or(false);
            return;
        }
        let Some(message) = group::parse(body).filter(|one| one.default_table && !one.unresolved) else {
            return;
        };
        let (key, route) = split(message);
        let several = self.found.contains_key(&key);
        self.found.insert(key, GroupRoute { several, ..route });
    }
}

fn split(message: GroupMessage) -> (GroupKey, GroupRoute) {
    let GroupMessage { source, group, input, outputs, .. } = message;
    ((group, source), GroupRoute { input, outputs, several: false })
}

impl GroupRoutes {
    /// Subscribes, in the calling thread's network namespace.
    ///
    /// # Errors
    /// Where netlink cannot be opened.
    pub fn new() -> io::Result<GroupRoutes> {
        Ok(GroupRoutes {
            notifications: Notifications::groups(RECEIVE_BUFFER)?,
            routes: BTreeMap::new(),
            ruled: [false; 2],
            reading: None,
            read_at: Instant::now(),
            generation: 0,
            known: false,
        })
    }

    /// Linux's entries, in its table that decides where no rule chooses another.
    pub fn routes(&self) -> &BTreeMap<GroupKey, GroupRoute> {
        &self.routes
    }

    /// Whether rules (`ip mrule`) choose other tables, of IPv4, of IPv6.
    pub fn ruled(&self) -> [bool; 2] {
        self.ruled
    }

    /// A number that moves with every change; 0: nothing has been read.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Hears and reads until `deadline`; whether more waits.
    ///
    /// # Errors
    /// Where netlink fails; then all is read again, soon.
    pub fn follow(&mut self, deadline: Instant) -> io::Result<bool> {
        let followed = self.go_on(deadline);
        if followed.is_err() {
            self.reading = None;
            self.read_at = Instant::now() + AUDIT;
        }
        followed
    }

    fn go_on(&mut self, deadline: Instant) -> io::Result<bool> {
        while Instant::now() < deadline {
            let hears = self.hear()?;
            if self.reading.is_none() && Instant::now() >= self.read_at {
                self.reading = Some(Reading::new());
            }
            // What is heard is heard first: it may be older than what is read.
            if hears {
                continue;
            }
            let Some(reading) = &mut self.reading else { return Ok(false) };
            if reading.step()? {
                self.end_read();
            }
        }
        Ok(true)
    }

    /// Takes in what waits; whether there was something.
    fn hear(&mut self) -> io::Result<bool> {
        let mut reread = false;
        match self.notifications.receive()? {
            Received::Nothing => return Ok(false),
            Received::Lost => {
                tracing::warn!("netlink overflowed; reading multicast routes anew");
                self.reading = None;
                self.read_at = Instant::now();
                return Ok(true);
            }
            Received::Messages(bytes) => {
                for message in netlink::messages(bytes) {
                    if message.kind == RTM_NEWNETCONF {
                        reread |= group::tells_interfaces(message.body);
                        continue;
                    }
                    let told = group::parse(message.body).filter(|one| one.default_table && !one.unresolved);
                    let Some(told) = told else { continue };
                    let (key, route) = split(told);
                    let had = match message.kind {
                        libc::RTM_NEWROUTE => self.routes.insert(key, route.clone()),
                        libc::RTM_DELROUTE => self.routes.remove(&key),
                        _ => continue,
                    };
                    // Perhaps one of several, which only a read tells.
                    reread |= key.1.is_unspecified()
                        && had.is_some_and(|had| had.several || had.input != route.input);
                    self.generation += 1;
                    if let Some(reading) = &mut self.reading {
                        reading.heard.insert(key);
                    }
                }
            }
        }
        if reread {
            self.reading = None;
            self.read_at = self.read_at.min(Instant::now() + REREAD_AFTER);
        }
        Ok(true)
    }

    fn end_read(&mut self) {
        let Some(mut reading) = self.reading.take() else { return };
        self.read_at = Instant::now() + if reading.interrupted { REREAD_AFTER } else { AUDIT };
        for key in reading.heard {
            match self.routes.remove_entry(&key) {
                Some((key, route)) => drop(reading.found.insert(key, route)),
                None => drop(reading.found.remove(&key)),
            }
        }
        let changed = self.routes != reading.found || self.ruled != reading.ruled;
        if changed || !self.known {
            self.known = true;
            self.generation += 1;
        }
        (self.routes, self.ruled) = (reading.found, reading.ruled);
    }
}

impl AsFd for GroupRoutes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }
}

/// The groups that this machine itself has joined, by interface; none where Linux does not say.
pub fn joined() -> HashSet<(u32, IpAddr)> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    joined4(&read("/proc/net/igmp")).chain(joined6(&read("/proc/net/igmp6"))).collect()
}

/// A line for an interface, which begins with its number, and one for each of its groups.
fn joined4(text: &str) -> impl Iterator<Item = (u32, IpAddr)> {
    let mut interface = 0;
    text.lines().skip(1).filter_map(move |line| {
        let first = line.split_ascii_whitespace().next()?;
        if !line.starts_with([' ', '\t']) {
            interface = first.parse().unwrap_or(0);
            return None;
        }
        // Linux writes the address as a number of its own order.
        let group = u32::from_str_radix(first, 16).ok()?;
        Some((interface, Ipv4Addr::from(group.to_ne_bytes()).into()))
    })
}

/// A line a group: the interface's number, its name, the address.
fn joined6(text: &str) -> impl Iterator<Item = (u32, IpAddr)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (interface, group) = (words.next()?.parse().ok()?, words.nth(1)?);
        Some((interface, Ipv6Addr::from(u128::from_str_radix(group, 16).ok()?).into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn joined_groups_are_read() {
        let igmp = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
            1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n\
            12\teth0      :     2      V3\n\t\t\t\t030201EF     1 0:00000000\t\t0\n\
            \t\t\t\t010000E0     1 0:00000000\t\t0\n";
        let all: IpAddr = [224, 0, 0, 1].into();
        let four: Vec<_> = joined4(igmp).collect();
        assert_eq!(four, [(1, all), (12, [239, 1, 2, 3].into()), (12, all)]);
        let igmp6 = "1    lo              ff020000000000000000000000000001     1 0000000C 0\n\
            12   eth0            ff0e0000000000000000000000000101     1 00000004 0\n";
        let six: Vec<_> = joined6(igmp6).collect();
        assert_eq!(six, [(1, "ff02::1".parse().unwrap()), (12, "ff0e::101".parse().unwrap())]);
        assert_eq!(joined4("").count() + joined6("").count(), 0);
    }
}
