//! `[api]`: where programs are listened to.
//!
//! The server is a thread of its own ([`api`](crate::api)). Here its addresses are bound, for that
//! needs a capability, and what it serves with is made. An address that the machine does not have
//! yet is tried again: it may be one that the router makes itself.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{Api as Plan, Router};
use graph::Registry;
use tracing::{error, info, warn};

use super::forwarding::Forwarding;
use super::section::{Change, Section};
use crate::api::tls::{self, Shown};
use crate::api::{self, Server};
use crate::control::{Answer, Rates};
use crate::subject::{ApiAddress, ApiStatus, ApiToken};

/// Where what is made here is kept, below what the daemon keeps.
const FOLDER: &str = "api";
/// When an address that could not be had is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Api {
    ground: Option<Ground>,
    server: Option<Server>,
    running: Option<Running>,
    prepared: Option<Option<Running>>,
    trouble: Option<String>,
}

/// What it stands on.
struct Ground {
    state: PathBuf,
    answer: Arc<dyn Answer>,
    rates: Arc<Rates>,
}

struct Running {
    plan: Plan,
    shown: Shown,
    /// The addresses that are bound, and why others are not.
    bound: BTreeMap<SocketAddr, Result<TcpListener, String>>,
    /// When those were tried again.
    tried: Option<Instant>,
}

impl Api {
    /// Serves as the configuration says. What cannot be served keeps nobody from forwarding.
    pub(super) fn begin(
        &mut self,
        router: &Router,
        state: PathBuf,
        answer: Arc<dyn Answer>,
        rates: Arc<Rates>,
    ) {
        self.ground = Some(Ground { state, answer, rates });
        self.resume(router);
    }

    /// Serves again, after [`Api::stop`].
    pub(super) fn resume(&mut self, router: &Router) {
        let Some(plan) = &router.api else { return };
        match self.ready(plan, false) {
            Ok(running) => self.serve(Some(running)),
            Err(wrong) => self.fail(wrong),
        }
    }

    /// Tries again what could not be had.
    pub(super) fn follow(&mut self) {
        let Some(running) = &mut self.running else { return };
        if running.tried.is_some_and(|tried| tried.elapsed() < AGAIN)
            || running.bound.values().all(Result::is_ok)
        {
            return;
        }
        running.tried = Some(Instant::now());
        let mut more = false;
        for (address, bound) in running.bound.iter_mut().filter(|(_, bound)| bound.is_err()) {
            if let Ok(listener) = api::bind(*address) {
                info!("api: it listens on {address}");
                *bound = Ok(listener);
                more = true;
            }
        }
        if more {
            self.tell();
        }
    }

    /// Listens to nobody any more.
    pub(super) fn stop(&mut self) {
        self.serve(None);
    }

    pub(crate) fn status(&self, router: &Router) -> Option<ApiStatus> {
        let plan = router.api.as_ref()?;
        let counts = self.server.as_ref().map(Server::counts).unwrap_or_default();
        let running = self.running.as_ref();
        let listen = plan.listen.iter().map(|address| {
            let bound = running.and_then(|running| running.bound.get(address));
            let trouble = match bound {
                Some(Ok(_)) => None,
                Some(Err(why)) => Some(why.clone()),
                None => Some("it is not served".to_owned()),
            };
            ApiAddress { address: address.to_string(), listens: trouble.is_none(), trouble }
        });
        let tokens = plan.tokens.iter().map(|token| {
            let (requests, last) = counts.used.get(&token.name).copied().unwrap_or_default();
            ApiToken {
                name: token.name.clone(),
                role: token.role.word().to_owned(),
                requests,
                last: (requests > 0).then_some(last),
            }
        });
        let folder = self.ground.as_ref().map(|ground| ground.state.join(FOLDER));
        let made = folder.filter(|_| plan.identity.is_none());
        Some(ApiStatus {
            listen: listen.collect(),
            fingerprint: running.map(|running| running.shown.fingerprint.clone()),
            certificate: made.map(|folder| folder.join(tls::CERTIFICATE).display().to_string()),
            trouble: self.trouble.clone(),
            tokens: tokens.collect(),
            connections: counts.connections,
            requests: counts.requests,
            refused_tokens: counts.refused_tokens,
            refused_connections: counts.refused_connections,
        })
    }

    /// All that is needed to serve this. With `whole` an address that another program has is an
    /// error.
    fn ready(&self, plan: &Plan, whole: bool) -> Result<Running, String> {
        let ground = self.ground.as_ref().ok_or("the daemon has not begun yet")?;
        let shown = match &plan.identity {
            Some(identity) => tls::named(identity),
            None => tls::kept(&ground.state.join(FOLDER), &plan.listen),
        };
        let shown = shown.map_err(|wrong| format!("[api]: {wrong}"))?;
        let mut bound = BTreeMap::new();
        for address in &plan.listen {
            let own = self.running.as_ref().and_then(|running| running.bound.get(address));
            let listener = match own {
                // The same socket: no client is refused meanwhile.
                Some(Ok(listener)) => listener.try_clone(),
                _ => api::bind(*address),
            };
            let listener = match listener {
                // One of its own gives way: all addresses of a port, say, to one of them.
                Err(error) if error.kind() == ErrorKind::AddrInUse && self.gives_way(*address, plan) => {
                    Err(error.to_string())
                }
                Err(error) if whole && error.kind() != ErrorKind::AddrNotAvailable => {
                    return Err(format!("[api]: it cannot listen on {address}: {error}"));
                }
                Err(error) => {
                    warn!("api: {address}: {error}; it is tried again");
                    Err(error.to_string())
                }
                Ok(listener) => Ok(listener),
            };
            bound.insert(*address, listener);
        }
        Ok(Running { plan: plan.clone(), shown, bound, tried: None })
    }

    /// Whether an address that is listened on now, and will not be, may be in the way of this one.
    fn gives_way(&self, address: SocketAddr, plan: &Plan) -> bool {
        let mut own = self.running.iter().flat_map(|running| running.bound.keys());
        own.any(|other| other.port() == address.port() && !plan.listen.contains(other))
    }

    fn serve(&mut self, running: Option<Running>) {
        if self.server.is_none()
            && running.is_some()
            && let Some(ground) = &self.ground
        {
            match Server::start(ground.answer.clone(), ground.rates.clone()) {
                Ok(server) => self.server = Some(server),
                Err(error) => return self.fail(format!("[api]: {error}")),
            }
        }
        if let Some(running) = &running {
            let places: Vec<String> = running.plan.listen.iter().map(ToString::to_string).collect();
            info!("api: https on {}, fingerprint {}", places.join(", "), running.shown.fingerprint);
        }
        self.trouble = None;
        self.running = running;
        self.tell();
    }

    fn tell(&self) {
        let Some(server) = &self.server else { return };
        server.follow(self.running.as_ref().map(|running| api::Plan {
            listeners:
                (running.bound.values().flatten()).filter_map(|listener| listener.try_clone().ok()).collect(),
            tls: running.shown.config.clone(),
            tokens: running.plan.tokens.clone(),
        }));
    }

    fn fail(&mut self, wrong: String) {
        error!("{wrong}; nobody is served");
        self.trouble = Some(wrong);
    }
}

impl Section for Api {
    fn check(router: &Router, _: &Registry) -> Result<Vec<String>, String> {
        let Some(plan) = &router.api else { return Ok(Vec::new()) };
        if let Some(identity) = &plan.identity {
            tls::named(identity).map_err(|wrong| format!("[api]: {wrong}"))?;
        }
        let idle = plan.tokens.is_empty();
        let warning =
            "[api]: its file has no token, so nobody may use it: `bifrost token NAME ROLE` makes one";
        Ok(idle.then(|| warning.to_owned()).into_iter().collect())
    }

    fn effects(&self, change: &Change) -> Vec<String> {
        let (before, after) = (&change.before.api, &change.after.api);
        let places = |plan: &Plan| plan.listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let mut effects = Vec::new();
        match (before, after) {
            (Some(before), Some(after)) => {
                if before.listen != after.listen {
                    effects.push(format!("it listens on {}", places(after)));
                }
                if before.identity != after.identity {
                    effects.push("clients are shown another certificate".to_owned());
                }
                if before.tokens != after.tokens {
                    effects.push(format!("{} tokens are known", after.tokens.len()));
                }
            }
            (None, Some(after)) => effects.push(format!("programs are served on {}", places(after))),
            (Some(_), None) => effects.push("programs are not served any more".to_owned()),
            (None, None) => {}
        }
        effects.iter().map(|effect| format!("[api]: {effect}")).collect()
    }

    fn prepare(&mut self, change: &mut Change, _: &mut Forwarding) -> Result<(), String> {
        // What failed is tried again whatever changes.
        if change.before.api == change.after.api && self.trouble.is_none() {
            return Ok(());
        }
        let running = change.after.api.as_ref().map(|plan| self.ready(plan, true)).transpose()?;
        self.prepared = Some(running);
        Ok(())
    }

    fn apply(&mut self, _: &Change, _: &mut Forwarding) {
        if let Some(running) = self.prepared.take() {
            self.serve(running);
        }
    }

    fn abort(&mut self, _: &mut Forwarding) {
        self.prepared = None;
    }
}
