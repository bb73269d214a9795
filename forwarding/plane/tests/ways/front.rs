//! The driver, as it stands in front of workers: its program runs on one frame after the other.

use fib::{InterfaceFlags, Locality, PortId, Tables};
use graph::Hand;
use port::{Driver, Extra, Lane as Took};
use wire::{Class, Reason};

use super::tables::{CAPACITY, filled, open};
use super::{Lane, Outcome};
use crate::corpus::{self, Frame, Hosts, IN, Kind, OUT, OWN};

/// `enum xdp_action`.
const DROP: u32 = 1;
const PASS: u32 = 2;
const REDIRECT: u32 = 4;

/// Waits until the driver has these programs.
fn add(driver: &mut Driver, extra: Extra) {
    driver.open(extra).unwrap().unwrap().join().unwrap().unwrap();
}

/// A driver and the tables that it shares with workers.
pub struct Front {
    pub driver: Driver,
    pub tables: Tables,
    /// By which port frames come in now.
    input: Option<PortId>,
    /// What has been sent by each port.
    sent: [u64; 2],
    kind: Kind,
}

impl Front {
    pub fn new(kind: Kind) -> Front {
        let mut driver = Driver::new(&CAPACITY.sizes()).unwrap();
        let tables = filled(Some(driver.table_memory().unwrap()), kind);
        let loopback = port::device::Device::named("lo").unwrap().ifindex;
        for port in [IN, OUT] {
            // Nothing is sent in a test run.
            driver.set_target(port, loopback).unwrap();
        }
        if kind.vrf {
            add(&mut driver, Extra::Vrfs);
        }
        if kind.bridge == Some(Hosts::Strangers) {
            add(&mut driver, Extra::Strangers);
        }
        if kind.bridge == Some(Hosts::Known) {
            for frame in corpus::frames() {
                let Some(host) = frame.bytes.get(6..).and_then(|rest| rest.first_chunk()) else { continue };
                driver.know_sender(corpus::interface(frame.input, kind), *host, true).unwrap();
            }
        }
        let of = Locality { main: !kind.vrf, vrf: kind.vrf };
        OWN.iter().flatten().for_each(|own| driver.add_local(own.parse().unwrap(), of).unwrap());
        Front { driver, tables, input: None, sent: [0; 2], kind }
    }

    /// Opens both ports for a lane.
    pub fn open(&mut self, lane: Lane, more: InterfaceFlags) {
        let of_lane = match lane {
            Lane::Express => InterfaceFlags::EXPRESS,
            Lane::Offloaded => InterfaceFlags::FLOWS,
            _ => InterfaceFlags::empty(),
        };
        open(&mut self.tables, of_lane | more, self.kind);
    }

    /// What becomes of a frame; `None`: it is for a worker.
    pub fn pass(&mut self, frame: &Frame) -> Option<Outcome> {
        if self.input != Some(frame.input) {
            // From now on what comes by the loopback interface comes by this port.
            self.driver.load(frame.input).unwrap();
            self.input = Some(frame.input);
        }
        let run = self.driver.test_run(frame.input, &frame.bytes).unwrap();
        let out = if run.action == REDIRECT { self.left_by() } else { Vec::new() };
        let counted = &run.counted;
        let lanes = Took::ALL.map(|lane| counted.lane(lane).packets);
        let dropped = Reason::ALL.into_iter().map(|reason| (reason, counted.reason(reason)));
        let dropped: Vec<_> = dropped.filter(|(_, count)| *count != 0).collect();
        let class = Class::ALL.into_iter().find(|class| counted.passed[*class as usize] == 1);
        let sums = (lanes.iter().sum::<u64>(), counted.passed.iter().sum::<u64>(), dropped.len());
        let count = |lane: Took| lanes[lane as usize] == 1;
        let mut outcome = Outcome { dropped, ..Outcome::default() };
        match (run.action, class, &out[..]) {
            (REDIRECT, None, [(port, 1)]) if count(Took::Express) && sums == (1, 0, 0) => {
                outcome.sent.push((*port, run.bytes));
            }
            (PASS, Some(class), []) if count(Took::Pass) && sums == (1, 1, 0) => {
                outcome.linux.push((class, Hand::Receive, run.bytes));
            }
            // There is no socket.
            (PASS, None, []) if count(Took::Pass) && sums == (1, 0, 0) => {
                assert_eq!(run.bytes, frame.bytes, "{}: what is a worker's is as it came", frame.name);
                return None;
            }
            (DROP, None, []) if count(Took::Drop) && sums == (1, 0, 1) => {}
            _ => panic!("{}: the driver counts {counted:?} for action {}, {out:?}", frame.name, run.action),
        }
        Some(outcome)
    }

    /// By which ports packets have left since this was asked, and how many.
    fn left_by(&mut self) -> Vec<(PortId, u64)> {
        let mut left = Vec::new();
        for (port, before) in [IN, OUT].into_iter().zip(&mut self.sent) {
            let now = self.driver.sent(port).unwrap().packets;
            if now != *before {
                left.push((port, now - *before));
            }
            *before = now;
        }
        left
    }
}
