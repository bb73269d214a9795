//! `bifrost commit` and what belongs to it: a configuration goes into force, into the file and into
//! the history as one, and what nobody confirms in time goes back.
//!
//! All is written beside, here; then the control thread has the sections prepare, commits what was
//! written by one rename, and has the sections apply ([`section`](super::section)). So the rename
//! is the last that can be refused, and a kill at any moment leaves the one or the other.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use config::{Router, secrets, source};
use revisions::{Clock, How, Revision, Staged, Store, StoreError};
use tracing::{info, warn};

use super::control::{Control, Door};
use super::flow_file::since_boot;
use super::reload::{NEVER, Reloading, unchanged};
use super::verdict::examine;
use crate::control::{CommitRequest, Committed, Compared, History, Refusal, Text, Waits, Who, Why};

/// When a way back that could not be written down is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// What is put in force.
pub(super) struct Entry {
    pub router: Router,
    pub note: Revision,
    /// How long it waits to be confirmed.
    pub wait: Option<Duration>,
    /// The file has it: nobody else's newer text is overwritten.
    pub in_place: bool,
    /// It goes into force even if it cannot be written down.
    pub lenient: bool,
}

/// What came of it.
pub(super) struct Done {
    /// The number in the history; none where nothing was written.
    pub number: Option<u64>,
    /// How the router is now, and what waits for the next start.
    pub status: String,
}

impl Reloading {
    /// Puts a configuration in force, into the file and into the history, or says what that would
    /// do. On an error all is as it was.
    pub(super) fn commit(&self, door: &Door, order: &CommitRequest, who: &Who) -> Result<Committed, Refusal> {
        let stays = |why: Why| move |wrong: String| why.because(unchanged(wrong));
        let _turn = self.turn();
        let (file, store) = self.kept()?;
        store.open(false).map_err(refused)?;
        let running = self.running(door)?;
        let (name, text) = self.text(&order.what, &running).map_err(|error| Why::Absent.because(error))?;
        let back = matches!(order.what, Text::Revision(_) | Text::Before);
        let wait = store.wait().map_err(refused)?;
        if let Some(wait) = wait.filter(|_| *running != text && (!back || order.confirmed.is_some())) {
            return Err(stays(Why::Waits)(settle_first(wait.revision)));
        }
        if !order.check {
            self.lock.permits(who).map_err(stays(Why::Locked))?;
        }
        if !order.force {
            is_based(store, order, &running).map_err(stays(Why::Changed))?;
            overwrites_nothing(file, store, order, &running, &text)?;
        }
        let router = self.judged(&name, &text)?;
        let mut committed = Committed { running: digest(&running), ..Committed::default() };
        let told = self.on_control(door, {
            let router = router.clone();
            move |control| control.effects(router)
        });
        committed.effects = told.map_err(|wrong| Why::Refused.because(wrong))?;
        let kept = self.keeps(door, &router, order.force);
        let (breaks, notes) = kept.map_err(|wrong| Why::Refused.because(wrong))?;
        if order.check {
            committed.effects.extend(self.forecast(door, &router)?);
            committed.effects.extend(notes);
            return Ok(committed);
        }
        committed.effects.extend(notes);
        let note = Revision {
            how: if back { How::Rollback } else { How::Commit },
            of: match order.what {
                Text::Revision(number) => Some(number),
                _ => None,
            },
            comment: order.comment.clone(),
            from: order.from.clone(),
            breaks,
            ..note(who)
        };
        let wait = order.confirmed.filter(|_| *running != text).map(Duration::from_secs);
        let in_place = order.what == Text::Disk;
        let done = self.put(door, &running, Entry { router, note, wait, in_place, lenient: false });
        let done = done.map_err(|wrong| Why::Refused.because(wrong))?;
        let status = done.status;
        committed.done = match done.number {
            None => format!("no text changes: {status}"),
            Some(number) => format!("revision {number} is in force: {status}"),
        };
        if let (Some(number), Some(wait)) = (done.number, wait) {
            let time = notation::lasting(wait.as_secs(), " ");
            committed.done += &format!(
                "\nunless `bifrost confirm` comes within {time}, revision {} comes back",
                number - 1
            );
        }
        (committed.running, committed.revision) = (digest(&text), done.number);
        info!("{}{}", committed.done.replace('\n', "; "), by(who));
        Ok(committed)
    }

    /// Puts it in force; the turn is held. What another text is becomes a revision, and the file
    /// gets it unless it has it.
    pub(super) fn put(&self, door: &Door, running: &str, entry: Entry) -> Result<Done, String> {
        let (file, store) = self.kept()?;
        let Entry { router, note, wait, in_place, lenient } = entry;
        let (text, keep) = (router.raw.clone(), router.control.revisions);
        let staged = match self.stage(running, &text, note, wait, in_place) {
            Err(error) if lenient => {
                warn!("what is put in force now is not written down: {error}");
                None
            }
            staged => staged.map_err(refused)?,
        };
        let point = move |staged: &mut Option<Staged>| match staged.as_mut().map_or(Ok(()), Staged::commit) {
            Err(error) if lenient => {
                warn!("what is put in force now is not written down: {error}");
                *staged = None;
                Ok(())
            }
            done => done.map_err(|error| error.to_string()),
        };
        let (staged, status) = self.on_control(door, move |control| control.reload(router, staged, point))?;
        let Some(staged) = staged else { return Ok(Done { number: None, status }) };
        if let Err(error) = staged.settle().and_then(|()| store.prune(keep)) {
            warn!("{error}");
        }
        if let Some(saved) = &staged.saved {
            warn!("what {} had is kept as {}", file.display(), saved.display());
        }
        let due = wait.and_then(|wait| Some(since_boot().ok()?.saturating_add(wait.as_nanos() as u64)));
        self.due.store(due.unwrap_or(NEVER), Relaxed);
        Ok(Done { number: Some(staged.number), status })
    }

    /// Writes down beside what is there; nothing where no text changes.
    fn stage(
        &self,
        running: &str,
        text: &str,
        note: Revision,
        wait: Option<Duration>,
        in_place: bool,
    ) -> Result<Option<Staged>, StoreError> {
        let Some((file, store)) = self.file.as_ref().zip(self.store.as_ref()) else { return Ok(None) };
        let replaces = !in_place && !has(file, text);
        if running == text && !replaces {
            return Ok(None);
        }
        let newest = store.newest()?;
        let mut new = Vec::new();
        // What ran until now was never committed: else nobody could go back to it.
        if running != text && (newest == 0 || store.text(newest)? != running) {
            new.push((Revision { how: How::Start, time: self.started, ..note_of_nobody() }, running));
        }
        new.push((note, text));
        let clock = Clock::now().ok();
        let wait = wait.zip(clock.as_ref());
        store.stage(new, replaces.then_some(running), wait).map(Some)
    }

    /// Keeps the revision that waits for that.
    pub(super) fn confirm(&self, who: &Who) -> Result<String, String> {
        let _turn = self.turn();
        let (_, store) = self.kept()?;
        store.open(false).map_err(|error| error.to_string())?;
        let wait = store.wait().map_err(|error| error.to_string())?;
        let wait = wait.ok_or("nothing waits to be confirmed")?;
        store.confirm().map_err(|error| error.to_string())?;
        self.due.store(NEVER, Relaxed);
        let done = format!("revision {} stays", wait.revision);
        info!("{done}{}", by(who));
        Ok(done)
    }

    /// Whether a revision was not confirmed in time.
    pub(super) fn is_due(&self) -> bool {
        let due = self.due.load(Relaxed);
        due != NEVER && since_boot().is_ok_and(|now| now >= due)
    }

    /// Goes back, if a revision was not confirmed in time; says what came of it.
    pub(super) fn go_back(&self, door: &Door) -> Result<String, String> {
        let _turn = self.turn();
        let (_, store) = self.kept()?;
        // Whatever it comes to: a file that cannot be written now may be later.
        let again = since_boot().map_or(NEVER, |now| now + AGAIN.as_nanos() as u64);
        self.due.store(again, Relaxed);
        store.open(false).map_err(refused)?;
        let Some(wait) = store.wait().map_err(refused)? else {
            self.due.store(NEVER, Relaxed);
            return Ok("what waited was confirmed".to_owned());
        };
        let before = wait.revision - 1;
        let text = store.text(before).map_err(refused)?;
        let router = self.judged(&format!("revision {before}"), &text).map_err(|wrong| wrong.message)?;
        let note = Revision { how: How::Unconfirmed, of: Some(before), ..note_of_nobody() };
        let running = self.running(door)?;
        let entry = Entry { router, note, wait: None, in_place: false, lenient: true };
        let done = self.put(door, &running, entry)?;
        match done.number {
            Some(number) => Ok(went_back(wait.revision, number)),
            None => Err(format!("revision {before} is in force again, but could not be written down")),
        }
    }

    /// The configurations that were in force.
    pub(super) fn history(&self, door: &Door) -> Result<History, String> {
        let (file, store) = self.kept()?;
        let running = self.running(door)?;
        let history = || -> Result<History, StoreError> {
            let newest = store.newest()?;
            let waits = store.wait()?.zip(Clock::now().ok());
            Ok(History {
                file: file.display().to_string(),
                running: (newest > 0 && store.text(newest)? == *running).then_some(newest),
                disk_differs: !has(file, &running),
                waits: waits.map(|(wait, clock)| Waits {
                    revision: wait.revision,
                    seconds: wait.left(&clock).as_secs(),
                }),
                revisions: store.list()?,
            })
        };
        history().map_err(|error| error.to_string())
    }

    /// Two configurations, their secrets covered.
    pub(super) fn compare(&self, door: &Door, texts: &[Text; 2]) -> Result<Compared, String> {
        let running = self.running(door)?;
        let [(before, a), (after, b)] = [self.text(&texts[0], &running)?, self.text(&texts[1], &running)?];
        Ok(Compared { names: [before, after], texts: secrets::covered_both(&a, &b) })
    }

    /// What a configuration is called, and its text.
    fn text(&self, which: &Text, running: &str) -> Result<(String, String), String> {
        let (file, store) = self.kept()?;
        let revision = |number| Ok((format!("revision {number}"), store.text(number)?));
        let found = match which {
            Text::Running => Ok(("running".to_owned(), running.to_owned())),
            Text::File { name, text } => Ok((name.clone(), text.clone())),
            Text::Revision(number) => revision(*number),
            Text::Before => store.newest().and_then(|newest| {
                let is_running = newest > 0 && store.text(newest)? == running;
                revision(newest - u64::from(is_running))
            }),
            Text::Disk => {
                let name = file.display().to_string();
                let text =
                    source::read_text(file).map_err(|error| format!("{name}: cannot read it: {error}"))?;
                return Ok((name, text));
            }
        };
        found.map_err(|error: StoreError| error.to_string())
    }

    /// The configuration that a text is. Files that it names lie beside the daemon's.
    fn judged(&self, name: &str, text: &str) -> Result<Router, Refusal> {
        let folder = self.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        let router = Router::from_text(name, text, folder).map_err(|wrong| Refusal {
            mistakes: wrong.0.clone(),
            ..Why::Wrong.because(unchanged(wrong.to_string()))
        })?;
        let warnings =
            examine(&router, &self.registry).map_err(|wrong| Why::Wrong.because(unchanged(wrong)))?;
        warnings.lines().for_each(|warning| warn!("{warning}"));
        Ok(router)
    }

    /// The text in force.
    pub(super) fn running(&self, door: &Door) -> Result<Arc<str>, String> {
        self.on_control(door, |control: &mut Control| Ok(control.forwarding.router.raw.clone()))
    }

    /// The file, and its history.
    fn kept(&self) -> Result<(&Path, &Arc<Store>), String> {
        let kept = self.file.as_deref().zip(self.store.as_ref());
        kept.ok_or_else(|| "there is no file: the ports were named on the command line".to_owned())
    }
}

/// The configuration to start with: the file's, or that of the revision before where nobody has
/// confirmed the last one in time. Besides what an operator is to know.
pub fn begin(file: &Path, store: &Arc<Store>) -> (Result<Router, String>, Vec<String>) {
    let mut notes = Vec::new();
    let now = Clock::now().ok();
    let wait = store.open(false).and_then(|_| store.wait());
    let wait = wait.inspect_err(|error| notes.push(error.to_string())).ok().flatten();
    let late = wait.zip(now).filter(|(wait, now)| wait.left(now).is_zero());
    if let Some((wait, _)) = late {
        match begin_before(file, store, wait.revision) {
            Ok((router, note)) => {
                notes.push(note);
                return (Ok(router), notes);
            }
            Err(error) => notes.push(format!(
                "nobody confirmed revision {} in time, but there is no way back: {error}",
                wait.revision
            )),
        }
    }
    (Router::open(file).map_err(|error| error.to_string()), notes)
}

fn begin_before(file: &Path, store: &Arc<Store>, late: u64) -> Result<(Router, String), String> {
    let before = late - 1;
    let read = |number| store.text(number).map_err(|error| error.to_string());
    let (text, known) = (read(before)?, read(late)?);
    let folder = file.parent().unwrap_or(Path::new(""));
    let router = Router::from_text(&format!("revision {before}"), &text, folder);
    let router = router.map_err(|wrong| wrong.to_string())?;
    let note = Revision { how: How::Unconfirmed, of: Some(before), ..note_of_nobody() };
    let replaces = !has(file, &text);
    let staged = store.stage(vec![(note, &text)], replaces.then_some(&known), None);
    let written = staged.and_then(|mut staged| {
        staged.commit()?;
        staged.settle()?;
        Ok(staged.number)
    });
    Ok((
        router,
        match written {
            Ok(number) => went_back(late, number),
            // The daemon tries again.
            Err(error) => {
                format!(
                    "nobody confirmed revision {late} in time: revision {before} runs, not yet in the file: {error}"
                )
            }
        },
    ))
}

fn went_back(late: u64, number: u64) -> String {
    let before = late - 1;
    format!(
        "nobody confirmed revision {late} in time: revision {before} is in force again, as revision {number}"
    )
}

/// That the file has no text that nobody here knows of.
fn overwrites_nothing(
    file: &Path,
    store: &Store,
    order: &CommitRequest,
    running: &str,
    text: &str,
) -> Result<(), Refusal> {
    let stays = |why: Why, wrong: String| why.because(unchanged(wrong));
    let disk = source::read_text(file).ok();
    if let (Some(from), Some(disk)) = (&order.made_from, &disk)
        && disk != from
        && *disk != text
    {
        return Err(stays(
            Why::Changed,
            format!(
                "{} has another text by now than what this was made from: {}look at both, then --force \
             overwrites it",
                file.display(),
                came(store)
            ),
        ));
    }
    if disk.is_some_and(|disk| disk != *running && disk != text && order.made_from.as_ref() != Some(&disk)) {
        return Err(stays(
            Why::ByHand,
            format!(
                "{} was changed by hand and is not in force (`bifrost compare running disk`): commit it \
             first, or --force overwrites it",
                file.display()
            ),
        ));
    }
    Ok(())
}

/// Refuses what was made for something else than what runs.
fn is_based(store: &Store, order: &CommitRequest, running: &str) -> Result<(), String> {
    let look = "look with `bifrost history` and `bifrost compare`, or --force puts it in force all the same";
    if let Some(base) = order.base
        && store.text(base).map_err(|error| error.to_string())? != *running
    {
        return Err(format!("revision {base} is not what runs: {}{look}", came(store)));
    }
    if order.running.as_ref().is_some_and(|told| *told != digest(running)) {
        return Err(format!("something else was put in force meanwhile: {}{look}", came(store)));
    }
    Ok(())
}

/// What came last, and from whom.
fn came(store: &Store) -> String {
    let newest = store.list().ok().and_then(|list| list.into_iter().next());
    newest.map_or(String::new(), |newest| {
        let user = newest.login.or(newest.user).map_or(String::new(), |user| format!(" by {user}"));
        format!("revision {} came{user}; ", newest.number)
    })
}

pub(super) fn settle_first(revision: u64) -> String {
    format!(
        "revision {revision} waits: `bifrost confirm` keeps it, `bifrost rollback` takes it back; then come again"
    )
}

/// Whether the file has this text.
fn has(file: &Path, text: &str) -> bool {
    std::fs::read(file).is_ok_and(|disk| disk == text.as_bytes())
}

/// Names a text as long as the daemon lives.
pub(crate) fn digest(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

pub(super) fn note(who: &Who) -> Revision {
    Revision { user: who.user.clone(), login: who.login.clone(), ..note_of_nobody() }
}

pub(super) fn note_of_nobody() -> Revision {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    Revision { time, release: crate::RELEASE.to_owned(), ..Revision::default() }
}

fn by(who: &Who) -> String {
    let user = who.user.as_ref().map_or(String::new(), |user| format!(" (by {user}"));
    let login = who.login.as_ref().map_or(String::new(), |login| format!(", who is {login}"));
    if user.is_empty() { user } else { format!("{user}{login})") }
}

fn refused(error: StoreError) -> String {
    unchanged(error.to_string())
}
