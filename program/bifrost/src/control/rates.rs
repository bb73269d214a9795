//! Counters to rates: a sample a second, and the difference of the last two.
//!
//! It lives in the server, so that whoever counts only counts, and so that every client, however
//! short its visit, sees the same rates.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::answer::Answer;
use super::status::*;

/// Time between two samples.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// The last two samples.
#[derive(Default)]
pub struct Rates {
    samples: Mutex<(Option<Sample>, Option<Sample>)>,
}

struct Sample {
    at: Instant,
    ports: HashMap<String, (Traffic, Traffic, u64)>,
    workers: HashMap<usize, (u64, u64, u64)>,
    drops: HashMap<DropKey, u64>,
    lanes: Lanes,
}

type DropKey = (Option<String>, Lane, Option<String>, String);

fn drop_key(count: &DropCount) -> DropKey {
    (count.port.clone(), count.lane, count.element.clone(), count.reason.clone())
}

impl Rates {
    /// Takes a sample. What the daemon cannot tell just now is left out of it.
    pub(super) fn sample(&self, answer: &dyn Answer) {
        let sample = Sample {
            at: Instant::now(),
            ports: (answer.ask::<Vec<PortStatus>>().unwrap_or_default().into_iter())
                .map(|port| (port.name, (port.received.total(), port.sent.total(), port.drops)))
                .collect(),
            workers: (answer.ask::<Vec<WorkerStatus>>().unwrap_or_default().into_iter())
                .map(|worker| (worker.index, (worker.packets, worker.batches, worker.busy_ns)))
                .collect(),
            drops: (answer.ask::<Vec<DropCount>>().unwrap_or_default().into_iter())
                .map(|count| (drop_key(&count), count.packets))
                .collect(),
            lanes: answer.summary().unwrap_or_default().lanes,
        };
        self.push(sample);
    }

    fn push(&self, sample: Sample) {
        let mut samples = self.lock();
        samples.0 = samples.1.take();
        samples.1 = Some(sample);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (Option<Sample>, Option<Sample>)> {
        // A panic while it was held leaves at worst one sample missing.
        self.samples.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Calls `f` with the older sample, the newer one and the seconds between; not before there are
    /// two.
    fn between(&self, f: impl FnOnce(&Sample, &Sample, f64)) {
        if let (Some(old), Some(new)) = &*self.lock() {
            let seconds = new.at.duration_since(old.at).as_secs_f64();
            if seconds > 0.0 {
                f(old, new, seconds);
            }
        }
    }

    /// Fills in the rates of these ports.
    pub(crate) fn fill_ports(&self, ports: &mut [PortStatus]) {
        self.between(|old, new, seconds| {
            for port in ports {
                let (Some(a), Some(b)) = (old.ports.get(&port.name), new.ports.get(&port.name)) else {
                    continue;
                };
                port.rates = PortRates {
                    received: rate(a.0, b.0, seconds),
                    sent: rate(a.1, b.1, seconds),
                    drops_per_second: per_second(a.2, b.2, seconds),
                };
            }
        });
    }

    /// Fills in the load and the rates of these workers.
    pub(crate) fn fill_workers(&self, workers: &mut [WorkerStatus]) {
        self.between(|old, new, seconds| {
            for worker in workers {
                let (Some(a), Some(b)) = (old.workers.get(&worker.index), new.workers.get(&worker.index))
                else {
                    continue;
                };
                let (packets, batches) = (b.0.saturating_sub(a.0), b.1.saturating_sub(a.1));
                worker.packets_per_second = packets as f64 / seconds;
                worker.batch_average = if batches == 0 { 0.0 } else { packets as f64 / batches as f64 };
                worker.load = (per_second(a.2, b.2, seconds) / 1e9).min(1.0);
            }
        });
    }

    /// Fills in the rates of these drops.
    pub(crate) fn fill_drops(&self, drops: &mut [DropCount]) {
        self.between(|old, new, seconds| {
            for count in drops {
                let key = drop_key(count);
                // A reason listed for the first time was at zero before.
                let before = old.drops.get(&key).copied().unwrap_or(0);
                count.per_second = new.drops.get(&key).map_or(0.0, |now| per_second(before, *now, seconds));
            }
        });
    }

    /// Shares of the lanes among the packets between the two samples.
    pub(super) fn shares(&self) -> Shares {
        let mut shares = Shares::default();
        self.between(|old, new, _| {
            let less = |a: Traffic, b: Traffic| Traffic {
                packets: b.packets.saturating_sub(a.packets),
                bytes: b.bytes.saturating_sub(a.bytes),
            };
            shares = Shares::of(&Lanes {
                express: less(old.lanes.express, new.lanes.express),
                worker: less(old.lanes.worker, new.lanes.worker),
                linux: less(old.lanes.linux, new.lanes.linux),
            });
        });
        shares
    }
}

fn rate(old: Traffic, new: Traffic, seconds: f64) -> Rate {
    Rate {
        packets_per_second: per_second(old.packets, new.packets, seconds),
        bits_per_second: per_second(old.bytes, new.bytes, seconds) * 8.0,
    }
}

/// A counter that went backwards (its port was made anew) counts as standing still.
fn per_second(old: u64, new: u64, seconds: f64) -> f64 {
    new.saturating_sub(old) as f64 / seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: Instant, packets: u64) -> Sample {
        let traffic = Traffic { packets, bytes: packets * 100 };
        Sample {
            at,
            ports: HashMap::from([("eth0".to_owned(), (traffic, traffic, packets / 10))]),
            workers: HashMap::from([(0, (packets, packets / 32, packets * 1_000))]),
            drops: HashMap::from([((None, Lane::Worker, None, "no_route".to_owned()), packets)]),
            lanes: Lanes { express: traffic, linux: traffic, ..Lanes::default() },
        }
    }

    #[test]
    fn rates_are_the_difference_of_two_samples() {
        let rates = Rates::default();
        let mut ports = [PortStatus { name: "eth0".into(), ..PortStatus::default() }];
        let start = Instant::now();
        rates.push(sample(start, 0));
        rates.fill_ports(&mut ports);
        assert_eq!(ports[0].rates, PortRates::default(), "one sample is no rate");

        rates.push(sample(start + Duration::from_secs(2), 1_000_000));
        rates.fill_ports(&mut ports);
        assert_eq!(ports[0].rates.received.packets_per_second, 500_000.0);
        assert_eq!(ports[0].rates.sent.bits_per_second, 400_000_000.0);
        assert_eq!(ports[0].rates.drops_per_second, 50_000.0);

        let mut workers = [WorkerStatus::default()];
        rates.fill_workers(&mut workers);
        assert_eq!((workers[0].load, workers[0].batch_average), (0.5, 32.0));
        assert_eq!(rates.shares(), Shares { express: 0.5, worker: 0.0, linux: 0.5 });

        rates.push(sample(start + Duration::from_secs(3), 10));
        rates.fill_ports(&mut ports);
        assert_eq!(ports[0].rates.received.packets_per_second, 0.0, "a counter that went backwards");
    }
}
