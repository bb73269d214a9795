//! Questions to files, journals and living flows.

use std::fs;
use std::path::Path;

use clap::Parser;
use proptest::prelude::*;

use super::*;
use crate::record::TCP;
use crate::samples::{NOON, records};
use crate::store::journal::Journal;
use crate::store::listing::{list, stem};
use crate::store::seal::seal;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    flows: Flows,
}

const HOUR: u64 = 3_600_000_000_000;

/// Three files of 1000 records each, an hour apart; the last is still a journal.
fn directory() -> (tempfile::TempDir, Vec<Record>) {
    let directory = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for hour in 0..3 {
        let mut part = records(1000);
        for record in &mut part {
            record.flow += hour * 1000;
            record.start += hour * HOUR;
            record.end += hour * HOUR;
        }
        let path = directory.path().join(stem(NOON + hour * HOUR) + ".journal");
        let mut journal = Journal::create(&path).unwrap();
        journal.append(&part).unwrap();
        journal.close().unwrap();
        if hour < 2 {
            seal(&path).unwrap();
        }
        all.extend(part);
    }
    (directory, all)
}

fn ask(directory: &Path, words: &str, live: &[Record]) -> (String, Summary) {
    let dir = directory.display().to_string();
    let words = ["flows", "--dir", &dir].into_iter().chain(words.split_whitespace()).collect::<Vec<_>>();
    let args = Program::try_parse_from(words).unwrap().flows;
    let mut out = Vec::new();
    let summary =
        answer(&args, live.iter().copied(), NOON + 3 * HOUR, &mut Progress::silent(), &mut out).unwrap();
    assert_eq!((summary.warnings.len(), summary.unread), (0, 0), "{:?}", summary.warnings);
    (String::from_utf8(out).unwrap(), summary)
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn filters_find_what_a_plain_look_finds() {
    let (directory, all) = directory();
    let count = |words: &str, meant: &dyn Fn(&Record) -> bool| {
        let expected = all.iter().filter(|record| meant(record)).count();
        let (text, summary) = ask(directory.path(), &format!("{words} --json"), &[]);
        assert_eq!((summary.matched as usize, lines(&text).len()), (expected, expected), "{words}");
        assert!(expected > 0, "{words} means nothing");
    };
    let is = |text: &str| text.parse::<std::net::IpAddr>().unwrap();
    count("", &|_| true);
    count("--proto tcp", &|r| r.key.protocol == TCP);
    count("--proto tcp,17", &|r| matches!(r.key.protocol, 6 | 17));
    count("--src 198.18.0.8", &|r| r.key.source == is("198.18.0.8"));
    count("--host 198.18.0.8", &|r| {
        [r.key.source, r.key.destination].contains(&is("198.18.0.8"))
            || r.translated.is_some_and(|t| [t.source, t.destination].contains(&is("198.18.0.8")))
    });
    count("--host 203.0.113.0/24", &|r| r.translated.is_some());
    count("--dst 2001:db8::/32", &|r| r.key.destination.is_ipv6());
    count("--dport 443", &|r| !r.key.is_icmp() && r.key.destination_port == 443);
    count("--port 40000-40100", &|r| {
        !r.key.is_icmp() && r.translated.is_some_and(|t| (40_000..=40_100).contains(&t.source_port))
    });
    count("--ifname wan0", &|_| true);
    count("--as 64500", &|r| r.source_as == 64_500);
    count("--table 254", &|r| r.key.table == 254);
    count("--reason end,forced", &|r| {
        matches!(r.reason, Some(crate::record::Reason::End | crate::record::Reason::Forced))
    });
    count("--proto udp --dport 53 --src 198.18.0.0/16", &|r| {
        r.key.protocol == 17 && r.key.destination_port == 53 && r.key.source.is_ipv4()
    });
    let since = NOON + 2 * HOUR;
    count("--since 1h", &|r| r.end >= since);
    count("--until 2h", &|r| r.start <= NOON + HOUR);
    let (none, _) = ask(directory.path(), "--src 10.0.0.0/8 --json", &[]);
    assert_eq!(none, "");
}

/// The n-th file of a directory was last written to then.
fn changed(directory: &Path, n: usize, at: u64) {
    let file = fs::File::options().append(true).open(&list(directory).unwrap()[n].path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_nanos(at)).unwrap();
}

#[test]
fn files_outside_the_time_are_not_read() {
    let (directory, _) = directory();
    (0..3).for_each(|n| changed(directory.path(), n, NOON + (n as u64 + 1) * HOUR));
    let (_, summary) = ask(directory.path(), "--since 50m --json", &[]);
    assert_eq!((summary.files, summary.skipped), (2, 1));
    // By the row groups of what is left.
    assert!(summary.read < 2000, "{summary:?}");
}

#[test]
fn files_are_not_passed_over_where_the_clock_was_set_back() {
    for (begun, written) in [
        // Two hours later by any other clock, another file was begun a minute behind the first.
        (NOON, NOON + 2 * HOUR),
        // The first was begun at a time that came once more: it has what came before that as well.
        (NOON, NOON - HOUR),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let late = Record { start: NOON + 2 * HOUR, end: NOON + 2 * HOUR, ..records(1)[0] };
        for (begun, records) in [(begun, vec![late]), (begun + HOUR / 60, records(10))] {
            let path = directory.path().join(stem(begun) + ".journal");
            Journal::create(&path).unwrap().append(&records).unwrap();
            seal(&path).unwrap();
        }
        changed(directory.path(), 0, written);
        changed(directory.path(), 1, NOON + HOUR / 4);
        let (text, _) = ask(directory.path(), "--since 65m --json", &[]);
        assert_eq!(lines(&text).len(), 1, "{written}");
    }
}

#[test]
fn sums_by_any_dimension_are_those_of_a_plain_count() {
    let (directory, all) = directory();
    let (text, _) = ask(directory.path(), "--port 443 --top 20 --by dst,bytes --json", &[]);
    let mut plain: HashMap<String, [u64; 3]> = HashMap::new();
    for r in all.iter().filter(|r| !r.key.is_icmp() && r.key.destination_port == 443) {
        let sums = plain.entry(r.key.destination.to_string()).or_default();
        sums[0] += u64::from(r.slice == 0);
        sums[1] += r.packets();
        sums[2] += r.bytes();
    }
    let mut plain = plain.into_iter().collect::<Vec<_>>();
    plain.sort_by_key(|(_, sums)| std::cmp::Reverse(sums[2]));
    let found = lines(&text);
    assert_eq!(found.len(), 20);
    for (line, (_, nth)) in found.iter().zip(&plain) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let (_, sums) = plain.iter().find(|(address, _)| *address == line["dst"].as_str().unwrap()).unwrap();
        let seen = ["flows", "packets", "bytes"].map(|key| line[key].as_u64().unwrap());
        assert_eq!((seen, seen[2]), (*sums, nth[2]));
    }
    // Each word alone gives the whole.
    let whole = all.iter().map(Record::bytes).sum::<u64>();
    for by in "src dst sport dport proto iif oif sas das table nexthop reason flow minute hour day".split(' ')
    {
        let (text, _) = ask(directory.path(), &format!("--by {by} --csv"), &[]);
        let bytes = text.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse::<u64>().unwrap());
        assert_eq!(bytes.sum::<u64>(), whole, "{by}");
    }
}

#[test]
fn the_largest_flows_come_first() {
    let (directory, all) = directory();
    let mut bytes = all.iter().map(Record::bytes).collect::<Vec<_>>();
    bytes.sort_unstable_by(|a, b| b.cmp(a));
    let (text, _) = ask(directory.path(), "--top 5 --json", &[]);
    let seen = text.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["bytes"].as_u64().unwrap() + line["reply_bytes"].as_u64().unwrap()
    });
    assert_eq!(seen.collect::<Vec<_>>(), bytes[..5]);
}

#[test]
fn living_flows_are_there_and_counted_once() {
    let (directory, all) = directory();
    let mut alive = all[7];
    (alive.flow, alive.reason) = (999_999, None);
    let since_ended = all[2500];
    let (text, summary) = ask(directory.path(), "--json", &[alive, since_ended]);
    assert_eq!(summary.matched as usize, all.len() + 1);
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((last["flow_id"].as_u64(), last["end_reason"].is_null()), (Some(999_999), true));
    let (_, summary) = ask(directory.path(), "--json --no-live", &[alive]);
    assert_eq!(summary.matched as usize, all.len());
    // Without any files at all.
    let empty = directory.path().join("none");
    assert_eq!(ask(&empty, "", &[alive]).1.matched, 1);
}

#[test]
fn tables_and_csv_have_a_head_and_a_line_for_each() {
    let (directory, all) = directory();
    let (table, _) = ask(directory.path(), "--dport 22 --proto tcp --until 2h", &[]);
    let table = lines(&table);
    assert!(
        table[0].starts_with("START")
            && table[1].contains(" > 198.18.1.")
            && table[1].contains("lan0 -> wan0")
    );
    let (csv, _) = ask(directory.path(), "--csv", &[]);
    let csv = lines(&csv);
    assert_eq!(csv.len(), all.len() + 1);
    assert!(csv[0].starts_with("start,end,flow_id,slice,end_reason,protocol,src_addr,"));
    assert!(csv[1].starts_with("2026-11-21T17:00:00.123456789Z,"));
    let columns = csv[0].split(',').count();
    assert!(csv.iter().all(|line| line.split(',').count() == columns));
    let (sums, _) = ask(directory.path(), "--by proto,flows --top 2", &[]);
    let sums = lines(&sums);
    assert!(sums[0].starts_with("PROTO") && sums.len() == 4, "{sums:?}");
    assert!(sums[3].contains("2 of 4 groups shown"), "{sums:?}");
}

#[test]
fn a_damaged_file_is_told_of_and_the_others_are_read() {
    let (directory, all) = directory();
    fs::write(directory.path().join(format!("{}.parquet", stem(NOON + 1000))), b"PAR1 nonsense PAR1")
        .unwrap();
    let args = Flows { dir: Some(directory.path().to_owned()), groups: 10, json: true, ..Flows::default() };
    let mut out = Vec::new();
    let summary = answer(&args, [], NOON, &mut Progress::silent(), &mut out).unwrap();
    assert_eq!(summary.matched as usize, all.len());
    assert!(
        summary.warnings.len() == 1
            && summary.warnings[0].contains("not a readable Parquet file")
            && summary.unread == 1,
        "{summary:?}"
    );
    // The lock beside them is no file of the log, though a shell may name it with them.
    let lock = directory.path().join("flows.lock");
    fs::write(&lock, b"").unwrap();
    let named = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let named: Vec<_> =
        named.filter(|path| !path.ends_with(format!("{}.parquet", stem(NOON + 1000)))).collect();
    assert!(named.contains(&lock));
    let whole = Flows { dir: None, files: named, ..args.clone() };
    let summary = answer(&whole, [], NOON, &mut Progress::silent(), &mut out).unwrap();
    assert_eq!((summary.matched as usize, summary.warnings), (all.len(), Vec::new()));
    // A file that is named must be there.
    let missing = Flows { files: vec![directory.path().join("no.parquet")], ..args.clone() };
    assert!(matches!(
        answer(&missing, [], NOON, &mut Progress::silent(), &mut out),
        Err(QueryError::Io { .. })
    ));
    let backwards = Flows { since: Some("1h".parse().unwrap()), until: Some("2h".parse().unwrap()), ..args };
    assert!(matches!(
        answer(&backwards, [], NOON, &mut Progress::silent(), &mut out),
        Err(QueryError::Backwards)
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_arguments_are_taken_or_refused(
        words in proptest::collection::vec("(--(since|until|host|src|port|proto|by|as|top|ifname)|[0-9a-z:./,@ -]{0,12}|\\PC{0,6})", 0..6)
    ) {
        if let Ok(program) = Program::try_parse_from(["flows".to_owned()].into_iter().chain(words)) {
            let _ = program.flows.filter(NOON);
        }
    }
}
