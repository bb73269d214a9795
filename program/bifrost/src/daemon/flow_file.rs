//! The file in which flows outlive the daemon.
//!
//! It is made of blocks: the first has all flows there were when it was written, each later one
//! those that have begun since the one before. So a kill forgets a tenth of a second, and the
//! writing costs what new flows cost, but for the first block, which takes the place of the whole
//! file now and then. What a block says of a flow holds until a later one says otherwise; one that
//! is cut short, as a kill may leave it, is as good as none, and those before it are whole.
//!
//! It lies beside the control socket, for it is for the next minutes, not for the next boot.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::{Asker, Hit, Snapshot, Table, Worker};
use flowlog::private;
use nix::sys::statvfs::statvfs;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// What the file begins with: bytes that name it, and the version of what follows.
const MAGIC: &[u8; 8] = b"BFFLOWS4";
/// How often all flows are written down, at most.
const EVERY: Duration = Duration::from_secs(10);
/// Bytes that are added to the file at most before it is written anew.
const MOST: usize = 16 << 20;
/// Entries of the flow table looked at before others may free theirs.
const STEP: u32 = 4096;

/// What a block's flows mean.
#[derive(Serialize, Deserialize)]
pub(crate) struct Head {
    /// When it was written, ns since the machine was started: the time of day may be set between
    /// this and the next start.
    pub(super) written: u64,
    /// Which start of the machine that was.
    pub(super) boot: String,
    /// The same on the flow table's clock.
    pub(super) steady: u64,
    /// Names of the ports, by number.
    pub(super) ports: Vec<String>,
    /// Whether the flow log is told of these flows as they are here: the router stops.
    pub(super) told: bool,
    pub(crate) flows: u64,
}

/// Who writes a table's flows down.
pub(super) struct FlowFile {
    path: PathBuf,
    worker: Worker,
    /// Names of the ports, by number.
    names: Vec<String>,
    file: Option<File>,
    added: usize,
    /// When all are to be written again.
    next: Instant,
}

impl FlowFile {
    /// Of a table without a file yet.
    pub(super) fn new(table: &Arc<Table>, path: PathBuf, names: Vec<String>) -> io::Result<FlowFile> {
        let worker = table.worker().map_err(|error| io::Error::other(error.to_string()))?;
        worker.offline();
        Ok(FlowFile { path, worker, names, file: None, added: 0, next: Instant::now() })
    }

    /// Whether it is of this table, with these ports.
    pub(super) fn is_of(&self, table: &Arc<Table>, names: &[String]) -> bool {
        Arc::ptr_eq(self.worker.table(), table) && self.names == names
    }

    /// Writes down what is new, or all if that is due. After an error there is another try when
    /// that is due again.
    pub(super) fn go_on(&mut self) -> io::Result<()> {
        if Instant::now() >= self.next {
            return self.write(false).map(drop);
        }
        let (bytes, flows) = self.begun()?;
        let Some(file) = self.file.as_mut().filter(|_| flows > 0 && self.added < MOST) else { return Ok(()) };
        self.added += bytes.len();
        let whole = file.stream_position()?;
        let added = append(file, &bytes);
        if added.is_err() {
            // Whatever followed could not be read, and what is not whole takes room that all of
            // them may need.
            let _ = file.set_len(whole);
            self.file = None;
        }
        added
    }

    /// Writes all flows down, in the place of what was there; how many there are. `told`:
    /// [`Head::told`].
    pub(super) fn write(&mut self, told: bool) -> io::Result<u64> {
        let begun = Instant::now();
        self.file = None;
        self.next = begun + EVERY;
        // From here on it is remembered what begins; what has begun is in the table.
        self.worker.begun(Asker::File, &mut |_| {});
        let (bytes, flows) = self.all(told)?;
        let beside = self.path.with_extension("flows.new");
        let mut made = make(&beside, &bytes);
        if made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::StorageFull)
            && self.room_without()? > bytes.len() as u64
        {
            // What is there is all that is in the way, and would only grow older.
            std::fs::remove_file(&self.path)?;
            made = make(&beside, &bytes);
        }
        let file = made?;
        std::fs::rename(&beside, &self.path)?;
        (self.file, self.added) = (Some(file), 0);
        // A table of millions takes its time: at most a twentieth of one core.
        self.next = Instant::now() + EVERY.max(20 * begun.elapsed());
        Ok(flows)
    }

    /// Bytes that there would be room for without the file.
    fn room_without(&self) -> io::Result<u64> {
        let disk = statvfs(self.path.parent().unwrap_or(Path::new(".")))?;
        let block = disk.fragment_size();
        let file = std::fs::metadata(&self.path).map_or(0, |file| file.blocks() * 512);
        // One block is for what the bytes come with.
        Ok((disk.blocks_available() * block + file).saturating_sub(block))
    }

    fn all(&self, told: bool) -> io::Result<(Vec<u8>, u64)> {
        let mut block = Block::new(told);
        let mut next = Some(0);
        while let Some(from) = next {
            self.worker.online();
            next = self.worker.flows(from, STEP, block.steady, &mut |hit, _| block.add(&self.worker, hit));
            self.worker.offline();
        }
        block.finish(&self.names)
    }

    fn begun(&self) -> io::Result<(Vec<u8>, u64)> {
        let mut block = Block::new(false);
        self.worker.online();
        self.worker.begun(Asker::File, &mut |hit| block.add(&self.worker, hit));
        self.worker.offline();
        block.finish(&self.names)
    }
}

/// A block that is being made.
struct Block {
    steady: u64,
    told: bool,
    flows: Vec<u8>,
    count: u64,
    wrong: Option<postcard::Error>,
}

impl Block {
    fn new(told: bool) -> Block {
        Block { steady: graph::steady_now(), told, flows: Vec::new(), count: 0, wrong: None }
    }

    fn add(&mut self, worker: &Worker, hit: &Hit) {
        let snapshot = worker.snapshot(hit, self.steady);
        match postcard::to_extend(&snapshot, std::mem::take(&mut self.flows)) {
            Ok(longer) => (self.flows, self.count) = (longer, self.count + 1),
            Err(error) => self.wrong = Some(error),
        }
    }

    /// Its bytes, and how many flows are in it.
    fn finish(mut self, ports: &[String]) -> io::Result<(Vec<u8>, u64)> {
        let encode = |error: postcard::Error| io::Error::other(error.to_string());
        if let Some(error) = self.wrong {
            return Err(encode(error));
        }
        let Block { steady, told, count: flows, .. } = self;
        let (written, boot, ports) = (since_boot()?, boot()?, ports.to_vec());
        let head = Head { written, boot, steady, ports, told, flows };
        let mut bytes = postcard::to_allocvec(&head).map_err(encode)?;
        bytes.append(&mut self.flows);
        seal(&mut bytes);
        Ok((bytes, self.count))
    }
}

/// Puts the checksum behind a block's bytes.
fn seal(block: &mut Vec<u8>) {
    block.extend_from_slice(&crc32fast::hash(block).to_le_bytes());
}

/// A file of one block with these bytes, whatever they are.
pub(crate) fn whole(bytes: &[u8]) -> Vec<u8> {
    let mut block = bytes.to_vec();
    seal(&mut block);
    [&MAGIC[..], &(block.len() as u64).to_le_bytes(), &block].concat()
}

/// What an earlier program wrote; none if there was none.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match private::open(path) {
        Ok(mut file) => file.read_to_end(&mut bytes).map(|_| Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file of one block; none where it cannot be whole.
fn make(path: &Path, block: &[u8]) -> io::Result<File> {
    let mut file = private::create(path)?;
    let made = file.write_all(MAGIC).and_then(|()| append(&mut file, block));
    if made.is_err() {
        let _ = std::fs::remove_file(path);
    }
    made.map(|()| file)
}

fn append(file: &mut File, block: &[u8]) -> io::Result<()> {
    file.write_all(&(block.len() as u64).to_le_bytes())?;
    file.write_all(block)
}

/// Time since the machine was started, sleep included, in ns.
pub(super) fn since_boot() -> io::Result<u64> {
    Ok(Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME)?).as_nanos() as u64)
}

/// Names this start of the machine.
pub(super) fn boot() -> io::Result<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What the blocks of a file say of their flows, with the flows' bytes, from the first to the last
/// that is whole. An error where not even the first is.
pub(crate) fn blocks(bytes: &[u8]) -> io::Result<Vec<(Head, &[u8])>> {
    let mut rest = bytes.strip_prefix(MAGIC).ok_or_else(|| invalid("another version wrote it"))?;
    let mut blocks = vec![block(&mut rest)?];
    while let Ok(block) = block(&mut rest) {
        blocks.push(block);
    }
    Ok(blocks)
}

fn block<'a>(bytes: &mut &'a [u8]) -> io::Result<(Head, &'a [u8])> {
    let short = || invalid("it is cut short");
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| short())?;
    let (block, rest) = rest.split_at_checked(length).ok_or_else(short)?;
    let (body, sum) = block.split_last_chunk::<4>().ok_or_else(short)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return Err(invalid("its checksum is wrong"));
    }
    *bytes = rest;
    postcard::take_from_bytes(body).map_err(|_| invalid("its head is not readable"))
}

/// The next of a block's flows; what is left is behind it.
pub(crate) fn next_flow(flows: &mut &[u8]) -> io::Result<Snapshot> {
    let (snapshot, rest) = postcard::take_from_bytes(flows).map_err(|_| invalid("a flow is not readable"))?;
    *flows = rest;
    Ok(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::{Opening, Settings, Tuple};
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    use wire::Headers;

    fn table() -> Arc<Table> {
        Table::new(&Settings { memory: 4 << 20, ..Settings::default() }).unwrap()
    }

    /// Begins flows of these numbers.
    fn begin(worker: &mut Worker, numbers: std::ops::Range<u16>) {
        for number in numbers {
            let [high, low] = number.to_be_bytes();
            let ip = [
                &[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, high, low, 10, 1, 0, 1][..],
                &[0, 7, 0, 53, 0, 8, 0, 0],
            ]
            .concat();
            let headers = Headers::parse(&ip).unwrap();
            let original = Tuple::of(&headers, 0);
            let opening =
                Opening { headers: &headers, ip: &ip, original, reply: None, ports: [0, 1], mark: 0 };
            worker.insert(&opening, 1_000_000).unwrap();
        }
    }

    /// The sources' last two bytes of a block's flows.
    fn numbers((head, mut flows): (Head, &[u8])) -> Vec<u16> {
        let mut numbers: Vec<u16> = (0..head.flows)
            .map(|_| next_flow(&mut flows).unwrap().account.original.source)
            .map(|source| u16::from_be_bytes([source[14], source[15]]))
            .collect();
        assert!(flows.is_empty());
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn what_is_written_is_read_with_what_began_since() {
        let folder = tempfile::tempdir().unwrap();
        let (path, table) = (folder.path().join("flows"), table());
        let mut worker = table.worker().unwrap();
        let names = vec!["left".to_owned(), "right".to_owned()];
        begin(&mut worker, 0..500);
        let mut file = FlowFile::new(&table, path.clone(), names.clone()).unwrap();
        // The first time all, later what is new.
        for more in [500..500, 500..503, 503..503, 503..504] {
            begin(&mut worker, more);
            file.go_on().unwrap();
        }
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        let bytes = read(&path).unwrap().unwrap();
        let read = blocks(&bytes).unwrap();
        assert!(read.iter().all(|(head, _)| head.ports == names));
        let wanted: [Vec<u16>; 3] = [(0..500).collect(), (500..503).collect(), vec![503]];
        assert_eq!(read.into_iter().map(numbers).collect::<Vec<_>>(), wanted);
        // All once more, in the place of that.
        assert_eq!(file.write(false).unwrap(), 504);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(
            blocks(&bytes).unwrap().into_iter().map(numbers).collect::<Vec<_>>(),
            [(0..504).collect::<Vec<_>>()]
        );
    }

    #[test]
    fn links_on_its_names_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let [path, beside, precious] =
            ["flows", "flows.new", "precious"].map(|name| folder.path().join(name));
        std::fs::write(&precious, "precious").unwrap();
        [&path, &beside].into_iter().for_each(|link| std::os::unix::fs::symlink(&precious, link).unwrap());
        assert!(read(&path).is_err());
        FlowFile::new(&table(), path.clone(), Vec::new()).unwrap().write(false).unwrap();
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
        assert!(blocks(&read(&path).unwrap().unwrap()).is_ok());
    }

    #[test]
    fn what_is_damaged_is_refused_from_there_on() {
        let folder = tempfile::tempdir().unwrap();
        let (path, table) = (folder.path().join("flows"), table());
        let mut worker = table.worker().unwrap();
        let mut file = FlowFile::new(&table, path.clone(), Vec::new()).unwrap();
        begin(&mut worker, 0..3);
        file.go_on().unwrap();
        let first = std::fs::read(&path).unwrap().len();
        begin(&mut worker, 3..6);
        file.go_on().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.len() > first);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            for bytes in [&damaged[..], &bytes[..at]] {
                match blocks(bytes) {
                    Ok(read) => {
                        assert!(at >= first, "byte {at}");
                        assert_eq!(read.into_iter().map(numbers).collect::<Vec<_>>(), [[0, 1, 2]]);
                    }
                    Err(_) => assert!(at < first, "byte {at}"),
                }
            }
        }
    }

    #[test]
    fn a_full_disk_keeps_what_fits_and_is_not_filled_for_nothing() {
        // A small disk that only this thread can see.
        std::thread::spawn(on_a_small_disk).join().unwrap();
    }

    fn on_a_small_disk() {
        let folder = tempfile::tempdir().unwrap();
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        mount(Some("none"), folder.path(), Some("tmpfs"), MsFlags::empty(), Some("size=256k")).unwrap();
        let (path, table) = (folder.path().join("c.flows"), table());
        let mut worker = table.worker().unwrap();
        let mut file = FlowFile::new(&table, path.clone(), Vec::new()).unwrap();
        begin(&mut worker, 0..100);
        file.go_on().unwrap();
        let others = folder.path().join("others");
        let taken = 256 * 1024 - std::fs::metadata(&path).unwrap().len().next_multiple_of(4096) - 8192;
        std::fs::write(&others, vec![0; taken as usize]).unwrap();
        // Too many for the two pages that are left.
        begin(&mut worker, 100..400);
        assert_eq!(file.go_on().unwrap_err().kind(), io::ErrorKind::StorageFull);
        let read = |path| {
            blocks(&std::fs::read(path).unwrap()).unwrap().into_iter().map(numbers).collect::<Vec<_>>()
        };
        assert_eq!(read(&path), [(0..100).collect::<Vec<_>>()]);
        assert!(std::fs::write(folder.path().join("room"), [0; 4096]).is_ok(), "half a block takes no room");
        // No room for all of them, with or without the old ones: these stay, and nothing half done.
        assert_eq!(file.write(false).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(read(&path), [(0..100).collect::<Vec<_>>()]);
        assert!(!path.with_extension("flows.new").exists());
        // Room for one of the two.
        let size = file.all(false).unwrap().0.len() as u64;
        File::options()
            .write(true)
            .open(&others)
            .unwrap()
            .set_len(256 * 1024 - 8192 - size.next_multiple_of(4096) * 3 / 2)
            .unwrap();
        for _ in 0..2 {
            assert_eq!(file.write(false).unwrap(), 400);
            assert_eq!(read(&path), [(0..400).collect::<Vec<_>>()]);
        }
    }
}
