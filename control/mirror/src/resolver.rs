//! Keeps neighbours resolved that the plane needs.
//!
//! Linux does not see the packets that the plane forwards: it would forget the neighbours they go
//! to, and would not ask for a gateway before a packet came that the plane cannot send. So the
//! gateways of programmed routes are asked for at once, again after a while if they do not answer
//! (1 s, 2 s, 4 s ... 64 s), and neighbours in use are reported as in use when they go stale. All
//! of it is an `NTF_USE` request, at a bounded rate; and each request waits for Linux's routing
//! lock, so that in a storm of route changes few are sent in a slice.

use crate::model::Model;
use crate::netlink::socket::Requests;
use crate::programmer::Programmer;
use fib::Tables;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const DOUBLINGS: u32 = 6;

/// See the module's description.
pub(crate) struct Resolver {
    per_second: u32,
    credit: f64,
    credited: Instant,
    attempts: HashMap<(u32, IpAddr), Attempt>,
    refresh: BTreeSet<(u32, IpAddr)>,
    pub sent: u64,
}

struct Attempt {
    count: u32,
    next: Instant,
}

impl Resolver {
    pub fn new(per_second: u32, now: Instant) -> Resolver {
        Resolver {
            per_second,
            credit: f64::from(per_second),
            credited: now,
            attempts: HashMap::new(),
            refresh: BTreeSet::new(),
            sent: 0,
        }
    }

    /// Sends what is due.
    pub fn tick(
        &mut self,
        now: Instant,
        model: &Model,
        programmer: &Programmer,
        tables: &mut Tables,
        requests: &mut Requests,
        deadline: Instant,
    ) {
        let elapsed = now.saturating_duration_since(self.credited).as_secs_f64();
        let limit = f64::from(self.per_second);
        self.credit = (self.credit + elapsed * limit).min(limit);
        self.credited = now;
        for id in tables.take_used() {
            let Some((ifindex, address)) = programmer.neighbour(id) else {
                continue;
            };
            if model.neighbours.find(ifindex, address).is_some_and(|neighbour| neighbour.stale()) {
                self.refresh.insert((ifindex, address));
            }
        }
        while self.credit >= 1.0 && Instant::now() < deadline {
            let Some((ifindex, address)) = self.refresh.pop_first() else {
                break;
            };
            self.send(ifindex, address, requests);
        }
        self.ask(now, model, programmer, requests, deadline);
    }

    fn ask(
        &mut self,
        now: Instant,
        model: &Model,
        programmer: &Programmer,
        requests: &mut Requests,
        deadline: Instant,
    ) {
        let mut still = HashMap::new();
        for key @ (ifindex, address) in programmer.hops.adjacencies.unresolved() {
            if !model.links.by_index(ifindex).is_some_and(|link| link.up && link.running) {
                continue;
            }
            let mut attempt = self.attempts.remove(&key).unwrap_or(Attempt { count: 0, next: now });
            if attempt.next <= now && self.credit >= 1.0 && Instant::now() < deadline {
                self.send(ifindex, address, requests);
                attempt.next = now + FIRST_PAUSE * (1 << attempt.count.min(DOUBLINGS));
                attempt.count += 1;
            }
            still.insert(key, attempt);
        }
        self.attempts = still;
    }

    fn send(&mut self, ifindex: u32, address: IpAddr, requests: &mut Requests) {
        self.credit -= 1.0;
        self.sent += 1;
        if let Err(error) = requests.resolve(ifindex, address) {
            tracing::debug!(%error, ifindex, %address, "cannot ask Linux for a neighbour; it is asked again later");
        }
    }
}
