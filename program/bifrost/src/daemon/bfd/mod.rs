//! `[bfd]`: BFD sessions that FRR wants are run here.
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | the control thread's part |
//! | `thread.rs` | the thread that runs the sessions |
//! | `live.rs` | a session as that thread has it |
//! | `socket.rs` | its sockets |
//! | `connection.rs` | the way to FRR's bfdd |
//!
//! The protocol is the crate `bfd`. FRR decides which sessions there are, and what is done about
//! their state; bfdd hands them over to a forwarding plane (`bfdd --dplaneaddr`). The thread here
//! has nothing else to do and an urgent priority, so that intervals of 10 ms are kept while FRR or
//! Bifrost itself reads a million routes.
//!
//! A stop of Bifrost is no failure of the way, and its neighbours are told so (state admin-down).
//! FRR's own protocols are not told that a session is down because it begins anew here.

mod connection;
mod live;
mod socket;
mod thread;

use std::io;
use std::thread as threads;
use std::time::Duration;

use config::Bfd as Plan;
use tracing::error;

use super::forwarding::Forwarding;
use super::orders::{Orders, orders};
use super::section::{Change, Section};
use crate::subject::BfdStatus;
use thread::{Order, Runner};

/// How long the thread may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Bfd {
    running: Option<Running>,
}

struct Running {
    orders: Orders<Order>,
    plan: Plan,
}

impl Bfd {
    /// Begins, goes on with another place of FRR's, or ends.
    pub(super) fn follow(&mut self, forwarding: &Forwarding) {
        let Some(plan) = &forwarding.router.bfd else { return self.stop() };
        if self.running.as_ref().is_some_and(|running| running.plan == *plan) {
            return;
        }
        self.stop();
        match begin(plan) {
            Ok(orders) => self.running = Some(Running { orders, plan: plan.clone() }),
            Err(error) => error!("no BFD session is run here: {error}"),
        }
    }

    pub(crate) fn status(&self) -> Result<Option<BfdStatus>, String> {
        let Some(running) = &self.running else { return Ok(None) };
        let answer = running.orders.ask(Order::Status).recv_timeout(PATIENCE);
        answer.map(Some).map_err(|_| "the thread that runs BFD does not answer".to_owned())
    }

    /// Tells the other ends that this is no failure, and ends the thread.
    pub(super) fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            // It is gone in any case when the orders are.
            let _ = running.orders.ask(Order::Stop).recv_timeout(PATIENCE);
        }
    }
}

fn begin(plan: &Plan) -> io::Result<Orders<Order>> {
    let (orders, inbox) = orders()?;
    let runner = Runner::new(inbox, plan.clone());
    threads::Builder::new().name("bfd".to_owned()).spawn(move || runner.run())?;
    Ok(orders)
}

impl Section for Bfd {
    fn effects(&self, change: &Change) -> Vec<String> {
        let effect = match (&change.before.bfd, &change.after.bfd) {
            (before, after) if before == after => return Vec::new(),
            (_, Some(plan)) => format!("[bfd]: sessions of FRR's bfdd at {} are run here", plan.frr),
            (_, None) => "[bfd]: sessions of FRR's are not run any more".to_owned(),
        };
        vec![effect]
    }

    fn prepare(&mut self, _: &mut Change, _: &mut Forwarding) -> Result<(), String> {
        Ok(())
    }

    /// The control thread follows what is configured, as it does at the start.
    fn apply(&mut self, _: &Change, _: &mut Forwarding) {}

    fn abort(&mut self, _: &mut Forwarding) {}
}
