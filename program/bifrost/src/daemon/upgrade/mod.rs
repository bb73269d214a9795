//! `bifrost upgrade`: the program that is installed takes over from the one that runs.
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | the process that runs, and makes way |
//! | `successor.rs` | the process that takes over |
//! | `channel.rs` | what they say to each other |
//!
//! All that takes time is done beside the process that runs: the new one reads its configuration
//! and all of Linux's tables, has its programs checked by the kernel, and fills its own tables.
//! Only then the old one makes way. What the driver carries does not stop: the old program goes on
//! with its tables until the new one replaces it in one step, port by port ([`plane::Handed`]).
//! What is for workers is Linux's meanwhile, as it is at every restart; here that takes as long as
//! closing the sockets, writing the flows down and opening them again.
//!
//! The two share nothing but links of programs and the file of flows, which says its own version.
//! So a release may change any layout, and going back to an older one is the same. It costs the
//! memory of two for as long as it takes.
//!
//! If anything goes wrong the old process stays, also when it has made way already: it then takes
//! its ports again. The new one ends where the old one is gone before that.

mod channel;
mod successor;

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use port::descriptors;
use tracing::{info, warn};

use super::control::{Control, Door};
use super::flow_log::{Log, Logging, interfaces};
use super::reload::Reloading;
use channel::{Channel, Word};
pub use successor::Predecessor;

/// How long a new process may read, check and fill before it is given up.
const READING: Duration = Duration::from_secs(600);
/// How long it may take to open the ports that it was handed.
const TAKING: Duration = Duration::from_secs(60);
/// How often the old process says meanwhile that its programs may be counted on.
const BEAT: Duration = Duration::from_millis(200);
/// What whoever asked for the upgrade is given to hear of it, before the process ends.
const LAST_WORD: Duration = Duration::from_millis(200);

/// A process that is ready to take over.
pub(crate) struct Successor {
    channel: Channel,
    child: Child,
    release: String,
    /// Whoever asked for it.
    answer: SyncSender<Result<String, String>>,
}

impl Reloading {
    /// Starts the program that is installed, and has it take over when it is ready. Says what came
    /// of it; the process ends soon after.
    pub(super) fn upgrade(&self, door: &Door) -> Result<String, String> {
        // Nobody commits meanwhile what the new process would not know.
        let _turn = self.turn();
        let stays = |why: String| format!("the process that runs stays: {why}");
        let (channel, mut child) = self.on_control(door, |_| start()).map_err(stays)?;
        let release = match await_ready(&channel) {
            Ok(release) => release,
            Err(why) => return Err(stays(end(&mut child, why))),
        };
        info!("upgrade: {release} is ready to take over");
        let (answer, answered): (_, Receiver<Result<String, String>>) = sync_channel(1);
        let job = Box::new(move |control: &mut Control| {
            control.successor = Some(Successor { channel, child, release, answer });
        });
        let stopping = || "the daemon is stopping".to_owned();
        if !door.hand_in(job) {
            return Err(stopping());
        }
        answered.recv().unwrap_or_else(|_| Err(stopping())).map_err(stays)
    }
}

/// Starts the program with the words that this process was started with.
fn start() -> Result<(Channel, Child), String> {
    let program = settings::this_program().map_err(|error| format!("its path is not known: {error}"))?;
    let failed = |error: std::io::Error| format!("{} cannot be started: {error}", program.display());
    let (ours, theirs) = descriptors::pair().map_err(failed)?;
    let words = std::env::args_os().skip(1).filter(|word| word != super::TAKE_OVER);
    let mut command = Command::new(&program);
    command.args(words).arg(super::TAKE_OVER).stdin(Stdio::from(theirs));
    // That is this process's number: the other one is watched as well.
    command.env_remove("WATCHDOG_PID");
    let child = command.spawn().map_err(failed)?;
    info!("upgrade: {} is started, process {}", program.display(), child.id());
    Ok((Channel::new(ours), child))
}

/// The release of the new process, once it is ready.
fn await_ready(channel: &Channel) -> Result<String, String> {
    match channel.hear(READING) {
        Ok(Some((Word::Ready { release }, _))) => Ok(release),
        other => Err(why_not(other.map(|word| word.map(|(word, _)| word)))),
    }
}

/// Why it does not forward.
fn why_not(heard: std::io::Result<Option<Word>>) -> String {
    match heard {
        Ok(Some(Word::Failed(why))) => why,
        Ok(Some(_)) => "the new one says what it should not".to_owned(),
        Ok(None) => "the new one is not ready in time".to_owned(),
        Err(_) => "the new one ended (its own words are in the log)".to_owned(),
    }
}

/// Ends a new process that is not to take over.
fn end(child: &mut Child, why: String) -> String {
    // Whoever has ended is not there to be ended.
    let _ = child.kill();
    match child.wait() {
        Ok(status) if status.code() == Some(2) => {
            format!("{why}: does the release that is installed know upgrades? Else restart it")
        }
        _ => why,
    }
}

impl Control {
    /// Makes way for another process: its number. `None`: this one has all as it was.
    pub(super) fn hand_over(&mut self, mut successor: Successor) -> Option<u32> {
        let begun = Instant::now();
        match self.make_way(&successor.channel) {
            Ok(()) => {
                let Successor { child, release, answer, .. } = successor;
                let done = format!(
                    "{release} has taken over, process {}: {:.0} ms after this one began to make way",
                    child.id(),
                    begun.elapsed().as_secs_f64() * 1e3
                );
                info!("upgrade: {done}");
                // Who asked may have gone.
                let _ = answer.send(Ok(done));
                std::thread::sleep(LAST_WORD);
                Some(child.id())
            }
            Err(why) => {
                let why = end(&mut successor.child, why);
                warn!("upgrade: the process that runs stays: {why}");
                self.take_back();
                let _ = successor.answer.send(Err(why));
                None
            }
        }
    }

    fn make_way(&mut self, channel: &Channel) -> Result<(), String> {
        let Control { forwarding, parts, saving, .. } = self;
        let gone = |error: std::io::Error| format!("the new one is gone: {error}");
        forwarding.plane.takes_long();
        parts.discovery.leave();
        parts.dhcp_relay.leave();
        let active = parts.redundancy.leave();
        // If it comes to nothing.
        parts.redundancy.go_on(active.clone());
        parts.sharing.stop();
        parts.api.stop();
        let (known, names) = (interfaces(&forwarding.plane), forwarding.interface_names());
        let handed = forwarding.plane.hand_over();
        saving.save(forwarding, parts.logging.log().is_some(), names);
        parts.fallback.follow_the_rest(forwarding, true);
        // Linux keeps its copy of the rules. From here on another process looks after it.
        drop(std::mem::take(&mut parts.fallback));
        parts.logging.close(forwarding, &parts.sharing, &known);
        for port in handed {
            let (word, link) = Word::of(port);
            channel.say(&word, Some(&link)).map_err(gone)?;
        }
        channel.say(&Word::Go { active }, None).map_err(gone)?;
        let deadline = Instant::now() + TAKING;
        loop {
            forwarding.plane.takes_long();
            match channel.hear(BEAT) {
                Ok(Some((Word::Done, _))) => return Ok(()),
                Ok(None) if Instant::now() < deadline => {}
                other => return Err(why_not(other.map(|word| word.map(|(word, _)| word)))),
            }
        }
    }

    /// Takes the ports again, which were given up for another process.
    fn take_back(&mut self) {
        let Control { forwarding, parts, .. } = self;
        let ports: Vec<_> = forwarding.plane.ports().iter().map(|port| port.id).collect();
        ports.into_iter().for_each(|id| forwarding.release(id));
        parts.fallback.follow(forwarding);
        let log = forwarding.router.flow_log.clone().map(Log::start).transpose();
        let log = log.inspect_err(|error| warn!("flows are not logged any more: {error}")).ok().flatten();
        parts.logging = Logging::new(log);
        parts.ports.expect(forwarding);
        parts.ports.take(forwarding, |_| {});
        parts.api.resume(&forwarding.router);
    }
}
