//! Answers for the control socket: each question is handed to the control thread and waited for.

use ipnet::IpNet;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use crate::control::status::*;
use crate::control::{Answer, CaptureRequest, CopyRequest, Feed, Question, RouteQuery, TraceRequest};

use flowlog::Record;

use super::control::{Control, Door};
use super::reload::Reloading;

/// How long a question may take before the client is told that the daemon is too busy.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where clients' threads ask.
pub(super) struct Desk {
    door: Door,
    reloading: Reloading,
}

impl Desk {
    pub(super) fn new(door: Door, reloading: Reloading) -> Desk {
        Desk { door, reloading }
    }

    /// Has `question` answered on the control thread.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Control) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let (sender, answer) = sync_channel(1);
        let job = Box::new(move |control: &mut Control| {
            // Nobody waits any more: the answer goes nowhere.
            let _ = sender.send(question(control));
        });
        if !self.door.hand_in(job) {
            return Err("the daemon is stopping".into());
        }
        answer.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            Err("the daemon is too busy to answer now (routes are being loaded, or it is stopping); try again".into())
        })
    }
}

impl Answer for Desk {
    fn version(&self) -> Result<Version, String> {
        self.ask(|control| {
            Ok(Version {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
                uptime_seconds: control.started.elapsed().as_secs(),
                configuration: control.reloading.file.as_ref().map(|file| file.display().to_string()),
            })
        })
    }

    fn ports(&self) -> Result<Vec<PortStatus>, String> {
        self.ask(|control| Ok(control.forwarding.port_statuses()))
    }

    fn routes(
        &self,
        query: &RouteQuery,
        after: Option<&RouteEntry>,
        limit: usize,
    ) -> Result<Vec<RouteEntry>, String> {
        let (query, after) = (*query, after.cloned());
        self.ask(move |control| Ok(control.forwarding.routes(&query, after.as_ref(), limit)))
    }

    fn neighbours(&self) -> Result<Vec<Neighbour>, String> {
        self.ask(|control| Ok(control.forwarding.neighbours()))
    }

    fn drops(&self) -> Result<Vec<DropCount>, String> {
        self.ask(|control| Ok(control.forwarding.drops()))
    }

    fn workers(&self) -> Result<Vec<WorkerStatus>, String> {
        self.ask(|control| Ok(control.forwarding.workers()))
    }

    fn graph(&self) -> Result<Vec<GraphNode>, String> {
        self.ask(|control| Ok(control.forwarding.graph()))
    }

    fn reload(&self, dry_run: bool) -> Result<String, String> {
        self.reloading.reload(&self.door, dry_run)
    }

    fn change_set(&self, name: &str, come: &[IpNet], go: &[IpNet]) -> Result<u64, String> {
        let (name, come, go) = (name.to_owned(), come.to_vec(), go.to_vec());
        self.ask(move |control| control.change_set(&name, &come, &go))
    }

    fn handle(&self, handler: &str, value: Option<&str>) -> Result<Vec<String>, String> {
        let (handler, value) = (handler.to_owned(), value.map(str::to_owned));
        self.ask(move |control| control.forwarding.handle(&handler, value.as_deref()))
    }

    fn classifier(&self) -> Result<ClassifierStatus, String> {
        self.ask(|control| Ok(control.forwarding.classifier()))
    }

    fn config(&self) -> Result<Config, String> {
        self.ask(|control| {
            let file = control.reloading.file.as_ref().map(|file| file.display().to_string());
            Ok(Config { file, text: control.forwarding.router.text.clone() })
        })
    }

    fn mirror(&self) -> Result<MirrorStatus, String> {
        self.ask(|control| {
            Ok(control.forwarding.mirror_status(&control.parts.ports.foreign, &control.parts.fallback))
        })
    }

    fn flows(&self, query: &FlowQuery) -> Result<Flows, String> {
        // The control thread only says where to look.
        self.ask(|control| Ok(control.forwarding.flow_viewer()))?.look(query)
    }

    fn clear_flows(&self, query: &FlowQuery) -> Result<u64, String> {
        self.ask(|control| Ok(control.forwarding.flow_viewer()))?.clear(query)
    }

    fn flow_table(&self) -> Result<Option<FlowTable>, String> {
        self.ask(|control| Ok(control.forwarding.flow_table()))
    }

    fn nat(&self) -> Result<Translation, String> {
        let nat = self.ask(|control| {
            let nat = control.forwarding.plane.policy().nat().cloned();
            Ok(nat.map(|nat| (nat, control.nat_audit.repaired)))
        })?;
        Ok(nat.map(|(nat, repaired)| super::flows::translation(&nat, repaired)).unwrap_or_default())
    }

    fn filter(&self) -> Result<Vec<FilterChain>, String> {
        self.ask(|control| Ok(control.forwarding.filter()))
    }

    fn flow_log(&self) -> Result<Option<FlowLogStatus>, String> {
        self.ask(|control| Ok(control.parts.logging.status(&control.forwarding)))
    }

    fn sflow(&self) -> Result<Option<SflowStatus>, String> {
        self.ask(|control| Ok(control.parts.sampler.status()))
    }

    fn living(&self, query: &FlowQuery, from: u32) -> Result<(Vec<Record>, Option<u32>), String> {
        self.ask(|control| Ok(control.parts.logging.living(&control.forwarding)))?.page(query, from)
    }

    fn summary(&self) -> Result<Summary, String> {
        self.ask(|control| Ok(control.forwarding.summary()))
    }

    fn explain(&self, question: &Question) -> Result<Vec<Step>, String> {
        let question = question.clone();
        self.ask(move |control| control.forwarding.explain(&question))
    }

    fn trace(&self, request: &TraceRequest) -> Result<Feed<TraceStep>, String> {
        let request = request.clone();
        self.ask(move |control| control.forwarding.trace(&request))
    }

    fn capture(&self, request: &CaptureRequest) -> Result<Feed<CapturedPacket>, String> {
        let request = request.clone();
        self.ask(move |control| control.forwarding.capture(&request))
    }

    fn copy(&self, request: &CopyRequest) -> Result<Feed<SeenPacket>, String> {
        let request = request.clone();
        self.ask(move |control| control.forwarding.copy(&request))
    }

    fn mirror_port(&self) -> Result<Option<MirrorPortStatus>, String> {
        self.ask(|control| Ok(control.parts.mirroring.status()))
    }
}
