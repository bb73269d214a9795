//! One look at everything, once a second.

use std::path::PathBuf;

use bifrost::control::{Client, Request, status::Snapshot};

use crate::{
    stage::Stage,
    traffic::{Outcome, Traffic},
};

/// What was seen in one second.
pub struct Sample {
    /// What Bifrost says; `Err` with why not.
    pub snapshot: Result<Snapshot, String>,
    /// BGP sessions: neighbour, state, prefixes received.
    pub sessions: Vec<(String, String, u64)>,
    /// What the hosts say.
    pub outcome: Outcome,
}

/// Takes samples.
pub struct Sampler<'a> {
    stage: &'a Stage,
    socket: PathBuf,
    client: Option<Client>,
}

impl<'a> Sampler<'a> {
    /// Of a stage whose Bifrost runs.
    pub fn new(stage: &'a Stage) -> Sampler<'a> {
        Sampler { stage, socket: stage.router.socket().to_owned(), client: None }
    }

    /// Looks.
    pub fn sample(&mut self, traffic: &mut Traffic) -> Sample {
        let sessions = self.stage.frr.sessions().unwrap_or_default();
        let sessions =
            sessions.into_iter().map(|(_, neighbour, state, prefixes)| (neighbour, state, prefixes));
        Sample { snapshot: self.snapshot(), sessions: sessions.collect(), outcome: traffic.so_far() }
    }

    fn snapshot(&mut self) -> Result<Snapshot, String> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(&self.socket).map_err(|e| e.to_string())?,
        };
        let snapshot = client.ask(&Request::Snapshot).map_err(|e| e.to_string())?;
        self.client = Some(client);
        Ok(snapshot)
    }
}
