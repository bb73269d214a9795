//! Files under every mishap: cut off anywhere, damaged anyhow, on a full disk.

use std::cell::Cell;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use parquet::file::reader::FileReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RowAccessor;
use proptest::prelude::*;

use super::columns::{COLUMNS, Wanted};
use super::journal::{BLOCK, Journal, JournalError, Place, Reader};
use super::listing::{list, stem};
use super::read::{self, ReadError, Span};
use super::seal::{ROW_GROUP, Writer, seal};
use super::sealer::retire;
use super::{OpenError, Store};
use crate::record::Record;
use crate::samples::{NOON, records};
use crate::settings::Files;
use crate::sink::Sink;
use crate::tally::{Loss, Tally};
use crate::tools::wait;

/// A journal of these records in this directory, in blocks of so many.
fn journal(directory: &Path, records: &[Record], block: usize) -> PathBuf {
    let path = directory.join(stem(NOON) + ".journal");
    let mut journal = Journal::create(&path).unwrap();
    for block in records.chunks(block) {
        journal.append(block).unwrap();
    }
    journal.close().unwrap();
    path
}

#[test]
fn nobody_else_reads_it_and_links_on_its_names_lead_nowhere() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (directory, precious) = (folder.path().join("log"), folder.path().join("precious"));
    fs::write(&precious, "precious").unwrap();
    let open = || {
        let (tally, sealed) = tallies();
        Store::open(plan(&directory), tally, sealed)
    };
    let mut store = open().unwrap();
    store.take(&records(10));
    store.close();
    drop(store);
    let left = journal(&directory, &records(10), 10);
    let part = left.with_extension("parquet.part");
    symlink(&precious, &part).unwrap();
    seal(&left).unwrap();
    let lock = directory.join(super::LOCK);
    let mode = |path: &Path| path.symlink_metadata().unwrap().mode() & 0o7777;
    assert_eq!((mode(&directory), mode(&lock)), (0o750, 0o640));
    let files = list(&directory).unwrap();
    assert!(files.len() == 2 && files.iter().all(|file| mode(&file.path) == 0o640), "{files:?}");
    fs::remove_file(&lock).unwrap();
    symlink(&precious, &lock).unwrap();
    assert!(matches!(open(), Err(OpenError::Io { .. })));
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

fn read_journal(bytes: &[u8]) -> (Vec<Record>, Option<JournalError>) {
    let mut records = Vec::new();
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (records, Some(error)),
    };
    loop {
        match reader.next(&mut records) {
            Ok(true) => {}
            Ok(false) => return (records, None),
            Err(error) => return (records, Some(error)),
        }
    }
}

fn read_parquet(path: &Path, wanted: Wanted, span: Span) -> Result<Vec<Record>, ReadError> {
    let mut reader = read::Reader::open(path, wanted, span)?;
    let (mut all, mut some) = (Vec::new(), Vec::new());
    while reader.next(&mut some)? {
        all.extend_from_slice(&some);
    }
    Ok(all)
}

#[test]
fn a_journal_cut_off_anywhere_has_all_whole_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let records = records(100);
    let bytes = fs::read(journal(directory.path(), &records, 10)).unwrap();
    let mut seen = 0;
    for length in 0..=bytes.len() {
        let (found, _) = read_journal(&bytes[..length]);
        assert_eq!(found.len() % 10, 0);
        assert!(found.len() >= seen, "more bytes never mean fewer records");
        assert_eq!(found, records[..found.len()]);
        seen = found.len();
    }
    assert_eq!(seen, 100);
}

#[test]
fn a_journal_with_any_byte_changed_has_no_record_that_was_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let records = records(60);
    let bytes = fs::read(journal(directory.path(), &records, 20)).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let (found, error) = read_journal(&damaged);
        assert_eq!(found, records[..found.len()]);
        assert!(error.is_some(), "byte {at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), with_head in any::<bool>()) {
        let mut file = if with_head { b"BFLOWJ01".to_vec() } else { Vec::new() };
        file.extend(bytes);
        read_journal(&file);
    }
}

#[test]
fn sealing_keeps_every_record_and_every_column() {
    let directory = tempfile::tempdir().unwrap();
    let records = records(ROW_GROUP as u64 + 5000);
    let journal = journal(directory.path(), &records, BLOCK);
    let sealed = seal(&journal).unwrap();
    let path = sealed.file.unwrap();
    assert_eq!((sealed.records, sealed.torn), (records.len() as u64, None));
    assert!(!journal.exists() && !path.with_extension("parquet.part").exists());
    assert!(read_parquet(&path, Wanted::ALL, Span::ALWAYS).unwrap() == records);
    // Only some columns.
    let some = read_parquet(&path, Wanted::these(&["dst_port", "bytes"]), Span::ALWAYS).unwrap();
    let sum = |records: &[Record]| records.iter().map(|record| record.forward.bytes).sum::<u64>();
    assert_eq!((some.len(), sum(&some)), (records.len(), sum(&records)));
    assert_eq!((some[1].key.destination_port, some[1].reply.bytes), (records[1].key.destination_port, 0));
    // Row groups are passed over by their times: the first one ends long before the last record
    // starts.
    let late = records.last().unwrap().start;
    let mut reader = read::Reader::open(&path, Wanted::ALL, Span { since: late, until: u64::MAX }).unwrap();
    let mut rows = Vec::new();
    while reader.next(&mut rows).unwrap() {}
    assert_eq!(reader.skipped(), ROW_GROUP as u64);
}

/// By the parquet crate's own reader, which knows nothing of us: what others will see.
#[test]
fn others_read_typed_columns() {
    let directory = tempfile::tempdir().unwrap();
    let records = records(10);
    let path = seal(&journal(directory.path(), &records, 10)).unwrap().file.unwrap();
    let file = parquet::file::reader::SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let metadata = file.metadata();
    let group = metadata.row_group(0);
    for column in group.columns() {
        assert!(matches!(column.compression(), parquet::basic::Compression::ZSTD(_)));
    }
    let place = |name| COLUMNS.iter().position(|column| column.name == name).unwrap();
    for (row, record) in file.get_row_iter(None).unwrap().zip(&records) {
        let row = row.unwrap();
        assert_eq!(row.get_timestamp_micros(place("start_time")).unwrap() as u64, record.start / 1000);
        assert_eq!(u64::from(row.get_ushort(place("start_nanos")).unwrap()), record.start % 1000);
        assert_eq!(*row.get_string(place("src_addr")).unwrap(), record.key.source.to_string());
        assert_eq!(row.get_ushort(place("dst_port")).unwrap(), record.key.destination_port);
        assert_eq!(row.get_ubyte(place("protocol")).unwrap(), record.key.protocol);
        assert_eq!(row.get_uint(place("dst_as")).unwrap(), record.destination_as);
        assert_eq!(row.get_long(place("bytes")).unwrap() as u64, record.forward.bytes);
        assert_eq!(row.get_string(place("nat_src_addr")).is_ok(), record.translated.is_some());
    }
}

#[test]
fn a_crash_at_any_step_of_sealing_loses_and_doubles_nothing() {
    let records = records(1000);
    let sealed_once = |prepare: &dyn Fn(&Path, &Path)| {
        let directory = tempfile::tempdir().unwrap();
        let path = journal(directory.path(), &records, 100);
        prepare(directory.path(), &path);
        seal(&path).unwrap();
        let files = list(directory.path()).unwrap();
        assert_eq!(files.len(), 1);
        assert!(read_parquet(&files[0].path, Wanted::ALL, Span::ALWAYS).unwrap() == records);
    };
    // While the Parquet file was being written.
    sealed_once(&|_, path| fs::write(path.with_extension("parquet.part"), b"PAR1 half").unwrap());
    // After it was renamed, before the journal was removed.
    sealed_once(&|_, path| {
        let copy = fs::read(path).unwrap();
        seal(path).unwrap();
        fs::write(path, copy).unwrap();
        // Meanwhile, nobody sees records twice.
        assert_eq!(list(path.parent().unwrap()).unwrap().len(), 1);
    });
}

#[test]
fn parquet_that_is_cut_off_or_damaged_is_refused_and_never_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let records = records(300);
    let path = seal(&journal(directory.path(), &records, 100)).unwrap().file.unwrap();
    let bytes = fs::read(&path).unwrap();
    let wrong = directory.path().join("wrong.parquet");
    let refused = |content: &[u8]| {
        fs::write(&wrong, content).unwrap();
        read_parquet(&wrong, Wanted::ALL, Span::ALWAYS).is_err()
    };
    let step = (bytes.len() / 150).max(1);
    for length in (0..bytes.len()).step_by(step) {
        assert!(refused(&bytes[..length]), "cut at {length}");
    }
    for at in (0..bytes.len()).step_by(step) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        // It may be a byte that changes nothing that can be noticed.
        refused(&damaged);
    }
    // Parquet of something else.
    for (columns, said) in [
        ("required int32 start_time;", "start_time is no time"),
        (&format!("{TIMES} required binary packets (string);"), "packets is no whole number"),
        (&format!("{TIMES} required double bytes;"), "bytes is no whole number"),
        (&format!("{TIMES} required int32 src_addr;"), "src_addr is no text"),
        (&format!("{TIMES} repeated int32 src_port;"), "src_port is a list"),
    ] {
        let schema = parquet::schema::parser::parse_message_type(&format!("message m {{ {columns} }}"));
        let file = fs::File::create(&wrong).unwrap();
        let schema = Arc::new(schema.unwrap());
        let writer = parquet::file::writer::SerializedFileWriter::new(file, schema, Default::default());
        writer.unwrap().close().unwrap();
        let error = read_parquet(&wrong, Wanted::ALL, Span::ALWAYS).unwrap_err();
        assert_eq!(error.to_string(), format!("not a flow log: column {said}"));
    }
    assert!(matches!(Writer::new(Vec::new()).unwrap().finish(), Ok(())));
}

/// Spark, DuckDB and pandas write snappy unless they are told otherwise.
#[test]
fn what_others_have_packed_anew_is_read() {
    use parquet::basic::Compression;
    let directory = tempfile::tempdir().unwrap();
    let (path, records) = (directory.path().join("again.parquet"), records(300));
    let gzip = Compression::GZIP(Default::default());
    for packing in
        [Compression::SNAPPY, gzip, Compression::LZ4, Compression::LZ4_RAW, Compression::UNCOMPRESSED]
    {
        let mut writer = Writer::packed(fs::File::create(&path).unwrap(), packing).unwrap();
        writer.rows(&records).unwrap();
        writer.finish().unwrap();
        assert!(read_parquet(&path, Wanted::ALL, Span::ALWAYS).unwrap() == records, "{packing}");
    }
}

/// A file of a few kilobytes says how much memory its reader is to take.
#[test]
fn a_page_that_unpacks_to_more_than_any_writer_makes_is_refused() {
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.parquet");
    let schema = parquet::schema::parser::parse_message_type(&format!("message m {{ {TIMES} }}")).unwrap();
    let write = |rows: usize| {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(Default::default()))
            .set_dictionary_enabled(false)
            .set_data_page_size_limit(1 << 30)
            .set_data_page_row_count_limit(1 << 30)
            .set_write_batch_size(1 << 30);
        let file = fs::File::create(&path).unwrap();
        let properties = Arc::new(properties.build());
        let mut writer = SerializedFileWriter::new(file, Arc::new(schema.clone()), properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        while let Some(mut column) = group.next_column().unwrap() {
            let values = vec![0; rows];
            column.typed::<parquet::data_type::Int64Type>().write_batch(&values, None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
    };
    write(1 << 20);
    assert_eq!(read_parquet(&path, Wanted::ALL, Span::ALWAYS).unwrap().len(), 1 << 20);
    write(3 << 20);
    assert!(fs::metadata(&path).unwrap().len() < 16_384);
    let error = read_parquet(&path, Wanted::ALL, Span::ALWAYS).unwrap_err().to_string();
    assert!(error.ends_with("a page of 25165824 unpacked bytes, where 8388608 are read at most"), "{error}");
}

const TIMES: &str = "required int64 start_time; required int64 end_time;";

/// Takes so many bytes, then says that the disk is full.
struct Full {
    bytes: std::cell::RefCell<Vec<u8>>,
    room: Cell<usize>,
}

impl Place for &Full {
    fn put(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut held = self.bytes.borrow_mut();
        held.resize(at as usize, 0);
        let fits = bytes.len().min(self.room.get());
        held.extend_from_slice(&bytes[..fits]);
        self.room.set(self.room.get() - fits);
        if fits < bytes.len() { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.bytes.borrow_mut().truncate(length as usize);
        Ok(())
    }
}

#[test]
fn after_a_failed_write_the_journal_goes_on_where_it_was_whole() {
    let records = records(50);
    for room in (20..1200).step_by(7) {
        let full = Full { bytes: Default::default(), room: Cell::new(room) };
        let mut journal = Journal::on(&full).unwrap();
        let mut kept = Vec::new();
        for block in records.chunks(10) {
            if journal.append(block).is_ok() {
                kept.extend_from_slice(block);
            } else {
                // Even now it is readable up to there.
                assert_eq!(read_journal(&full.bytes.borrow()).0, kept);
                full.room.set(5000);
            }
        }
        journal.close().unwrap();
        let (found, error) = read_journal(&full.bytes.borrow());
        assert!(error.is_none() && found == kept, "room {room}");
    }
}

fn plan(directory: &Path) -> Files {
    Files {
        directory: directory.to_owned(),
        rotate: Duration::from_secs(3600),
        size: 1 << 40,
        sync: Duration::from_secs(1),
        keep: None,
        keep_size: None,
        queue: 100_000,
    }
}

fn tallies() -> (Arc<Tally>, Arc<Tally>) {
    (Arc::new(Tally::new("files")), Arc::new(Tally::new("parquet")))
}

/// A disk of 4 MiB that only this test, and the threads that it starts, can see.
fn on_a_small_disk(test: impl FnOnce(&Path) + Send + 'static) {
    std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        let disk = tempfile::tempdir().unwrap();
        mount(Some("tmpfs"), disk.path(), Some("tmpfs"), MsFlags::empty(), Some("size=4m,mode=755")).unwrap();
        test(disk.path());
        nix::mount::umount(disk.path()).unwrap();
    })
    .join()
    .unwrap();
}

/// Gives the store records until it has lost some; how many it was given.
fn fill(store: &mut Store, tally: &Tally) -> u64 {
    let (records, before) = (records(20_000), tally.count().lost());
    let mut given = 0;
    for block in records.chunks_exact(BLOCK).cycle().take(200) {
        store.take(block);
        given += block.len() as u64;
        if tally.count().lost() > before {
            break;
        }
    }
    assert!(tally.count().lost() > before, "the disk was never full");
    given
}

#[test]
fn a_disk_that_is_full_loses_what_it_must_counts_it_and_recovers() {
    on_a_small_disk(|disk| {
        let ballast = disk.join("ballast");
        fs::write(&ballast, vec![1; 2_000_000]).unwrap();
        let (tally, sealed) = tallies();
        let mut store = Store::open(plan(disk), Arc::clone(&tally), Arc::clone(&sealed)).unwrap();
        let given = fill(&mut store, &tally);
        let count = tally.count();
        assert!(count.records > 0 && count.lost[&Loss::Disk] > 0, "{count:?}");
        assert_eq!(count.records + count.lost(), given);
        assert!(count.last_fault.unwrap().contains("No space"));
        // There is room again: what comes now is kept, and all that was kept can be read.
        fs::remove_file(&ballast).unwrap();
        let before = tally.count().lost();
        store.take(&records(100));
        store.close();
        assert_eq!(tally.count().lost(), before);
        let kept = tally.count().records;
        drop(store);
        let files = list(disk).unwrap();
        let found = files.iter().map(|file| match file.journal {
            true => read_journal(&fs::read(&file.path).unwrap()).0.len(),
            false => read_parquet(&file.path, Wanted::ALL, Span::ALWAYS).unwrap().len(),
        });
        assert_eq!(found.sum::<usize>() as u64, kept);
    });
}

#[test]
fn journals_leave_of_a_full_disk_what_sealing_them_takes() {
    on_a_small_disk(|disk| {
        let (tally, sealed) = tallies();
        let mut store = Store::open(plan(disk), Arc::clone(&tally), Arc::clone(&sealed)).unwrap();
        let plan = store.plan();
        // Each time there is less room, but some: a sealed journal takes less.
        for round in 0..2 {
            plan.write().unwrap().size = 1 << 40;
            fill(&mut store, &tally);
            plan.write().unwrap().size = 1;
            store.tick();
            let kept = tally.count().records;
            wait("it is sealed", || sealed.count().records == kept);
            assert_eq!(sealed.count().faults, 0, "round {round}: {:?}", sealed.count());
        }
    });
}

#[test]
fn a_small_disk_is_filled_before_anything_is_lost() {
    on_a_small_disk(|disk| {
        let (tally, sealed) = tallies();
        let mut store = Store::open(plan(disk), Arc::clone(&tally), Arc::clone(&sealed)).unwrap();
        let records = records(20_000);
        for block in records.chunks_exact(BLOCK).cycle().take(400) {
            store.take(block);
            store.tick();
            // The sealer keeps up.
            wait("it is sealed", || sealed.count().records + 4 * BLOCK as u64 * 40 > tally.count().records);
            if tally.count().lost() > 0 {
                break;
            }
        }
        let facts = nix::sys::statvfs::statvfs(disk).unwrap();
        let (free, all) = (facts.blocks_available(), facts.blocks());
        assert!(tally.count().lost() > 0, "the disk was never full");
        assert!(free < all / 2, "of {all} blocks {free} are free, and records are lost: {:?}", tally.count());
    });
}

#[test]
fn what_a_crash_left_is_sealed_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let records = records(500);
    let left = journal(directory.path(), &records, 100);
    // Cut off in the middle of a block.
    let bytes = fs::read(&left).unwrap();
    fs::write(&left, &bytes[..bytes.len() - 7]).unwrap();
    fs::write(left.with_extension("parquet.part"), b"half").unwrap();
    let (tally, sealed) = tallies();
    let store = Store::open(plan(directory.path()), tally, Arc::clone(&sealed)).unwrap();
    wait("it is sealed", || sealed.count().records == 400);
    assert!(sealed.count().last_fault.unwrap().contains("torn"));
    let path = left.with_extension("parquet");
    wait("the journal is gone", || !left.exists());
    assert!(read_parquet(&path, Wanted::ALL, Span::ALWAYS).unwrap() == records[..400]);
    // Another router is refused, and told why.
    let (tally, sealed) = tallies();
    assert!(matches!(Store::open(plan(directory.path()), tally, sealed), Err(OpenError::Taken { .. })));
    drop(store);
}

#[test]
fn files_are_rotated_by_time_and_size_and_read_while_they_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let (tally, sealed) = tallies();
    let small = Files { size: 40_000, ..plan(directory.path()) };
    let mut store = Store::open(small, Arc::clone(&tally), Arc::clone(&sealed)).unwrap();
    let records = records(6 * BLOCK as u64);
    for block in records.chunks(BLOCK) {
        store.take(block);
        store.tick();
    }
    wait("some are sealed", || sealed.count().units >= 2);
    store.take(&records[..BLOCK]);
    let open = list(directory.path()).unwrap().into_iter().rfind(|file| file.journal).unwrap();
    assert!(!read_journal(&fs::read(&open.path).unwrap()).0.is_empty());
    store.close();
    drop(store);
    let files = list(directory.path()).unwrap();
    let found = files.iter().map(|file| read_parquet(&file.path, Wanted::ALL, Span::ALWAYS).unwrap().len());
    assert_eq!(found.sum::<usize>(), records.len() + BLOCK);
    assert_eq!(sealed.count().records, tally.count().records);
}

#[test]
fn the_oldest_files_go_first_and_journals_stay() {
    let directory = tempfile::tempdir().unwrap();
    let hour = 3_600_000_000_000;
    for n in 0..5 {
        let ending = if n == 0 { ".journal" } else { ".parquet" };
        fs::write(directory.path().join(stem(NOON + n * hour) + ending), [0; 1000]).unwrap();
    }
    let now = NOON + 5 * hour - 1_000_000_000;
    let by_age = Files { keep: Some(Duration::from_secs(2 * 3600)), ..plan(directory.path()) };
    // The file of hour 1 ended when that of hour 2 began, three hours ago.
    assert_eq!(retire(directory.path(), &by_age, now).unwrap(), 1);
    let by_size = Files { keep_size: Some(2500), ..plan(directory.path()) };
    assert_eq!(retire(directory.path(), &by_size, now).unwrap(), 2);
    let left = list(directory.path()).unwrap();
    // Names have microseconds.
    let begun = |n: u64| NOON / 1000 * 1000 + n * hour;
    assert_eq!(
        left.iter().map(|file| (file.begun, file.journal)).collect::<Vec<_>>(),
        [(begun(0), true), (begun(4), false)]
    );
}
