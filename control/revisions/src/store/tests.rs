use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use chance::Random;

use super::*;

/// More steps than anybody makes.
const NEVER: i64 = i64::MAX;

/// A disk one step of which fails, and then all behind some more, as for somebody who is killed.
struct Fragile {
    /// Steps until the one that fails.
    left: Arc<AtomicI64>,
    /// Steps that work after it.
    then: i64,
}

impl Fragile {
    fn step(&self) -> io::Result<()> {
        let left = self.left.fetch_sub(1, Relaxed);
        if left == 0 || left < -self.then { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Disk for Fragile {
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        self.step()?;
        Files.make_folder(folder)
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let done = self.step();
        // Of what fails, half is there; of what comes after a kill, nothing.
        let length = match done {
            Ok(()) => bytes.len(),
            Err(_) if self.left.load(Relaxed) == -1 => bytes.len() / 2,
            Err(_) => return done,
        };
        fs::write(path, &bytes[..length])?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        done
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        Files.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        Files.remove(path)
    }

    fn sync(&self, _: &Path) -> io::Result<()> {
        self.step()
    }
}

fn clock() -> Clock {
    Clock { boot: "this".to_owned(), since_boot: Duration::from_secs(50), time: 1_700_000_000 }
}

/// All that somebody can find: revisions with their texts, the file, what waits.
#[derive(Clone, Debug, Default, PartialEq)]
struct Found {
    revisions: Vec<(u64, String)>,
    file: String,
    waits: Option<u64>,
}

struct House {
    folder: tempfile::TempDir,
    left: Arc<AtomicI64>,
}

impl House {
    fn new() -> House {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("router.toml"), "one").unwrap();
        House { folder, left: Arc::default() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("router.toml")
    }

    fn store(&self) -> Arc<Store> {
        self.fragile(i64::MAX, NEVER)
    }

    /// A store whose disk fails after so many steps, and after some more for good.
    fn fragile(&self, steps: i64, then: i64) -> Arc<Store> {
        self.left.store(steps, Relaxed);
        let disk = Box::new(Fragile { left: self.left.clone(), then });
        Arc::new(Store { disk, ..Store::new(self.folder.path(), &self.file()) })
    }

    /// What the next process finds.
    fn found(&self) -> Found {
        let store = self.store();
        store.open(false).unwrap();
        let numbers = store.list().unwrap().into_iter().rev().map(|revision| revision.number);
        let found = Found {
            revisions: numbers.map(|number| (number, store.text(number).unwrap())).collect(),
            file: fs::read_to_string(self.file()).unwrap(),
            waits: store.wait().unwrap().map(|wait| wait.revision),
        };
        let mut rest: Vec<String> =
            store.names(self.folder.path()).unwrap().into_iter().map(|(_, name)| name).collect();
        rest.retain(|name| !["router.toml", "router.toml.saved", "revisions"].contains(&name.as_str()));
        assert!(rest.is_empty(), "{rest:?} is left over");
        found
    }
}

/// What is tried on the store and on the model.
#[derive(Clone, Debug)]
struct Order {
    texts: Vec<String>,
    known: Option<String>,
    waits: bool,
}

impl Order {
    fn carry_out(&self, store: &Arc<Store>) -> Result<()> {
        let new = self.texts.iter().map(|text| (Revision::default(), text.as_str())).collect();
        let (time, clock) = (Duration::from_secs(60), clock());
        let mut staged = store.stage(new, self.known.as_deref(), self.waits.then_some((time, &clock)))?;
        staged.commit()?;
        staged.settle()
    }

    fn expected(&self, before: &Found) -> Found {
        let mut after = before.clone();
        for text in &self.texts {
            let number = after.revisions.last().map_or(1, |(number, _)| number + 1);
            after.revisions.push((number, text.clone()));
        }
        if self.known.is_some() {
            after.file = self.texts.last().unwrap().clone();
        }
        after.waits = after.revisions.last().map(|(number, _)| *number).filter(|_| self.waits);
        after
    }
}

#[test]
fn a_history_is_what_a_naive_model_says() {
    let mut random = Random(7);
    for _ in 0..30 {
        let house = House::new();
        let mut model = house.found();
        for step in 0..25 {
            let text = || format!("text {step}");
            match random.below(6) {
                0 => {
                    fs::write(house.file(), text()).unwrap();
                    model.file = text();
                }
                1 => {
                    let store = house.store();
                    store.confirm().ok();
                    model.waits = None;
                }
                2 => {
                    let keep = 1 + random.below(5);
                    house.store().prune(keep).unwrap();
                    let over = model.revisions.len().saturating_sub(keep);
                    model.revisions.drain(..over);
                }
                _ => {
                    let texts = (0..1 + random.below(2)).map(|n| format!("{} {n}", text())).collect();
                    let known = random.one_in(2).then(|| model.file.clone());
                    let order = Order { texts, known, waits: random.one_in(3) };
                    order.carry_out(&house.store()).unwrap();
                    model = order.expected(&model);
                }
            }
            assert_eq!(house.found(), model);
        }
    }
}

/// Every kind of commit, ended at each of its steps, and at steps of taking it back: afterwards it
/// was never begun, or is done; and the next one is as if nothing had been.
#[test]
fn an_end_at_any_step_leaves_all_as_it_was_or_as_it_is_to_be() {
    let base = Order { texts: vec!["one".to_owned()], known: None, waits: false };
    let mut tried = 0;
    for (order, then) in (0..12).flat_map(|order| [0, 1, 2, 3, 4, NEVER].map(|then| (order, then))) {
        let texts = ["found", "new"][order % 2..].iter().map(|text| (*text).to_owned()).collect();
        let known = (order / 2 % 2 == 0).then(|| if order < 8 { "one" } else { "other" }.to_owned());
        let order = Order { texts, known, waits: order / 4 % 2 == 0 };
        for steps in 0.. {
            let house = House::new();
            base.carry_out(&house.store()).unwrap();
            let before = house.found();
            let done = order.carry_out(&house.fragile(steps, then));
            let ended = house.left.load(Relaxed) < 0;
            let (after, found) = (order.expected(&before), house.found());
            // What ran before may be kept alone by who is killed: it did run.
            let kept =
                Order { texts: order.texts[..1].to_vec(), known: None, waits: false }.expected(&before);
            let partly = then != NEVER && order.known.is_none() && order.texts.len() == 2 && found == kept;
            let what = format!("{order:?}, {steps} steps, then {then}: {found:?}");
            assert!(found == before || found == after || partly, "{what}");
            assert!(done.is_err() || found == after, "{what}");
            let next =
                Order { texts: vec!["next".to_owned()], known: Some(found.file.clone()), waits: false };
            next.carry_out(&house.store()).unwrap();
            assert_eq!(house.found(), next.expected(&found), "{what}");
            if !ended {
                done.unwrap();
                break;
            }
            tried += 1;
        }
    }
    assert!(tried > 500, "{tried}");
}

#[test]
fn what_is_dropped_was_never_there() {
    let house = House::new();
    let before = house.found();
    let store = house.store();
    let new = vec![(Revision::default(), "two")];
    let staged = store.stage(new, Some("one"), Some((Duration::from_secs(60), &clock()))).unwrap();
    assert!(store.list().unwrap().is_empty() && staged.number == 1, "nobody sees it");
    drop(staged);
    drop(store);
    assert_eq!(house.found(), before);
}

#[test]
fn what_somebody_wrote_meanwhile_is_kept_beside() {
    let house = House::new();
    let store = house.store();
    fs::set_permissions(house.file(), fs::Permissions::from_mode(0o640)).unwrap();
    let mut staged = store.stage(vec![(Revision::default(), "two")], Some("not one"), None).unwrap();
    staged.commit().unwrap();
    let saved = staged.saved.clone().unwrap();
    assert_eq!(
        (fs::read_to_string(saved).unwrap(), fs::read_to_string(house.file()).unwrap()),
        ("one".into(), "two".into())
    );
    assert_eq!(fs::metadata(house.file()).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_link_stays_one_and_one_process_has_the_store() {
    let house = House::new();
    let link = house.folder.path().join("link.toml");
    std::os::unix::fs::symlink(house.file(), &link).unwrap();
    let store = Arc::new(Store::new(house.folder.path(), &link));
    store.stage(vec![(Revision::default(), "two")], Some("one"), None).unwrap().commit().unwrap();
    assert!(link.is_symlink() && fs::read_to_string(house.file()).unwrap() == "two");
    let other = Store::new(house.folder.path(), &link);
    assert!(matches!(other.open(false), Err(StoreError::Busy(_))));
    drop(store);
    assert!(other.open(false).unwrap());
    let said = other.text(7).unwrap_err().to_string();
    assert_eq!(said, "there is no revision 7; those there are: 1 to 1");
}
