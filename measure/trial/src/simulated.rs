//! A device that exists only in arithmetic, to test the searches and runs against: a queue before a
//! server.

use crate::{Description, Device, DeviceError, Latency, Measured, Offered, PERCENTILES, Pattern};

/// What it does beside being a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Manner {
    /// Nothing.
    Sound,
    /// Forwards this part less, at times.
    Noisy(f64),
    /// Any counts.
    Odd,
}

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct Simulated {
    /// Frames a second that it carries, a port.
    pub(crate) capacity: f64,
    /// Frames a second that the tester can send.
    pub(crate) tester: f64,
    /// Frames of each trial that the tester has no room for when they come back.
    pub(crate) missed: u64,
    /// Frames that it can hold.
    pub(crate) buffer: u64,
    pub(crate) manner: Manner,
    /// Fails at this trial, from 0.
    pub(crate) fails_at: Option<u32>,
    pub(crate) trials: u32,
    pub(crate) dice: chance::Random,
}

impl Simulated {
    pub(crate) fn new(capacity: f64) -> Simulated {
        Simulated {
            capacity,
            tester: f64::INFINITY,
            missed: 0,
            buffer: 1000,
            manner: Manner::Sound,
            fails_at: None,
            trials: 0,
            dice: chance::Random(1),
        }
    }

    fn roll(&mut self) -> f64 {
        self.dice.unit()
    }
}

impl Device for Simulated {
    fn describe(&self) -> Description {
        Description {
            name: "simulated".to_owned(),
            tester: "arithmetic".to_owned(),
            line_bits: 10e9,
            tester_rate: None,
            pairs: 1,
            traffic: String::new(),
            least4: 64,
            least6: 78,
        }
    }

    fn trial(&mut self, offered: &Offered) -> Result<Measured, DeviceError> {
        self.trials += 1;
        if self.fails_at == Some(self.trials - 1) {
            return Err(DeviceError::Failed("the cable was pulled".to_owned()));
        }
        if offered.modifiers.route_updates > 0 {
            return Err(DeviceError::Unsupported("it has no routing".to_owned()));
        }
        let (sent, dice) = (offered.intended().min(self.tester * offered.seconds) as u64, self.roll());
        let capacity = match self.manner {
            Manner::Noisy(part) if dice < 0.2 => self.capacity * (1.0 - part),
            _ => self.capacity,
        };
        let senders = f64::from(offered.senders());
        let carried = (capacity * offered.seconds * senders) as u64 + 1;
        // Frames that are counted are all sent, if it takes longer.
        let (sent, seconds) = match offered.pattern {
            Pattern::Burst { frames } => {
                (offered.intended() as u64, offered.seconds.max(frames as f64 / self.tester))
            }
            _ => (sent, offered.seconds),
        };
        let received = match offered.pattern {
            Pattern::Burst { .. } if self.tester <= capacity => sent,
            Pattern::Burst { frames } if frames <= self.buffer => sent,
            Pattern::Reset { .. } => sent.min(carried) / 2,
            _ => sent.min(carried),
        };
        let load = (offered.rate / capacity).min(0.99);
        let latency = |percentile: f64| 5_000.0 + 1_000.0 * load / (1.0 - load) * (1.0 + percentile / 50.0);
        let mut measured = Measured {
            sent,
            received: received.saturating_sub(self.missed),
            missed: self.missed,
            seconds,
            latency: Some(Latency {
                count: received,
                min: latency(0.0),
                mean: latency(50.0),
                max: latency(100.0),
                jitter: Some(100.0),
                percentiles: PERCENTILES.iter().map(|&at| (at, latency(at))).collect(),
            }),
            last_loss: Some(0.002),
            gap: Some(offered.seconds / 2.0),
            ..Measured::default()
        };
        if self.manner == Manner::Odd {
            let odd = |dice: f64| [0, 1, sent, sent * 2, u64::MAX, sent / 3][(dice * 6.0) as usize];
            (measured.sent, measured.received) = (odd(self.roll()), odd(self.roll()));
            measured.seconds = [0.0, f64::NAN, -1.0, f64::INFINITY, 1.0][(self.roll() * 5.0) as usize];
            measured.last_loss = Some([f64::NAN, -5.0, 1e300][(self.roll() * 3.0) as usize]);
            if self.roll() < 0.3 {
                measured.latency = Some(Latency { count: 1, min: f64::NAN, ..Latency::default() });
            }
        }
        Ok(measured)
    }
}
