//! Compares the numbers in `bpf/flows.h` that are this crate's with those here.

#[path = "../../bpf/header.rs"]
mod c_header;

use c_header::Header;

use crate::{Phase, entry, index, key, tcp};

#[test]
fn the_driver_reads_entries_as_they_are_written() {
    let header = Header::read(include_str!("../../bpf/flows.h"));
    let flow = [
        ("slots", index::SLOTS as u64),
        ("v6", key::V6.into()),
        ("swapped", entry::SWAPPED.into()),
        ("reply_here", entry::REPLY_HERE.into()),
        ("reply_in_alias", entry::REPLY_IN_ALIAS.into()),
        ("reply_swapped", entry::REPLY_SWAPPED.into()),
        ("alias", entry::ALIAS.into()),
        ("translated", entry::TRANSLATED.into()),
        ("key", entry::KEY.into()),
        ("entry", index::ENTRY.into()),
        ("alias_phase", entry::ALIAS_PHASE.into()),
        ("slack", tcp::SLACK.into()),
    ];
    assert_eq!(header.family("FLOW_"), flow.map(|(name, number)| (name.to_owned(), number)).into());
    let phases = header.family("PHASE_");
    assert_eq!(phases.len(), 5);
    for phase in [Phase::Open, Phase::Closing, Phase::Unreplied, Phase::Replied, Phase::Stream] {
        assert_eq!(phases[phase.name()], phase as u64, "{}", phase.name());
    }
}

/// The fields of a struct of the header, in order: bytes of one, and how many.
fn fields(name: &str) -> Vec<(usize, usize)> {
    let text = include_str!("../../bpf/flows.h");
    let body = text.split_once(&format!("struct {name} {{")).unwrap().1.split_once("};").unwrap().0;
    let mut fields = Vec::new();
    for line in body.lines().filter_map(|line| line.trim().split(';').next()).filter(|line| !line.is_empty())
    {
        let (kind, names) = line.split_once(' ').unwrap();
        let bytes = kind.strip_prefix("__u").unwrap().parse::<usize>().unwrap() / 8;
        for name in names.split(',') {
            let count = name.split_once('[').map_or(1, |(_, count)| match count.trim_end_matches(']') {
                "FLOW_SLOTS" => index::SLOTS,
                number => number.parse().unwrap(),
            });
            fields.push((bytes, count));
        }
    }
    fields
}

/// Where they are.
fn offsets(name: &str) -> Vec<usize> {
    let mut at = 0usize;
    let place = |(bytes, count): (usize, usize)| {
        let here = at.next_multiple_of(bytes);
        at = here + bytes * count;
        here
    };
    fields(name).into_iter().map(place).collect()
}

#[test]
fn the_parts_of_an_entry_are_where_the_driver_finds_them() {
    use entry::{Cold, Hot};
    use std::mem::offset_of;
    let hot = [
        offset_of!(Hot, addresses),
        offset_of!(Hot, ports),
        offset_of!(Hot, meta),
        offset_of!(Hot, state),
        offset_of!(Hot, route),
        offset_of!(Hot, decisions),
        offset_of!(Hot, start),
    ];
    assert_eq!(offsets("flow_hot"), hot);
    let cold = [
        offset_of!(Cold, last),
        offset_of!(Cold, windows),
        offset_of!(Cold, packets),
        offset_of!(Cold, volume),
        offset_of!(Cold, numbers),
    ];
    assert_eq!(offsets("flow_cold"), cold);
}
