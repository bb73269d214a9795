//! Workers: core, load, batches, restarts.

use plane::Plane;
use plane::meter::State;
use serde::{Deserialize, Serialize};

use super::Subject;
use super::words::word;
use crate::command::table::Table;
use crate::control::Rates;
use crate::daemon::Control;
use crate::screen::units::{self, count};

/// What a worker is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// Polling its queues.
    Polling,
    /// Nothing to do: asleep until a packet comes.
    #[default]
    Asleep,
    /// It failed; the supervisor is starting it again and Linux has its ports.
    Restarting,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Number, from 0.
    pub index: usize,
    /// Processor core that it is pinned to.
    pub core: usize,
    /// Polling, asleep or restarting.
    pub state: WorkerState,
    /// Queues that it owns, `eth0/0`.
    pub queues: Vec<String>,
    /// Packets received.
    pub packets: u64,
    /// Batches that were not empty.
    pub batches: u64,
    /// Rounds over its queues, empty ones included.
    pub polls: u64,
    /// Times it was woken from sleep.
    pub wakeups: u64,
    /// Times the supervisor started it again.
    pub restarts: u64,
    /// Nanoseconds spent on packets (rounds that found some).
    pub busy_ns: u64,
    /// Derived: share of the last second spent on packets, 0 to 1.
    #[serde(default)]
    pub load: f64,
    /// Derived: packets a second.
    #[serde(default)]
    pub packets_per_second: f64,
    /// Derived: packets a batch over the last second.
    #[serde(default)]
    pub batch_average: f64,
}

impl Subject for Vec<WorkerStatus> {
    const NAME: &'static str = "workers";
    const ABOUT: &'static str = "Workers: core, load, batches, restarts";

    fn answer(control: &mut Control) -> Result<Self, String> {
        Ok(statuses(&control.forwarding.plane))
    }

    fn complete(&mut self, rates: &Rates) {
        rates.fill_workers(self);
    }

    fn table(&self) -> String {
        let mut table = Table::new(&[
            ">worker",
            ">core",
            "state",
            ">load",
            ">pps",
            ">batch",
            ">packets",
            ">wakeups",
            ">restarts",
            "queues",
        ]);
        for worker in self {
            table.row(vec![
                worker.index.to_string(),
                worker.core.to_string(),
                word(worker.state),
                units::share(worker.load),
                units::packets(worker.packets_per_second),
                format!("{:.1}", worker.batch_average),
                count(worker.packets),
                count(worker.wakeups),
                count(worker.restarts),
                worker.queues.join(" "),
            ]);
        }
        table.render()
    }
}

fn statuses(plane: &Plane) -> Vec<WorkerStatus> {
    let members = plane.worker_pool().handles().iter().enumerate();
    members
        .map(|(index, member)| {
            let queues = plane.ports().iter().flat_map(|port| {
                let open = port.taken.iter().flat_map(|taken| &taken.queues);
                open.filter(|queue| queue.worker == index)
                    .map(|queue| format!("{}/{}", port.name, queue.queue))
            });
            let meter = &member.meter;
            WorkerStatus {
                index,
                core: member.core,
                state: match meter.state() {
                    State::Polling => WorkerState::Polling,
                    State::Asleep => WorkerState::Asleep,
                    State::Failed => WorkerState::Restarting,
                },
                queues: queues.collect(),
                packets: meter.packets.value(),
                batches: meter.batches.value(),
                polls: meter.rounds.value(),
                wakeups: meter.wakeups.value(),
                restarts: member.restarts,
                busy_ns: meter.busy_ns.value(),
                ..WorkerStatus::default()
            }
        })
        .collect()
}
