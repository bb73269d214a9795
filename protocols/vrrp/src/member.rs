//! A virtual router as this machine takes part in it: what it is told, and what it has heard of the
//! others.
//!
//! A member has no state of its own but its clocks. Whether it is active is its set's to say
//! (`set.rs`).

use std::net::IpAddr;
use std::time::Duration;

use crate::set::Time;

/// Which version is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// RFC 3768: IPv4, whole seconds.
    Two,
    /// RFC 9568.
    #[default]
    Three,
}

/// How a virtual router is taken part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Spoken and understood.
    pub version: Version,
    /// 1..=254; 255: the addresses are this machine's own.
    pub priority: u8,
    /// Time between two advertisements.
    pub interval: Duration,
    /// Whether it takes over from an active one of a lower priority.
    pub preempt: bool,
    /// How long after it came up it begins to do so.
    pub preempt_delay: Duration,
}

impl Settings {
    /// Version 3, an advertisement a second, preemption at once.
    pub fn new(priority: u8) -> Settings {
        let interval = Duration::from_secs(1);
        Settings { version: Version::Three, priority, interval, preempt: true, preempt_delay: Duration::ZERO }
    }
}

/// The priority of who owns the addresses.
pub(crate) const OWNER: u8 = 255;

#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) settings: Settings,
    /// Of this moment: that of the settings, less what is lost with what is tracked. 0: it cannot
    /// be active.
    pub(crate) priority: u8,
    /// Whether it can take part: its interface is there, and has an address to speak from.
    pub(crate) able: bool,
    /// While backup: when the active one is taken for gone.
    pub(crate) down_at: Time,
    /// While active: when to advertise again.
    pub(crate) advertise_at: Time,
    /// The interval of the active one, which version 3 has from its advertisements.
    pub(crate) interval: Duration,
    /// Who was heard last: its address and priority.
    pub(crate) heard: Option<(IpAddr, u8)>,
}

impl Member {
    pub(crate) fn new(settings: Settings) -> Member {
        Member {
            settings,
            priority: settings.priority,
            able: false,
            down_at: Time::MAX,
            advertise_at: Time::MAX,
            interval: settings.interval,
            heard: None,
        }
    }

    /// Those with a higher priority are a little faster, so that not all take over at once.
    pub(crate) fn skew(&self) -> Duration {
        let unit = match self.settings.version {
            Version::Two => Duration::from_secs(1),
            Version::Three => self.interval,
        };
        unit * (256 - u32::from(self.priority)) / 256
    }

    /// How long nothing must be heard of the active one.
    pub(crate) fn patience(&self) -> Duration {
        self.interval * 3 + self.skew()
    }

    /// Takes note of an active one that is to be one: it is waited for anew.
    pub(crate) fn refresh(&mut self, now: Time) {
        self.down_at = now + self.patience();
    }

    pub(crate) fn can(&self) -> bool {
        self.able && self.priority > 0
    }
}
