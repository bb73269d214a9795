//! `router.toml`'s words into the plane's and the mirror's.

use std::hash::{BuildHasher, RandomState};

use config::{LaneChoice, ModeChoice, PortRule, ReversePath, Router, Switch};
use elements::router::Sampling;
use fib::Capacity;
use firewall::Adopted;
use graph::Registry;
use mirror::{FpmOptions, Options};
use plane::{Hooks, PlaneSettings, PolicySettings, PortSettings};
use port::{HugePages, Mode, memif};
use wire::Class;

/// Packet buffers of a worker, unless configured: enough for the rings of eight queues.
const FRAMES: usize = 16_384;

pub(super) fn capacity(tables: &config::Tables) -> Capacity {
    Capacity { ipv4: tables.ipv4 as usize, ipv6: tables.ipv6 as usize, next_hops: tables.next_hops as usize }
}

/// What flows' paths are chosen by: until the machine boots again the same for every start, so that
/// a restart leaves flows where they are.
pub(super) fn flow_key(paths: &config::Paths) -> String {
    let boot = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let of_this_process = || RandomState::new().hash_one(0).to_string();
    paths.key.clone().or_else(boot).unwrap_or_else(of_this_process)
}

pub(super) fn plane(
    router: &Router,
    cores: &[usize],
    registry: Registry,
    sampling: Option<Sampling>,
) -> PlaneSettings {
    PlaneSettings {
        cores: cores.to_vec(),
        frames: router.memory.frames.map_or(FRAMES, |frames| (frames as usize).div_ceil(cores.len().max(1))),
        huge_pages: match router.memory.hugepages {
            Switch::Auto => HugePages::Auto,
            Switch::On => HugePages::On,
            Switch::Off => HugePages::Off,
        },
        hooks: hooks(&router.graph),
        // Linux's own firewall has not been read yet.
        policy: policy(router, &Adopted::default(), sampling),
        registry,
    }
}

/// The filter, translation, the flow table, and what chooses packets; `firewall` is Linux's own.
pub(super) fn policy(router: &Router, firewall: &Adopted, sampling: Option<Sampling>) -> PolicySettings {
    let filter = firewall.behind(&router.filter);
    let nat = router.nat.clone().or_else(|| firewall.nat.clone());
    // Where Linux tracks connections it puts fragments together, as workers do then.
    let tracks = firewall.tracks && firewall.judges();
    let tracks = tracks || router.flow_log.is_some();
    let flows = router.flow.or_else(|| tracks.then(flow::Settings::default));
    // Only where every port is a worker's anyway is there nothing to offload.
    let offload =
        router.ports.iter().any(|port| port.lane == LaneChoice::Auto && port.zero_copy != Switch::On);
    PolicySettings { filter, flows, nat, ftp: !router.ftp_off, sampling, offload }
}

/// What stands at the hooks of the graph.
pub(super) fn hooks(graph: &config::Graph) -> Hooks {
    let config::Graph { prerouting, forward, postrouting, punt } = graph.clone();
    Hooks { prerouting, forward, postrouting, punt }
}

/// `beside`: another process, from which this one takes over, may have the address for FPM.
pub(super) fn mirror(router: &Router, beside: bool) -> Options {
    Options {
        audit_interval: Some(router.audit.interval),
        fpm: router.fpm.as_ref().map(|fpm| FpmOptions {
            users: fpm.users.clone(),
            patient: beside,
            ..FpmOptions::new(fpm.listen)
        }),
        ..Options::default()
    }
}

pub(super) fn port(rule: &PortRule, router: &Router) -> PortSettings {
    PortSettings {
        lane: match rule.lane {
            LaneChoice::Auto => plane::LaneChoice::Auto,
            LaneChoice::Express => plane::LaneChoice::Express,
            LaneChoice::Worker => plane::LaneChoice::Worker,
        },
        queues: rule.queues,
        mode: match rule.mode {
            ModeChoice::Auto => Mode::Auto,
            ModeChoice::Native => Mode::Native,
            ModeChoice::Generic => Mode::Generic,
        },
        zero_copy: choice(rule.zero_copy),
        busy_poll: choice(router.workers.busy_poll),
        reverse_path: match rule.reverse_path {
            ReversePath::Linux => plane::ReversePath::Linux,
            ReversePath::Off => plane::ReversePath::Off,
            ReversePath::Strict => plane::ReversePath::Strict,
            ReversePath::Loose => plane::ReversePath::Loose,
        },
    }
}

/// The shared memory of a port that is that.
pub(super) fn memif(rule: &PortRule) -> Option<memif::Settings> {
    let wanted = rule.memif.as_ref()?;
    let role = if wanted.client { memif::Role::Client } else { memif::Role::Server };
    Some(memif::Settings {
        id: wanted.id,
        secret: wanted.secret.clone(),
        name: rule.name.as_str().to_owned(),
        queues: rule.queues.unwrap_or(1),
        ring: wanted.ring,
        buffer: wanted.buffer,
        trusted: wanted.trusted,
        ..memif::Settings::new(wanted.socket.as_str(), role)
    })
}

fn choice(switch: Switch) -> plane::Choice {
    match switch {
        Switch::Auto => plane::Choice::Auto,
        Switch::On => plane::Choice::On,
        Switch::Off => plane::Choice::Off,
    }
}

/// The limits of each class, packets a second and at once; 0: none.
pub(crate) fn police(router: &Router) -> [(Class, u64, u64); Class::COUNT] {
    let police = &router.police;
    [
        (Class::Routing, Some(police.routing)),
        (Class::Management, Some(police.management)),
        (Class::Icmp, Some(police.icmp)),
        (Class::Rest, Some(police.rest)),
        (Class::Unresolved, Some(police.unresolved)),
        (Class::Transit, police.transit),
        (Class::Neighbour, Some(police.neighbour)),
    ]
    .map(|(class, limit)| limit.map_or((class, 0, 0), |limit| (class, limit.rate, limit.burst)))
}
