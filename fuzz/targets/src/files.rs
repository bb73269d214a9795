//! Files of packets and of flows.

use std::fs::File;
use std::io::{Cursor, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use flowlog::store::columns::Wanted;
use flowlog::store::read::Span;
use flowlog::store::{journal, read};
use graph::language::Texts;
use graph::{Driver, Environment, Manner, Program, Sinks};
use nix::sys::memfd::{MFdFlags, memfd_create};
use port::Pool;
use port::pcap::{Replay, Timing};
use wire::capture::{self, MOST, link};

/// A file of these bytes, as long as it is held, and its path.
fn file(bytes: &[u8]) -> (File, PathBuf) {
    // Invariant: memory for a file of a few kilobytes there is.
    let mut file = File::from(memfd_create("fuzz", MFdFlags::MFD_CLOEXEC).expect("memory"));
    file.write_all(bytes).expect("room");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
    (file, path)
}

/// A file of captured packets: packet by packet, and as a port that replays it.
pub fn capture(bytes: &[u8]) {
    if let Ok(mut reader) = capture::Reader::new(Cursor::new(bytes)) {
        let (mut packet, mut before) = (Vec::new(), reader.position());
        while let Ok(Some(record)) = reader.next(&mut packet) {
            assert!(packet.len() <= MOST && record.length as usize >= packet.len());
            assert!(reader.position() > before && reader.position() <= bytes.len() as u64);
            before = reader.position();
            if let Some(ip) = link::find_ip(&packet, record.link) {
                assert!(ip.offset + ip.header <= packet.len());
            }
        }
    }
    let (_file, path) = file(bytes);
    let _ = Replay::open(&path, Timing::Fast, Some(1));
}

/// A journal of the flow log; behind a first byte that is not 0, what is in a block of it, for no
/// chance meets a right checksum.
pub fn flow_journal(bytes: &[u8]) {
    let Some((how, bytes)) = bytes.split_first() else { return };
    if *how == 0 {
        return read_journal(bytes);
    }
    // Invariant: so few bytes can be compressed.
    let packed = zstd::bulk::compress(bytes, 1).expect("a block");
    let head = [packed.len() as u32, u32::from(*how)].map(u32::to_le_bytes).concat();
    let mut sum = crc32fast::Hasher::new();
    [&head, &packed].into_iter().for_each(|part| sum.update(part));
    read_journal(&[&b"BFLOWJ01"[..], &head, &sum.finalize().to_le_bytes(), &packed].concat());
}

fn read_journal(bytes: &[u8]) {
    let Ok(mut reader) = journal::Reader::new(bytes) else { return };
    let mut records = Vec::new();
    while let Ok(true) = reader.next(&mut records) {
        records.clear();
    }
    assert!(reader.position() <= bytes.len() as u64);
}

/// A Parquet file, of the flow log or of anybody's.
pub fn parquet(bytes: &[u8]) {
    let (_file, path) = file(bytes);
    let Ok(mut reader) = read::Reader::open(&path, Wanted::ALL, Span::ALWAYS) else { return };
    let mut records = Vec::new();
    while let Ok(true) = reader.next(&mut records) {}
}

/// An IP summary dump, and what is written of the packets in it.
pub fn summary(bytes: &[u8]) {
    Pool::heap(256).install();
    let (_file, path) = file(bytes);
    let text = format!(
        "FromIPSummaryDump({}, STOP true, MULTIPACKET false) -> ToIPSummaryDump(/dev/null, CAREFUL_TRUNC true, FIELDS timestamp ip_src \
         ip_dst ip_len ip_opt tcp_opt sport dport payload_len)",
        path.display()
    );
    let mut texts = Texts::new();
    let number = texts.add("fuzz", &text);
    let environment = Environment::new();
    // Invariant: the text is right.
    let program = Program::compile(texts, number, &[], &elements::registry(), &environment);
    let program = program.unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut sinks = Sinks::new();
    let manner = Manner { batches: false, ..Manner::default() };
    if let Ok(graph) = program.start(&environment, manner, &mut sinks) {
        Driver::new(graph, sinks).run();
    }
}
