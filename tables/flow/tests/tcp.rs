//! TCP connections as the table sees them: traces written by hand, honest ends on a bad network,
//! and a plain model of the windows.

use flow::Direction::{self, Original, Reply};
use flow::Phase;
use flow::tcp::{Connection, Outcome, Segment};
use proptest::prelude::*;
use wire::tcp::flag::{ACK, FIN, PSH, RST, SYN};

fn segment(flags: u8, sequence: u32, acknowledgement: u32, length: u32) -> Segment {
    Segment { sequence, acknowledgement, window: 1000, length, flags, scale: None }
}

/// An open connection: the first end is at 101, the other at 501.
fn open() -> Connection {
    let mut connection = Connection::opened_by(&segment(SYN, 100, 0, 0), false).unwrap();
    assert_eq!(connection.phase, Phase::Opening);
    assert_eq!(connection.receive(Reply, &segment(SYN | ACK, 500, 101, 0)), Outcome::Valid);
    assert_eq!(connection.phase, Phase::Answered);
    assert_eq!(connection.receive(Original, &segment(ACK, 101, 501, 0)), Outcome::Valid);
    assert_eq!(connection.phase, Phase::Open);
    connection
}

/// Takes segments in turn, and says what each was and how far the connection is then.
fn trace(connection: &mut Connection, segments: &[(Direction, Segment)]) -> Vec<(Outcome, Phase)> {
    segments.iter().map(|(from, segment)| (connection.receive(*from, segment), connection.phase)).collect()
}

/// Nothing of the connection may change.
fn changes_nothing(connection: &Connection, from: Direction, segment: Segment, outcome: Outcome) {
    let mut after = *connection;
    assert_eq!(after.receive(from, &segment), outcome, "{segment:?}");
    assert_eq!((after.phase, after.sides), (connection.phase, connection.sides), "{segment:?}");
}

#[test]
fn a_connection_opens_talks_and_closes() {
    let mut connection = open();
    let seen = trace(
        &mut connection,
        &[
            (Original, segment(PSH | ACK, 101, 501, 10)),
            (Reply, segment(ACK, 501, 111, 0)),
            (Reply, segment(PSH | ACK, 501, 111, 900)),
            (Original, segment(FIN | ACK, 111, 1401, 0)),
            (Reply, segment(ACK, 1401, 112, 5)),
            (Reply, segment(FIN | ACK, 1406, 112, 0)),
            (Original, segment(ACK, 112, 1407, 0)),
            (Original, segment(ACK, 112, 1407, 0)),
        ],
    );
    let phases: Vec<Phase> = seen.iter().map(|(_, phase)| *phase).collect();
    assert!(seen.iter().all(|(outcome, _)| *outcome == Outcome::Valid), "{seen:?}");
    use Phase::{Closing, Finished, Open};
    assert_eq!(phases, [Open, Open, Open, Closing, Closing, Closing, Finished, Finished]);
    // A new one by the same ports, whoever begins it.
    changes_nothing(&connection, Original, segment(SYN, 9000, 0, 0), Outcome::Reopens);
    changes_nothing(&connection, Reply, segment(SYN, 9000, 0, 0), Outcome::Reopens);
    changes_nothing(&connection, Original, segment(SYN | ACK, 9000, 1, 0), Outcome::Invalid);
}

/// An open connection, in which the other end has sent so much, and this one nothing.
fn after_a_download(bytes: u32) -> Connection {
    let mut connection = open();
    for at in (501..).step_by(900).take_while(|at| *at < bytes) {
        assert_eq!(connection.receive(Reply, &segment(ACK, at, 101, 900)), Outcome::Valid);
        assert_eq!(connection.receive(Original, &segment(ACK, 101, at + 900, 0)), Outcome::Valid);
    }
    connection
}

/// What is too large for the way out is a worker's to fragment, and waits there while the driver
/// carries what is not.
#[test]
fn what_was_overtaken_is_of_the_connection_for_some_megabytes() {
    for (bytes, outcome) in [(2_000_000, Outcome::Valid), (5_000_000, Outcome::Invalid)] {
        let mut connection = after_a_download(bytes);
        assert_eq!(connection.receive(Original, &segment(ACK, 400, bytes, 600)), Outcome::Valid);
        assert_eq!(connection.receive(Original, &segment(ACK, 101, 501, 299)), outcome, "{bytes}");
    }
}

#[test]
fn a_fin_that_was_overtaken_still_counts() {
    let mut connection = after_a_download(5_000_000);
    // It was sent when nothing had come yet, and is exactly what comes next; a stranger's is not.
    changes_nothing(&connection, Original, segment(FIN | ACK, 102, 501, 0), Outcome::Invalid);
    assert_eq!(connection.receive(Original, &segment(FIN | ACK, 101, 501, 0)), Outcome::Valid);
    assert_eq!(connection.phase, Phase::Closing);
}

#[test]
fn both_ends_may_close_at_once() {
    let mut connection = open();
    let seen = trace(
        &mut connection,
        &[
            (Original, segment(FIN | ACK, 101, 501, 0)),
            (Reply, segment(FIN | ACK, 501, 101, 0)),
            (Original, segment(ACK, 102, 502, 0)),
            (Reply, segment(ACK, 502, 102, 0)),
        ],
    );
    use Phase::{Closing, Finished};
    assert_eq!(
        seen.iter().map(|(_, phase)| *phase).collect::<Vec<_>>(),
        [Closing, Closing, Closing, Finished]
    );
}

#[test]
fn both_ends_may_open_at_once() {
    let mut connection = Connection::opened_by(&segment(SYN, 100, 0, 0), false).unwrap();
    let seen = trace(
        &mut connection,
        &[
            (Reply, segment(SYN, 500, 0, 0)),
            (Original, segment(SYN | ACK, 100, 501, 0)),
            (Reply, segment(SYN | ACK, 500, 101, 0)),
            (Original, segment(ACK, 101, 501, 20)),
        ],
    );
    assert!(seen.iter().all(|(outcome, _)| *outcome == Outcome::Valid), "{seen:?}");
    assert_eq!(connection.phase, Phase::Open);
}

#[test]
fn a_syn_may_be_sent_again_and_with_another_number_before_the_answer() {
    let mut connection = Connection::opened_by(&segment(SYN, 100, 0, 0), false).unwrap();
    assert_eq!(connection.receive(Original, &segment(SYN, 100, 0, 0)), Outcome::Valid);
    assert_eq!(connection.receive(Original, &segment(SYN, 700_000, 0, 0)), Outcome::Valid);
    changes_nothing(&connection, Reply, segment(SYN | ACK, 500, 101, 0), Outcome::Invalid);
    assert_eq!(connection.receive(Reply, &segment(SYN | ACK, 500, 700_001, 0)), Outcome::Valid);
    // The answer was lost, so the question comes again; and so does the answer.
    changes_nothing(&connection, Original, segment(SYN, 700_000, 0, 0), Outcome::Ignored);
    assert_eq!(connection.receive(Reply, &segment(SYN | ACK, 500, 700_001, 0)), Outcome::Valid);
    assert_eq!(connection.receive(Original, &segment(ACK, 700_001, 501, 0)), Outcome::Valid);
    assert_eq!(connection.phase, Phase::Open);
}

#[test]
fn of_two_syns_with_numbers_near_each_other_either_may_be_answered() {
    for (first, second) in [(100, 7000), (7000, 100), (u32::MAX, 40)] {
        for answered in [first, second] {
            let mut connection = Connection::opened_by(&segment(SYN, first, 0, 0), false).unwrap();
            assert_eq!(connection.receive(Original, &segment(SYN, second, 0, 0)), Outcome::Valid);
            let next = answered.wrapping_add(1);
            assert_eq!(connection.receive(Reply, &segment(SYN | ACK, 500, next, 0)), Outcome::Valid);
            assert_eq!(connection.receive(Original, &segment(ACK, next, 501, 0)), Outcome::Valid);
            assert_eq!(connection.phase, Phase::Open);
        }
    }
}

#[test]
fn data_may_come_with_the_syn() {
    for taken in [101, 111] {
        let mut connection = Connection::opened_by(&segment(SYN, 100, 0, 10), false).unwrap();
        changes_nothing(&connection, Reply, segment(SYN | ACK, 500, 112, 0), Outcome::Invalid);
        assert_eq!(connection.receive(Reply, &segment(SYN | ACK, 500, taken, 0)), Outcome::Valid);
        assert_eq!(connection.receive(Reply, &segment(ACK, 501, taken, 40)), Outcome::Valid);
        assert_eq!(connection.receive(Original, &segment(ACK, 111, 541, 0)), Outcome::Valid);
        assert_eq!(connection.phase, Phase::Open);
    }
}

#[test]
fn who_does_not_see_the_answer_cannot_complete_the_opening() {
    let mut connection = Connection::opened_by(&segment(SYN, 100, 0, 0), false).unwrap();
    changes_nothing(&connection, Original, segment(ACK, 101, 501, 0), Outcome::Invalid);
    changes_nothing(&connection, Reply, segment(ACK, 500, 101, 0), Outcome::Ignored);
    connection.receive(Reply, &segment(SYN | ACK, 500, 101, 0));
    for guess in [0, 400, 499, 500, 502, 70_000, u32::MAX] {
        changes_nothing(&connection, Original, segment(ACK, 101, guess, 0), Outcome::Invalid);
    }
}

#[test]
fn a_refused_connection_is_over() {
    let connection = Connection::opened_by(&segment(SYN, 100, 0, 0), false).unwrap();
    for (sequence, acknowledgement) in [(0, 100), (0, 102), (0, 0), (77, 9999)] {
        changes_nothing(
            &connection,
            Reply,
            segment(RST | ACK, sequence, acknowledgement, 0),
            Outcome::Invalid,
        );
    }
    changes_nothing(&connection, Reply, segment(RST, 0, 101, 0), Outcome::Invalid);
    let mut refused = connection;
    assert_eq!(refused.receive(Reply, &segment(RST | ACK, 0, 101, 0)), Outcome::Valid);
    assert_eq!(refused.phase, Phase::Reset);
    for next in [segment(SYN, 200, 0, 0), segment(ACK, 101, 1, 0), segment(RST, 101, 0, 0)] {
        changes_nothing(&refused, Original, next, Outcome::Reopens);
    }
}

/// RFC 5961, 3.2.
#[test]
fn only_the_exact_reset_counts() {
    let mut connection = open();
    connection.receive(Original, &segment(ACK, 101, 501, 50));
    // What the other end has acknowledged, or what follows all that was sent.
    for exact in [101, 151] {
        let mut reset = connection;
        assert_eq!(reset.receive(Original, &segment(RST, exact, 0, 0)), Outcome::Valid);
        assert_eq!(reset.phase, Phase::Reset);
    }
    for inside in [102, 150, 152, 1101] {
        changes_nothing(&connection, Original, segment(RST, inside, 0, 0), Outcome::Ignored);
    }
    for outside in [100, 1102, 200_000, 0x8000_0000, 4_000_000_000] {
        changes_nothing(&connection, Original, segment(RST, outside, 0, 0), Outcome::Invalid);
    }
    changes_nothing(&connection, Original, segment(RST | ACK, 151, 502, 0), Outcome::Invalid);
    changes_nothing(&connection, Original, segment(RST | SYN, 151, 501, 0), Outcome::Invalid);
}

/// RFC 5961, 4.2: a host that has lost its connection gets a challenge, and resets it by that.
#[test]
fn a_syn_in_an_open_connection_is_left_to_the_ends() {
    let mut connection = open();
    let before = connection;
    assert_eq!(connection.receive(Original, &segment(SYN, 77_777, 0, 0)), Outcome::Ignored);
    assert_eq!((connection.phase, connection.sides), (before.phase, before.sides));
    assert_eq!(connection.receive(Reply, &segment(ACK, 501, 101, 0)), Outcome::Valid);
    assert_eq!(connection.receive(Original, &segment(RST, 101, 0, 0)), Outcome::Valid);
    assert_eq!(connection.phase, Phase::Reset);
}

/// Whoever boots again may take the ports that it had, and servers forget what is idle: NFS does so
/// with every reboot.
#[test]
fn a_connection_that_both_ends_have_lost_begins_anew() {
    let mut closing = open();
    closing.receive(Original, &segment(FIN | ACK, 101, 501, 0));
    for before in [open(), closing] {
        let answer = segment(SYN | ACK, 900_000_000, 200_000_001, 0);
        changes_nothing(&before, Reply, answer, Outcome::Ignored);
        let mut connection = before;
        assert_eq!(connection.receive(Original, &segment(SYN, 200_000_000, 0, 0)), Outcome::Ignored);
        assert_eq!((connection.phase, connection.sides), (before.phase, before.sides));
        // Nobody's question, and by the wrong side.
        changes_nothing(
            &connection,
            Reply,
            segment(SYN | ACK, 900_000_000, 200_000_002, 0),
            Outcome::Ignored,
        );
        changes_nothing(&connection, Original, answer, Outcome::Invalid);
        // Should the other end refuse, this end must hear of it.
        changes_nothing(&connection, Reply, segment(RST | ACK, 0, 200_000_001, 0), Outcome::Ignored);
        let seen = trace(
            &mut connection,
            &[
                (Reply, answer),
                (Reply, answer),
                (Original, segment(ACK, 200_000_001, 900_000_001, 0)),
                (Original, segment(ACK, 200_000_001, 900_000_001, 500)),
                (Reply, segment(ACK, 900_000_001, 200_000_501, 800)),
            ],
        );
        use Outcome::{Renewed, Valid};
        use Phase::{Answered, Open};
        let expected = [(Renewed, Answered), (Valid, Answered), (Valid, Open), (Valid, Open), (Valid, Open)];
        assert_eq!(seen, expected);
        changes_nothing(&connection, Original, segment(ACK, 101, 501, 0), Outcome::Invalid);
    }
}

#[test]
fn a_challenge_to_the_first_syn_passes_and_so_does_its_answer() {
    let mut connection = Connection::opened_by(&segment(SYN, 100, 0, 0), false).unwrap();
    changes_nothing(&connection, Original, segment(RST, 643_160_523, 0, 0), Outcome::Invalid);
    let challenge = segment(ACK, 145_824_453, 643_160_523, 0);
    changes_nothing(&connection, Reply, challenge, Outcome::Ignored);
    connection.receive(Reply, &challenge);
    changes_nothing(&connection, Original, segment(RST, 643_160_523, 0, 0), Outcome::Ignored);
    // Nobody is challenged but who asked.
    changes_nothing(&connection, Original, segment(ACK, 145_824_453, 643_160_523, 0), Outcome::Invalid);
    assert_eq!(connection.receive(Original, &segment(SYN, 100, 0, 0)), Outcome::Valid);
    assert_eq!(connection.receive(Reply, &segment(SYN | ACK, 500, 101, 0)), Outcome::Valid);
    assert_eq!(connection.phase, Phase::Answered);
}

#[test]
fn flags_that_contradict_each_other_are_of_no_connection() {
    let connection = open();
    for flags in [0, FIN, SYN | FIN, SYN | FIN | ACK, RST | FIN, SYN | RST, FIN | PSH | 0x20, 0xff] {
        changes_nothing(&connection, Original, segment(flags, 101, 501, 0), Outcome::Invalid);
        if flags & (SYN | ACK | FIN | RST) != SYN {
            assert_eq!(Connection::opened_by(&segment(flags, 1, 1, 0), true), None, "{flags}");
        }
    }
    assert_eq!(Connection::opened_by(&segment(ACK, 1, 1, 0), false), None);
}

#[test]
fn windows_are_scaled_if_both_ends_say_so() {
    let opening = |one: Option<u8>, two: Option<u8>| {
        let first = Segment { scale: one, window: 512, ..segment(SYN, 100, 0, 0) };
        let mut connection = Connection::opened_by(&first, false).unwrap();
        let answer = Segment { scale: two, window: 512, ..segment(SYN | ACK, 500, 101, 0) };
        assert_eq!(connection.receive(Reply, &answer), Outcome::Valid);
        let third = Segment { window: 512, ..segment(ACK, 101, 501, 0) };
        assert_eq!(connection.receive(Original, &third), Outcome::Valid);
        connection
    };
    // What the receiver of these segments has offered after its SYN is 512, scaled or not.
    let reaches = |connection: &Connection, offset: u32| {
        let mut connection = *connection;
        connection.receive(Reply, &segment(ACK, 501 + offset, 101, 1)) == Outcome::Valid
    };
    let scaled = opening(Some(7), Some(3));
    assert!(reaches(&scaled, 512 << 7) && !reaches(&scaled, (512 << 7) + 1));
    for (one, two) in [(None, None), (Some(7), None), (None, Some(7))] {
        let plain = opening(one, two);
        assert!(reaches(&plain, 512) && !reaches(&plain, 513), "{one:?} {two:?}");
    }
    // The window of a SYN is never scaled: 512 bytes, until the next segment offers more.
    let first = Segment { scale: Some(7), window: 512, ..segment(SYN, 100, 0, 0) };
    let mut connection = Connection::opened_by(&first, false).unwrap();
    connection.receive(Reply, &Segment { scale: Some(7), ..segment(SYN | ACK, 500, 101, 0) });
    assert!(reaches(&connection, 512) && !reaches(&connection, 513));
}

#[test]
fn a_connection_met_in_mid_stream_is_picked_up() {
    let mut connection = Connection::opened_by(&segment(ACK, 5000, 9000, 100), true).unwrap();
    assert_eq!(connection.phase, Phase::Answered);
    let seen = trace(
        &mut connection,
        &[
            (Original, segment(ACK, 5100, 9000, 100)),
            (Reply, segment(ACK, 9000, 5000, 0)),
            (Reply, segment(ACK, 9000, 5200, 1000)),
            (Original, segment(FIN | ACK, 5200, 10_000, 0)),
        ],
    );
    assert!(seen.iter().all(|(outcome, _)| *outcome == Outcome::Valid), "{seen:?}");
    assert_eq!(
        seen.iter().map(|(_, phase)| *phase).collect::<Vec<_>>(),
        [Phase::Answered, Phase::Open, Phase::Open, Phase::Closing]
    );
    changes_nothing(&connection, Reply, segment(RST, 12_345, 0, 0), Outcome::Ignored);
    assert_eq!(connection.receive(Reply, &segment(RST, 10_000, 0, 0)), Outcome::Valid);
    assert_eq!(connection.phase, Phase::Reset);
}

/// One end of an honest connection.
#[derive(Clone, Debug)]
struct End {
    /// Sent and acknowledged, next to send, next to receive.
    una: u32,
    next: u32,
    expected: u32,
    window: u32,
    scale: u8,
    /// On the way to the middle, and from there to the other end.
    out: Vec<Segment>,
    beyond: Vec<Segment>,
}

impl End {
    fn send(&mut self, flags: u8, sequence: u32, length: u32) {
        let window = (self.window >> self.scale) as u16;
        self.out.push(Segment {
            sequence,
            acknowledgement: self.expected,
            window,
            length,
            flags,
            scale: None,
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Honest ends on a network that loses, doubles and reorders: every segment is of the
    /// connection. And what a blind attacker sends meanwhile changes nothing.
    #[test]
    fn honest_segments_are_valid_and_blind_ones_are_not(
        starts in any::<[u32; 2]>(),
        windows in [1_000u32..200_000, 1_000u32..200_000],
        scales in [0u8..8, 0u8..8],
        events in proptest::collection::vec((0u8..8, any::<bool>(), any::<u32>(), any::<u32>()), 50..400),
    ) {
        let end = |side: usize| {
            let window = windows[side].min(65_535 << scales[side]) >> scales[side] << scales[side];
            let (una, expected) = (starts[side].wrapping_add(1), starts[1 - side].wrapping_add(1));
            End { una, next: una, expected, window, scale: scales[side], out: vec![], beyond: vec![] }
        };
        let mut ends = [end(0), end(1)];
        let syn = |side: usize, flags, acknowledgement| Segment {
            sequence: starts[side],
            acknowledgement,
            window: ends[side].window.min(65_535) as u16,
            length: 0,
            flags,
            scale: Some(scales[side]),
        };
        let mut connection = Connection::opened_by(&syn(0, SYN, 0), false).unwrap();
        prop_assert_eq!(connection.receive(Reply, &syn(1, SYN | ACK, starts[0].wrapping_add(1))), Outcome::Valid);
        ends[0].send(ACK, ends[0].next, 0);
        let third = ends[0].out.pop().unwrap();
        prop_assert_eq!(connection.receive(Original, &third), Outcome::Valid);
        for (event, second, number, other) in events {
            let side = usize::from(second);
            let from = if second { Reply } else { Original };
            let peer_window = ends[1 - side].window;
            let me = &mut ends[side];
            match event {
                // New data, as much as the other end has room for.
                0 | 1 => {
                    let room = peer_window.saturating_sub(me.next.wrapping_sub(me.una));
                    let length = room.min(number % 3000);
                    me.send(ACK | PSH, me.next, length);
                    me.next = me.next.wrapping_add(length);
                }
                // The oldest that is not acknowledged, again; or a keep-alive.
                2 => {
                    let (una, length) = (me.una, me.next.wrapping_sub(me.una).min(1460));
                    if length == 0 { me.send(ACK, una.wrapping_sub(1), 0) } else { me.send(ACK, una, length) }
                }
                // Past the middle, out of order; lost behind it, or doubled.
                3 | 4 if !me.out.is_empty() => {
                    let segment = me.out.remove(number as usize % me.out.len().min(3));
                    prop_assert_eq!(connection.receive(from, &segment), Outcome::Valid, "{:?} {:?}", connection, segment);
                    if other % 8 != 0 { me.beyond.push(segment) }
                    if other % 8 == 1 { me.beyond.push(segment) }
                }
                // Arrives.
                5 | 6 if !me.beyond.is_empty() => {
                    let segment = me.beyond.remove(0);
                    let peer = &mut ends[1 - side];
                    let behind = segment.sequence.wrapping_add(segment.length);
                    let new = behind.wrapping_sub(peer.expected) as i32 > 0 && segment.sequence.wrapping_sub(peer.expected) as i32 <= 0;
                    if new { peer.expected = behind }
                    if segment.acknowledgement.wrapping_sub(peer.una) as i32 > 0 { peer.una = segment.acknowledgement }
                    if segment.length > 0 { peer.send(ACK, peer.next, 0) }
                }
                // A blind attacker, whose numbers are far from right.
                _ => {
                    let far = |near: u32| near.wrapping_add(0x2000_0000 + number % 0xc000_0000);
                    let segment = Segment {
                        sequence: far(me.next),
                        acknowledgement: me.expected,
                        window: 65_535,
                        length: other % 1461,
                        flags: [ACK, RST, FIN | ACK, RST | ACK, SYN | ACK, SYN][other as usize % 6],
                        scale: None,
                    };
                    let before = connection;
                    let outcome = connection.receive(from, &segment);
                    prop_assert!(!matches!(outcome, Outcome::Valid | Outcome::Renewed));
                    // Of a SYN that is passed on its answer must be known, and whoever sends both
                    // knows the number.
                    connection.asked = 0;
                    prop_assert_eq!(before, connection);
                }
            }
        }
        prop_assert_eq!(connection.phase, Phase::Open);
    }

    /// The four bounds, from the whole history each time, with numbers that do not wrap.
    #[test]
    fn bounds_are_those_of_a_plain_model(
        base in any::<[u32; 2]>(),
        segments in proptest::collection::vec((any::<bool>(), 0i64..250_000, 0i64..250_000, any::<u16>(), 0u32..1500), 1..80),
    ) {
        let at = |side: usize, offset: i64| base[side].wrapping_add(offset as u32);
        let make = |side: usize, flags, sequence: i64, acknowledgement: i64, window, length| Segment {
            sequence: at(side, sequence), acknowledgement: at(1 - side, acknowledgement), window, length, flags, scale: None,
        };
        let mut connection = Connection::opened_by(&make(0, SYN, 0, 0, 60_000, 0), false).unwrap();
        connection.receive(Reply, &make(1, SYN | ACK, 0, 1, 60_000, 0));
        connection.receive(Original, &make(0, ACK, 1, 1, 60_000, 0));
        prop_assert_eq!(connection.phase, Phase::Open);
        // By side: (sequence, end, acknowledgement, window) of all that were valid.
        let mut history = [vec![(0i64, 1i64, 1i64, 60_000i64)], vec![(0, 1, 1, 60_000)]];
        for (second, sequence, acknowledgement, window, length) in segments {
            let (me, you) = (usize::from(second), usize::from(!second));
            let end = sequence + i64::from(length);
            let largest = |side: usize| history[side].iter().map(|seen| seen.3).max().unwrap().max(1);
            let sent = |side: usize| history[side].iter().map(|seen| seen.1).max().unwrap();
            let acknowledged = |side: usize| history[side].iter().map(|seen| seen.2).max().unwrap();
            let valid = sequence <= acknowledged(you) + largest(you)
                && end >= sent(me) - largest(you).max(66_000)
                && acknowledgement <= sent(you)
                && (sequence == sent(me) || acknowledgement >= sent(you) - largest(me).max(4 << 20));
            let from = if second { Reply } else { Original };
            let outcome = connection.receive(from, &make(me, ACK, sequence, acknowledgement, window, length));
            prop_assert_eq!(outcome == Outcome::Valid, valid);
            if valid {
                history[me].push((sequence, end, acknowledgement, i64::from(window)));
            }
        }
    }
}

/// While nobody looked it went on for longer than any window.
#[test]
fn a_connection_taken_up_again_goes_on_where_its_ends_are() {
    let far = 1_000_000_000_u32;
    let data = |sequence: u32| segment(ACK, sequence, 101, 1000);
    let acknowledges = |number: u32| segment(ACK, 101, number, 0);
    let news = [
        (Original, acknowledges(far)),
        (Reply, data(far)),
        (Original, acknowledges(far + 1000)),
        (Reply, data(far + 1000)),
    ];
    let mut connection = open();
    assert_eq!(trace(&mut connection, &news)[0].0, Outcome::Invalid);
    // Whichever speaks first, and though it says again what has been acknowledged long since.
    let again = (Reply, data(far - 1000));
    for segments in
        [&news[..], &news[1..], &[&[again], &news[..]].concat(), &[&news[..1], &[again], &news[..]].concat()]
    {
        let mut connection = open().resumed();
        let seen = trace(&mut connection, segments);
        assert!(seen.iter().all(|seen| *seen == (Outcome::Valid, Phase::Open)), "{segments:?}: {seen:?}");
        // And then nothing else is believed.
        changes_nothing(&connection, Reply, data(far + 1_000_000), Outcome::Invalid);
        changes_nothing(&connection, Original, acknowledges(far + 1_000_000), Outcome::Invalid);
    }
}

#[test]
fn a_connection_that_was_being_opened_may_be_open_by_now() {
    let mut opening = Connection::opened_by(&segment(SYN, 100, 0, 0), false).unwrap();
    let mut answered = opening;
    assert_eq!(answered.receive(Reply, &segment(SYN | ACK, 500, 101, 0)), Outcome::Valid);
    for connection in [&mut opening, &mut answered] {
        *connection = connection.resumed();
        // As good as open it is not before both have spoken: a flood of SYNs before the restart
        // holds no place after it.
        assert_eq!(connection.phase, Phase::Answered);
        for (from, said) in [
            (Reply, segment(PSH | ACK, 70_000, 9_000, 300)),
            (Original, segment(ACK, 9_000, 70_300, 10)),
            (Reply, segment(ACK, 70_300, 9_010, 0)),
        ] {
            assert_eq!(connection.receive(from, &said), Outcome::Valid, "{said:?}");
        }
        assert_eq!(connection.phase, Phase::Open);
        changes_nothing(connection, Reply, segment(RST, 70_299, 0, 0), Outcome::Invalid);
        changes_nothing(connection, Reply, segment(RST, 70_301, 0, 0), Outcome::Ignored);
    }
    // Or it goes on being opened.
    let mut connection = Connection::opened_by(&segment(SYN, 100, 0, 0), false).unwrap().resumed();
    let seen = trace(
        &mut connection,
        &[
            (Original, segment(SYN, 100, 0, 0)),
            (Reply, segment(SYN | ACK, 500, 101, 0)),
            (Original, segment(ACK, 101, 501, 0)),
        ],
    );
    let outcomes: Vec<Outcome> = seen.iter().map(|(outcome, _)| *outcome).collect();
    assert_eq!(outcomes, [Outcome::Ignored, Outcome::Valid, Outcome::Valid]);
    assert_eq!(connection.phase, Phase::Open);
}
