//! A full table, floods, and time.

use flow::{
    Account, Direction, End, Inserted, Key, Opening, Refused, Settings, State, Table, Timeouts, Tracked,
    Tuple, Worker,
};
use std::sync::Arc;
use std::time::Duration;
use wire::headers::mapped;
use wire::tcp::flag::{ACK, FIN, RST, SYN};
use wire::{Fragment, Headers, protocol};

const SECOND: u64 = 1_000_000_000;

/// A TCP segment in an IPv4 packet.
fn packet(tuple: &Tuple, flags: u8, sequence: u32, acknowledgement: u32) -> Vec<u8> {
    let mut ip = vec![0; 40];
    ip[0] = 0x45;
    ip[3] = 40;
    ip[9] = protocol::TCP;
    ip[12..16].copy_from_slice(&tuple.source[12..]);
    ip[16..20].copy_from_slice(&tuple.destination[12..]);
    ip[20..22].copy_from_slice(&tuple.source_port.to_be_bytes());
    ip[22..24].copy_from_slice(&tuple.destination_port.to_be_bytes());
    ip[24..28].copy_from_slice(&sequence.to_be_bytes());
    ip[28..32].copy_from_slice(&acknowledgement.to_be_bytes());
    ip[32..36].copy_from_slice(&[0x50, flags, 0xff, 0xff]);
    ip
}

fn tuple(client: u32, port: u16) -> Tuple {
    Tuple {
        source: mapped(client.to_be_bytes()),
        destination: mapped([192, 0, 2, 1]),
        source_port: port,
        destination_port: 443,
        protocol: protocol::TCP,
        table: 0,
    }
}

struct Bench {
    table: Arc<Table>,
    worker: Worker,
    now: u64,
    accounts: Vec<Account>,
    /// Whether new flows are translated.
    nat: bool,
}

/// What answers to a translated flow look like.
fn translated(original: &Tuple) -> Tuple {
    let back = original.reversed();
    let client = original.source[12..].iter().fold(0u16, |sum, byte| sum << 5 ^ u16::from(*byte));
    let mut outside = mapped([203, 0, 113, original.source[14]]);
    outside[13] = original.source[13];
    Tuple { destination: outside, destination_port: client ^ original.source_port, ..back }
}

impl Bench {
    fn new(settings: Settings) -> Bench {
        let table = Table::new(&settings).unwrap();
        Bench { worker: table.worker().unwrap(), table, now: 100 * SECOND, accounts: Vec::new(), nat: false }
    }

    fn small() -> Bench {
        Bench::new(Settings { memory: 3 << 20, fragments: 64, ..Settings::default() })
    }

    /// What the table makes of a packet, as a router would ask it.
    fn send(&mut self, ip: &[u8]) -> Result<State, Refused> {
        let headers = Headers::parse(ip).unwrap();
        let original = Tuple::of(&headers, 0);
        let tracked = self
            .worker
            .find(&Key::of(&original))
            .map(|hit| self.worker.track(&hit, &headers, ip, self.now, || true));
        if let Some(Tracked::Is(state)) = tracked {
            return Ok(state);
        }
        let reply = self.nat.then(|| translated(&original));
        let opening = Opening { headers: &headers, ip, original, reply, ports: [0, 1], mark: 0 };
        match self.worker.insert(&opening, self.now)? {
            Inserted::New(_) => Ok(State::New),
            Inserted::Existing(_) => panic!("found only now"),
        }
    }

    fn establish(&mut self, tuple: &Tuple) {
        assert_eq!(self.send(&packet(tuple, SYN, 100, 0)), Ok(State::New));
        let answer = if self.nat { translated(tuple) } else { tuple.reversed() };
        assert_eq!(self.send(&packet(&answer, SYN | ACK, 500, 101)), Ok(State::Established));
        assert_eq!(self.send(&packet(tuple, ACK, 101, 501)), Ok(State::Established));
    }

    fn maintain(&mut self) -> bool {
        let accounts = &mut self.accounts;
        self.worker.maintain(self.now, &mut |account| accounts.push(*account))
    }

    /// Time passes, with all the upkeep it needs.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += SECOND;
            while self.maintain() {}
        }
    }
}

#[test]
fn established_flows_outlive_a_flood() {
    let mut bench =
        Bench::new(Settings { memory: 3 << 20, fragments: 64, translation: true, ..Settings::default() });
    let (capacity, bytes) = (bench.table.capacity(), bench.table.bytes());
    let kept: Vec<Tuple> = (0..capacity as u32 / 2).map(|client| tuple(0x0a00_0000 + client, 1000)).collect();
    for (number, tuple) in kept.iter().enumerate() {
        bench.nat = number % 2 == 0;
        bench.establish(tuple);
    }
    bench.nat = false;
    let mut refused = 0;
    for number in 0..20 * capacity as u32 {
        // Spoofed sources; the server answers every third.
        let spoofed = tuple(0x2000_0000 ^ number.wrapping_mul(0x9e37_79b9), number as u16);
        match bench.send(&packet(&spoofed, SYN, number, 0)) {
            Ok(State::New) if number % 3 == 0 => {
                let answer = packet(&spoofed.reversed(), SYN | ACK, 1, number.wrapping_add(1));
                assert_eq!(bench.send(&answer), Ok(State::Established));
            }
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, Refused::Full);
                refused += 1;
            }
        }
        bench.now += 1000;
        if number % 64 == 0 {
            bench.maintain();
        }
    }
    let counters = bench.table.counters();
    assert!(refused * 1000 < 20 * capacity, "{refused} refused");
    assert!(counters.size <= capacity as u64 && bench.table.bytes() == bytes, "{counters:?}");
    assert!(counters.passive > 15 * capacity as u64, "{counters:?}");
    for tuple in &kept {
        assert_eq!(bench.send(&packet(tuple, ACK, 101, 501)), Ok(State::Established));
    }
    assert!(
        bench.accounts.iter().all(|account| account.end == End::Evicted && account.phase < flow::Phase::Open)
    );
}

/// The key of a table is drawn, so only one of many tables brings both of a flow's places together.
#[test]
fn a_translated_flow_makes_no_room_for_its_answers_by_its_own_end() {
    for _ in 0..150 {
        let mut bench = Bench::small();
        bench.nat = true;
        for client in 0..bench.table.capacity() as u32 {
            let tuple = tuple(client, 7);
            if bench.send(&packet(&tuple, SYN, 100, 0)).is_ok() {
                let answer = bench.send(&packet(&translated(&tuple), SYN | ACK, 500, 101));
                assert_eq!(answer, Ok(State::Established), "{client}");
            }
            if client % 64 == 0 {
                bench.maintain();
            }
        }
    }
}

#[test]
fn a_table_full_of_established_flows_makes_room_only_for_want_of_life() {
    let mut bench = Bench::small();
    let capacity = bench.table.capacity() as u32;
    for client in 0..capacity {
        let tuple = tuple(client, 7);
        if bench.send(&packet(&tuple, SYN, 100, 0)).is_ok() {
            bench.send(&packet(&tuple.reversed(), SYN | ACK, 500, 101)).unwrap();
            bench.send(&packet(&tuple, ACK, 101, 501)).unwrap();
        }
        if client % 64 == 0 {
            bench.maintain();
        }
    }
    let size = bench.table.counters().size;
    assert!(size > u64::from(capacity) * 98 / 100, "{size} of {capacity}");
    let mut newcomers = 0;
    let mut come = |bench: &mut Bench| {
        let came = (0..2000u32).filter(|_| {
            newcomers += 1;
            let tuple = tuple(0xc000_0000 + newcomers, 9);
            let came = bench.send(&packet(&tuple, SYN, 100, 0)).is_ok();
            if came {
                bench.send(&packet(&tuple.reversed(), SYN | ACK, 500, 101)).unwrap();
                bench.send(&packet(&tuple, ACK, 101, 501)).unwrap();
            }
            if newcomers % 32 == 0 {
                bench.maintain();
            }
            came
        });
        came.count()
    };
    come(&mut bench);
    let (full, early) = (bench.table.counters(), come(&mut bench));
    let counters = bench.table.counters();
    assert!(early < 10 && counters.ignored > full.ignored, "{early} {full:?} {counters:?}");
    assert_eq!(
        (counters.size, counters.overflow),
        (full.size + early as u64, full.overflow + 2000 - early as u64)
    );
    assert!(bench.accounts.iter().all(|account| account.phase < flow::Phase::Open));
    // All of them idle for more than a minute: then they may go.
    bench.now += 61 * SECOND;
    for _ in 0..10 {
        bench.maintain();
    }
    let late = come(&mut bench);
    assert!(late > 1900, "{late}");
}

#[test]
fn what_is_over_leaves_soon_and_what_is_idle_in_time() {
    let mut bench = Bench::small();
    let [closed, reset, idle, half] = [1, 2, 3, 4].map(|client| tuple(client, 1));
    [closed, reset, idle].iter().for_each(|tuple| bench.establish(tuple));
    bench.send(&packet(&half, SYN, 1, 0)).unwrap();
    for (from, flags, sequence, acknowledgement) in
        [(closed, FIN | ACK, 101, 501), (closed.reversed(), FIN | ACK, 501, 102), (closed, ACK, 102, 502)]
    {
        assert_eq!(bench.send(&packet(&from, flags, sequence, acknowledgement)), Ok(State::Established));
    }
    assert_eq!(bench.send(&packet(&reset.reversed(), RST, 501, 0)), Ok(State::Established));
    bench.pass(5);
    assert_eq!((bench.accounts.len(), bench.table.counters().size), (0, 4));
    // What still comes is of the flow, but does not put off its end.
    assert_eq!(bench.send(&packet(&closed, ACK, 102, 502)), Ok(State::Established));
    bench.pass(11);
    let mut ends: Vec<(u32, End)> =
        bench.accounts.iter().map(|account| (u32::from(account.original.source[15]), account.end)).collect();
    ends.sort_by_key(|end| end.0);
    assert_eq!(ends, [(1, End::Fin), (2, End::Rst)]);
    let account = bench.accounts.iter().find(|account| account.end == End::Fin).copied().unwrap();
    assert_eq!((account.packets, account.bytes), ([5, 2], [200, 80]));
    assert_eq!(account.tcp_flags, [SYN | ACK | FIN, SYN | ACK | FIN]);
    assert_eq!((account.start, account.phase), (100 * SECOND, flow::Phase::Finished));
    bench.pass(240);
    assert_eq!(bench.accounts.last().map(|account| (account.original, account.end)), Some((half, End::Idle)));
    assert_eq!(bench.table.counters().size, 1);
    bench.pass(7440);
    assert_eq!(bench.table.counters().size, 0);
    let counters = bench.table.counters();
    assert_eq!((counters.active, counters.timed, counters.new), (2, 2, 4));
}

#[test]
fn syns_that_nobody_answers_put_nothing_off() {
    let mut bench = Bench::small();
    let [asks, idle] = [1, 2].map(|client| tuple(client, 1));
    bench.establish(&idle);
    bench.send(&packet(&asks, SYN, 1, 0)).unwrap();
    for _ in 0..=7440 / 31 {
        bench.pass(31);
        // Another attempt by the same port, and one in a connection that the other end may have
        // forgotten.
        assert_eq!(bench.send(&packet(&asks, SYN, 1, 0)), Ok(State::New));
        bench.send(&packet(&idle, SYN, 7, 0)).unwrap();
    }
    let ended = |of: Tuple| {
        let mut ends = bench.accounts.iter().filter(|account| account.end != End::Slice);
        ends.find(|account| account.original == of).unwrap()
    };
    let (asked, idled) = (ended(asks), ended(idle));
    // Told as it was: the last of them came half a minute before.
    assert_eq!((asked.end, asked.packets, asked.start), (End::Idle, [8, 0], 100 * SECOND));
    assert!(asked.last > 315 * SECOND, "{}", asked.last);
    assert_eq!(idled.end, End::Idle);
}

#[test]
fn a_closed_connection_gives_way_to_a_new_one_at_once() {
    let mut bench = Bench::small();
    let tuple = tuple(1, 1);
    bench.establish(&tuple);
    assert_eq!(bench.send(&packet(&tuple, RST, 101, 0)), Ok(State::Established));
    // The other end begins it this time.
    assert_eq!(bench.send(&packet(&tuple.reversed(), SYN, 9000, 0)), Ok(State::New));
    assert_eq!(bench.send(&packet(&tuple, SYN | ACK, 1, 9001)), Ok(State::Established));
    bench.pass(1);
    assert_eq!(bench.accounts.iter().map(|account| account.end).collect::<Vec<_>>(), [End::Rst]);
    assert_eq!(bench.table.counters().size, 1);
}

#[test]
fn segments_in_mid_stream_are_handled_by_policy() {
    let mut bench = Bench::small();
    let tuple = tuple(1, 1);
    bench.table.configure(&Timeouts::default(), false).unwrap();
    assert_eq!(bench.send(&packet(&tuple, ACK, 101, 501)), Err(Refused::NotAnOpening));
    bench.table.configure(&Timeouts::default(), true).unwrap();
    assert_eq!(bench.send(&packet(&tuple, ACK, 101, 501)), Ok(State::New));
    assert_eq!(bench.send(&packet(&tuple.reversed(), ACK, 501, 101)), Ok(State::Established));
    assert_eq!(bench.send(&packet(&tuple.reversed(), RST, 77_777, 0)), Ok(State::Established));
    assert_eq!(bench.send(&packet(&tuple, ACK, 0x9000_0000, 501)), Ok(State::Invalid));
    assert_eq!(bench.table.counters().invalid, 1);
}

#[test]
fn both_ends_of_a_flow_may_begin_anew() {
    let mut bench = Bench::small();
    let tuple = tuple(1, 1);
    bench.establish(&tuple);
    // Numbers behind the old ones.
    let answer = packet(&tuple.reversed(), SYN | ACK, 4_000_000_000, 3_900_000_001);
    assert_eq!(bench.send(&answer), Ok(State::Established));
    for (ip, state) in [
        (packet(&tuple, SYN, 3_900_000_000, 0), State::Established),
        (answer, State::Established),
        (packet(&tuple, ACK, 3_900_000_001, 4_000_000_001), State::Established),
        (packet(&tuple.reversed(), ACK, 4_000_000_001, 3_900_000_001), State::Established),
        (packet(&tuple, ACK, 101, 501), State::Invalid),
    ] {
        assert_eq!(bench.send(&ip), Ok(state));
    }
    // It is known that it is open again.
    bench.send(&packet(&tuple, RST, 3_900_000_001, 0)).unwrap();
    bench.pass(20);
    assert_eq!(bench.accounts.iter().map(|account| account.end).collect::<Vec<_>>(), [End::Rst]);
}

#[test]
fn settings_that_cannot_be_told_change_nothing() {
    let bench = Bench::small();
    let long = Timeouts {
        udp: Duration::from_secs(7 * 86_400),
        tcp_opening: Duration::from_secs(1),
        ..Timeouts::default()
    };
    let error = bench.table.configure(&long, true).unwrap_err();
    assert_eq!(error.to_string(), "the timeout udp is 604800 s; flows can be idle for at most 6 days");
    let error = Table::new(&Settings { memory: 1 << 20, ..Settings::default() }).err().unwrap();
    assert!(
        error.to_string().contains("1 MiB: with so many fragments to be known it needs 3 MiB"),
        "{error}"
    );
}

#[test]
fn a_flow_that_goes_on_is_accounted_for_in_slices() {
    let active = Some(Duration::from_secs(60));
    let timeouts = Timeouts { active, ..Timeouts::default() };
    let mut bench = Bench::new(Settings { memory: 3 << 20, timeouts, ..Settings::default() });
    let tuple = tuple(1, 1);
    bench.establish(&tuple);
    for _ in 0..200 {
        bench.send(&packet(&tuple, ACK, 101, 501)).unwrap();
        bench.pass(1);
    }
    bench.send(&packet(&tuple, RST, 101, 0)).unwrap();
    bench.pass(20);
    let ends: Vec<End> = bench.accounts.iter().map(|account| account.end).collect();
    assert_eq!(ends, [End::Slice, End::Slice, End::Slice, End::Rst]);
    // Totals, so that one that gets lost is made up for by the next.
    let packets: Vec<u64> = bench.accounts.iter().map(|account| account.packets[0]).collect();
    assert!(packets.windows(2).take(2).all(|pair| (55..75).contains(&(pair[1] - pair[0]))), "{packets:?}");
    assert_eq!(bench.accounts[3].packets, [203, 1]);
    assert!(bench.accounts.iter().all(|account| account.start == bench.accounts[0].start));
}

#[test]
fn an_icmp_error_belongs_to_the_flow_it_quotes() {
    let mut bench = Bench::small();
    let inside = tuple(0x0a00_0001, 1000);
    let outside = Tuple { source: mapped([198, 51, 100, 1]), source_port: 6000, ..inside };
    let syn = packet(&inside, SYN, 100, 0);
    let opening = Opening {
        headers: &Headers::parse(&syn).unwrap(),
        ip: &syn,
        original: inside,
        reply: Some(outside.reversed()),
        ports: [0, 1],
        mark: 0,
    };
    let Ok(Inserted::New(hit)) = bench.worker.insert(&opening, bench.now) else { panic!() };
    assert!(hit.translated);
    let related = |bench: &mut Bench, quoted: &[u8]| {
        let quote = Headers::quoted(&quoted[..28]).unwrap();
        bench.worker.related(&quote, &quoted[..28], 0, 100 * SECOND).map(|hit| hit.direction)
    };
    // A router beyond the translation quotes what the translation made of the SYN; one before it,
    // the SYN itself.
    assert_eq!(related(&mut bench, &packet(&outside, SYN, 100, 0)), Some(Direction::Original));
    assert_eq!(related(&mut bench, &syn), Some(Direction::Original));
    let answer = packet(&outside.reversed(), SYN | ACK, 500, 101);
    let seen = bench.worker.find(&Key::of(&outside.reversed())).unwrap();
    assert_eq!(seen.direction, Direction::Reply);
    let answered = Headers::parse(&answer).unwrap();
    assert_eq!(
        bench.worker.track(&seen, &answered, &answer, bench.now, || true),
        Tracked::Is(State::Established)
    );
    assert_eq!(related(&mut bench, &packet(&inside.reversed(), ACK, 500, 101)), Some(Direction::Reply));
    // A blind attacker does not know what is under way.
    assert_eq!(related(&mut bench, &packet(&outside, ACK, 102, 0)), None);
    assert_eq!(related(&mut bench, &packet(&outside, ACK, 0x7000_0000, 0)), None);
    assert_eq!(related(&mut bench, &packet(&tuple(1, 1), ACK, 100, 0)), None);
}

#[test]
fn fragments_follow_their_first() {
    let mut bench = Bench::small();
    let first = Headers {
        source: mapped([10, 0, 0, 1]),
        destination: mapped([10, 0, 0, 2]),
        version: 4,
        protocol: protocol::UDP,
        source_port: 5,
        destination_port: 6,
        fragment: Fragment::First,
        fragment_id: 9,
        length: 1500,
        ..Headers::default()
    };
    let later = Headers { source_port: 0, destination_port: 0, fragment: Fragment::Later, ..first };
    assert_eq!(bench.worker.opens(&later, &[0; 40], || true), State::Invalid);
    assert_eq!(bench.worker.tuple(&later, 0, bench.now), None);
    let tuple = bench.worker.tuple(&first, 0, bench.now).unwrap();
    let opening =
        Opening { headers: &first, ip: &[0; 40], original: tuple, reply: None, ports: [0, 1], mark: 0 };
    assert!(matches!(bench.worker.insert(&opening, bench.now), Ok(Inserted::New(_))));
    let followed = bench.worker.tuple(&later, 0, bench.now + 29 * SECOND).unwrap();
    let hit = bench.worker.find(&Key::of(&followed)).unwrap();
    assert_eq!(bench.worker.track(&hit, &later, &[0; 40], bench.now, || true), Tracked::Is(State::New));
    assert_eq!(bench.worker.tuple(&later, 0, bench.now + 31 * SECOND), None);
}

#[test]
fn only_questions_open_icmp_flows() {
    let bench = Bench::small();
    let opens = |version: u8, protocol: u8, icmp_type: u8| {
        let headers = Headers { version, protocol, icmp_type, ..Headers::default() };
        bench.worker.opens(&headers, &[0; 40], || true) == State::New
    };
    let of =
        |version, protocol| (0..=255).filter(|kind| opens(version, protocol, *kind)).collect::<Vec<u8>>();
    assert_eq!(of(4, protocol::ICMP), [8, 13, 15, 17]);
    assert_eq!(of(6, protocol::ICMP6), [128]);
}

#[test]
fn a_table_with_one_flow_is_swept_whenever_somebody_comes_by() {
    for step in [7_000_001, 333_333_337, 5 * SECOND + 1] {
        let mut bench = Bench::small();
        bench.send(&packet(&tuple(1, 1), SYN, 1, 0)).unwrap();
        while bench.now < 400 * SECOND {
            bench.now += step;
            bench.maintain();
        }
        assert_eq!(bench.accounts.first().map(|account| account.end), Some(End::Idle), "steps of {step} ns");
    }
}

/// Whoever looks at the table seldom, such as the driver, keeps what has ended from being free:
/// room is made ahead of that.
#[test]
fn a_flood_finds_room_although_somebody_is_slow() {
    let mut bench = Bench::new(Settings { memory: 4 << 20, fragments: 64, ..Settings::default() });
    let mut slow = bench.table.worker().unwrap();
    let capacity = bench.table.capacity() as u32;
    let mut refused_late = 0;
    for number in 0..10 * capacity {
        let refused = bench.send(&packet(&tuple(0x0a00_0000 + number, 1), SYN, 100, 0)).is_err();
        refused_late += u32::from(refused && number > 3 * capacity);
        if number % 64 == 0 {
            bench.maintain();
        }
        if number % (capacity / 8) == 0 {
            slow.maintain(bench.now, &mut |_| {});
        }
    }
    assert!(refused_late < capacity / 4, "{refused_late} of {} found no room", 7 * capacity);
}
