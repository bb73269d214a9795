//! The programs that copy: filters of classic BPF as code for the kernel, and a record for the ring
//! when one matched.
//!
//! Registers: R6 the context, R7 and R8 a filter's A and X, R9 the mask of filters that matched, R1
//! and R2 where the packet begins and ends, R3 its length. Nothing is called between a program's
//! beginning and the last filter's end, so all of them stay. A step of a filter becomes one to
//! seven instructions; a load asks for itself whether the packet has the bytes.

use std::os::fd::{AsRawFd, BorrowedFd};

use aya_obj::generated::bpf_insn;
use wire::capture::filter::{Arithmetic, Operand, Step, Test, Value, WORDS};

use super::{MOST, Want};

const CONTEXT: u8 = 6;
const A: u8 = 7;
const X: u8 = 8;
const MASK: u8 = 9;
const FRAME: u8 = 10;
const DATA: u8 = 1;
const END: u8 = 2;
const LENGTH: u8 = 3;

// On the stack: a filter's memory, the packet's length, a word to look for the mark, and the
// record's head.
const MEMORY: i16 = -(WORDS as i16) * 4;
const LENGTH_AT: i16 = MEMORY - 8;
const MARK_AT: i16 = LENGTH_AT - 8;
const HEAD_AT: i16 = MARK_AT - HEAD as i16;
/// Bytes of a record before the frame: time, mask, interface, length, direction.
pub(super) const HEAD: usize = 24;

const TAIL_CALL: i32 = 12;
const KTIME_GET_NS: i32 = 5;
const PERF_EVENT_OUTPUT: i32 = 25;
const XDP_GET_BUFF_LEN: i32 = 188;
const XDP_LOAD_BYTES: i32 = 189;
/// `BPF_F_CURRENT_CPU`.
const THIS_CPU: i32 = -1;
const XDP_PASS: i32 = 2;
/// `TCX_NEXT`.
const NEXT: i32 = -1;
/// The furthest that a filter may look into a packet by what it computes.
const FURTHEST: i32 = 0xfff0;

/// Which way a copied packet was going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    In,
    Out,
}

/// Where a program stands.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    /// In front of a port's program, to which it goes on: the array that has it, and where. Frames
    /// that end with the mark, if it is not 0, were here before.
    Front { onward: BorrowedFd<'a>, at: u32, mark: u32 },
    /// Behind a redirect, before the frame leaves.
    Redirected,
    /// Behind Linux's stack.
    Stack,
}

#[derive(Clone, Copy)]
struct Label(usize);

#[derive(Default)]
struct Code {
    code: Vec<bpf_insn>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

/// The program for a place and those who watch there; `None` when it would be too long.
pub(crate) fn program(place: Place<'_>, rings: BorrowedFd<'_>, wants: &[&Want]) -> Option<Vec<bpf_insn>> {
    let mut code = Code::default();
    let leave = code.label();
    code.begin(place, leave);
    wants.iter().for_each(|want| code.filter(want));
    code.op(0x15, MASK, 0, 0, 0); // if MASK == 0
    code.jump_to(leave);
    code.record(place, rings, wants.iter().map(|want| want.snap).max().unwrap_or(0).min(MOST));
    code.put(leave);
    match place {
        Place::Front { onward, at, .. } => {
            code.op(0xbf, 1, CONTEXT, 0, 0);
            code.map(2, onward);
            code.op(0xb7, 3, 0, 0, at as i32);
            code.op(0x85, 0, 0, 0, TAIL_CALL);
            code.op(0xb7, 0, 0, 0, XDP_PASS);
        }
        Place::Redirected => code.op(0xb7, 0, 0, 0, XDP_PASS),
        Place::Stack => code.op(0xb7, 0, 0, 0, NEXT),
    }
    code.op(0x95, 0, 0, 0, 0);
    code.finish()
}

impl Code {
    fn op(&mut self, code: u8, to: u8, from: u8, off: i16, imm: i32) {
        let registers = bpf_insn::new_bitfield_1(to, from);
        self.code.push(bpf_insn { code, _bitfield_align_1: [], _bitfield_1: registers, off, imm });
    }

    fn map(&mut self, to: u8, map: BorrowedFd<'_>) {
        // BPF_PSEUDO_MAP_FD; the second half of a 64-bit number follows.
        self.op(0x18, to, 1, 0, map.as_raw_fd());
        self.op(0, 0, 0, 0, 0);
    }

    fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    fn put(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// The last instruction is a jump to there.
    fn jump_to(&mut self, label: Label) {
        self.jumps.push((self.code.len() - 1, label));
    }

    fn finish(mut self) -> Option<Vec<bpf_insn>> {
        for (at, label) in self.jumps {
            let to = self.labels[label.0]?;
            self.code[at].off = i16::try_from(to - at - 1).ok()?;
        }
        Some(self.code)
    }

    fn begin(&mut self, place: Place<'_>, leave: Label) {
        self.op(0xbf, CONTEXT, 1, 0, 0);
        match place {
            Place::Stack => self.op(0x61, 0, CONTEXT, 0, 0), // __sk_buff.len
            _ => self.op(0x85, 0, 0, 0, XDP_GET_BUFF_LEN),
        }
        self.op(0x7b, FRAME, 0, LENGTH_AT, 0);
        if let Place::Front { mark, .. } = place
            && mark != 0
        {
            let new = self.label();
            self.op(0x25, 0, 0, 0, 3); // if length > 3, it may be marked
            let long = self.label();
            self.jump_to(long);
            self.op(0x05, 0, 0, 0, 0);
            self.jump_to(new);
            self.put(long);
            self.op(0xbf, 1, CONTEXT, 0, 0);
            self.op(0xbf, 2, 0, 0, 0);
            self.op(0x17, 2, 0, 0, 4);
            self.op(0xbf, 3, FRAME, 0, 0);
            self.op(0x07, 3, 0, 0, MARK_AT.into());
            self.op(0xb7, 4, 0, 0, 4);
            self.op(0x85, 0, 0, 0, XDP_LOAD_BYTES);
            self.op(0x55, 0, 0, 0, 0);
            self.jump_to(new);
            self.op(0x61, 1, FRAME, MARK_AT, 0);
            self.op(0x16, 1, 0, 0, mark as i32);
            self.jump_to(leave);
            self.put(new);
        }
        self.op(0xb7, MASK, 0, 0, 0);
        let (data, end) = if matches!(place, Place::Stack) { (76, 80) } else { (0, 4) };
        self.op(0x61, DATA, CONTEXT, data, 0);
        self.op(0x61, END, CONTEXT, end, 0);
        self.op(0x79, LENGTH, FRAME, LENGTH_AT, 0);
    }

    /// Sets the want's bit when its filter matches.
    fn filter(&mut self, want: &Want) {
        let steps: Vec<Step> = want.filter.steps().iter().map(|&step| bounded(step)).collect();
        // The kernel refuses code that cannot be reached.
        let reached = reached(&steps);
        let ends =
            |wanted: &[Step]| steps.iter().zip(&reached).any(|(step, &at)| at && wanted.contains(step));
        if !ends(&[Step::Return(true), Step::ReturnA]) {
            return;
        }
        let labels: Vec<Label> = steps.iter().map(|_| self.label()).collect();
        let (hit, miss) = (self.label(), self.label());
        self.op(0xb4, A, 0, 0, 0);
        self.op(0xb4, X, 0, 0, 0);
        if steps
            .iter()
            .any(|step| matches!(step, Step::LoadA(Value::Memory(_)) | Step::LoadX(Value::Memory(_))))
        {
            (0..WORDS as i16).for_each(|word| self.op(0x62, FRAME, 0, MEMORY + word * 4, 0));
        }
        for (at, &step) in steps.iter().enumerate().filter(|(at, _)| reached[*at]) {
            self.put(labels[at]);
            self.step(step, &labels[at + 1..], hit, miss);
        }
        self.put(hit);
        self.op(0x44, MASK, 0, 0, (1u32 << want.slot) as i32);
        self.put(miss);
    }

    /// `after[n]` is n steps behind the next one.
    fn step(&mut self, step: Step, after: &[Label], hit: Label, miss: Label) {
        match step {
            Step::LoadA(value) => self.load(A, value, miss),
            Step::LoadX(value) => self.load(X, value, miss),
            Step::StoreA(word) => self.op(0x63, FRAME, A, MEMORY + i16::from(word) * 4, 0),
            Step::StoreX(word) => self.op(0x63, FRAME, X, MEMORY + i16::from(word) * 4, 0),
            Step::Compute(operation, with) => self.compute(operation, with, miss),
            Step::Negate => self.op(0x84, A, 0, 0, 0),
            Step::Jump(by) => self.jump(after[by as usize]),
            Step::Branch(test, with, yes, no) => {
                let test = match test {
                    Test::Equal => 0x16,
                    Test::Greater => 0x26,
                    Test::AtLeast => 0x36,
                    Test::Common => 0x46,
                };
                match with {
                    Operand::Constant(k) => self.op(test, A, 0, 0, k as i32),
                    Operand::X => self.op(test | 0x08, A, X, 0, 0),
                }
                self.jump_to(after[usize::from(yes)]);
                if no != 0 {
                    self.jump(after[usize::from(no)]);
                }
            }
            Step::Return(verdict) => self.jump(if verdict { hit } else { miss }),
            Step::ReturnA => {
                self.op(0x16, A, 0, 0, 0);
                self.jump_to(miss);
                self.jump(hit);
            }
            Step::AToX => self.op(0xbc, X, A, 0, 0),
            Step::XToA => self.op(0xbc, A, X, 0, 0),
        }
    }

    fn jump(&mut self, label: Label) {
        self.op(0x05, 0, 0, 0, 0);
        self.jump_to(label);
    }

    fn load(&mut self, to: u8, value: Value, miss: Label) {
        match value {
            Value::Constant(k) => self.op(0xb4, to, 0, 0, k as i32),
            Value::Memory(word) => self.op(0x61, to, FRAME, MEMORY + i16::from(word) * 4, 0),
            Value::Length => self.op(0xbc, to, LENGTH, 0, 0),
            Value::At(offset, size) => self.fixed(to, offset, size, miss),
            Value::AtX(offset, size) => {
                self.op(0xbc, 4, X, 0, 0);
                self.op(0x04, 4, 0, 0, offset as i32);
                self.op(0x25, 4, 0, 0, FURTHEST);
                self.jump_to(miss);
                self.op(0xbf, 0, DATA, 0, 0);
                self.op(0x0f, 0, 4, 0, 0);
                self.op(0xbf, 5, 0, 0, 0);
                self.op(0x07, 5, 0, 0, size.into());
                self.op(0x2d, 5, END, 0, 0);
                self.jump_to(miss);
                self.bytes(to, 0, 0, size);
            }
            Value::HeaderLength(offset) => {
                self.fixed(to, offset, 1, miss);
                self.op(0x54, to, 0, 0, 15);
                self.op(0x64, to, 0, 0, 2);
            }
        }
    }

    /// The offset is one that `bounded` has let pass.
    fn fixed(&mut self, to: u8, offset: u32, size: u8, miss: Label) {
        self.op(0xbf, 4, DATA, 0, 0);
        self.op(0x07, 4, 0, 0, offset as i32 + i32::from(size));
        self.op(0x2d, 4, END, 0, 0);
        self.jump_to(miss);
        self.bytes(to, 4, -i16::from(size), size);
    }

    /// Reads bytes as a number in the order of the network.
    fn bytes(&mut self, to: u8, from: u8, off: i16, size: u8) {
        let code = match size {
            1 => 0x71,
            2 => 0x69,
            _ => 0x61,
        };
        self.op(code, to, from, off, 0);
        if size > 1 {
            self.op(0xdc, to, 0, 0, i32::from(size) * 8);
        }
    }

    fn compute(&mut self, operation: Arithmetic, with: Operand, miss: Label) {
        let code = match operation {
            Arithmetic::Add => 0x04,
            Arithmetic::Subtract => 0x14,
            Arithmetic::Multiply => 0x24,
            Arithmetic::Divide => 0x34,
            Arithmetic::Or => 0x44,
            Arithmetic::And => 0x54,
            Arithmetic::Left => 0x64,
            Arithmetic::Right => 0x74,
            Arithmetic::Modulo => 0x94,
            Arithmetic::ExclusiveOr => 0xa4,
        };
        match (with, operation) {
            (Operand::Constant(k), _) => return self.op(code, A, 0, 0, k as i32),
            (Operand::X, Arithmetic::Divide | Arithmetic::Modulo) => {
                self.op(0x16, X, 0, 0, 0);
                self.jump_to(miss);
            }
            (Operand::X, Arithmetic::Left | Arithmetic::Right) => {
                let (small, done) = (self.label(), self.label());
                self.op(0xa6, X, 0, 0, 32); // if X < 32
                self.jump_to(small);
                self.op(0xb4, A, 0, 0, 0);
                self.jump(done);
                self.put(small);
                self.op(code | 0x08, A, X, 0, 0);
                return self.put(done);
            }
            _ => {}
        }
        self.op(code | 0x08, A, X, 0, 0);
    }

    /// Puts the head and the frame's first bytes into this processor's ring.
    fn record(&mut self, place: Place<'_>, rings: BorrowedFd<'_>, snap: u32) {
        self.op(0x85, 0, 0, 0, KTIME_GET_NS);
        self.op(0x7b, FRAME, 0, HEAD_AT, 0);
        self.op(0x63, FRAME, MASK, HEAD_AT + 8, 0);
        let interface = match place {
            Place::Front { .. } => 12,
            Place::Redirected => 20,
            Place::Stack => 40,
        };
        self.op(0x61, 1, CONTEXT, interface, 0);
        self.op(0x63, FRAME, 1, HEAD_AT + 12, 0);
        self.op(0x79, 3, FRAME, LENGTH_AT, 0);
        self.op(0x63, FRAME, 3, HEAD_AT + 16, 0);
        let direction = if matches!(place, Place::Front { .. }) { Direction::In } else { Direction::Out };
        self.op(0x62, FRAME, 0, HEAD_AT + 20, direction as i32);
        let short = self.label();
        self.op(0xb5, 3, 0, 0, snap as i32); // if length <= snap
        self.jump_to(short);
        self.op(0xb7, 3, 0, 0, snap as i32);
        self.put(short);
        // Flags: how much of the packet, and the ring of this processor.
        self.op(0x67, 3, 0, 0, 32);
        self.op(0xb4, 4, 0, 0, THIS_CPU);
        self.op(0x4f, 3, 4, 0, 0);
        self.op(0xbf, 1, CONTEXT, 0, 0);
        self.map(2, rings);
        self.op(0xbf, 4, FRAME, 0, 0);
        self.op(0x07, 4, 0, 0, HEAD_AT.into());
        self.op(0xb7, 5, 0, 0, HEAD as i32);
        self.op(0x85, 0, 0, 0, PERF_EVENT_OUTPUT);
    }
}

/// What looks further than any packet goes matches none.
fn bounded(step: Step) -> Step {
    match step {
        Step::LoadA(Value::At(offset, _))
        | Step::LoadX(Value::At(offset, _) | Value::HeaderLength(offset))
            if offset > FURTHEST as u32 =>
        {
            Step::Return(false)
        }
        step => step,
    }
}

/// Which steps can be reached; jumps only lead forward.
fn reached(steps: &[Step]) -> Vec<bool> {
    let mut reached = vec![false; steps.len()];
    reached[0] = true;
    for (at, step) in steps.iter().enumerate() {
        if !reached[at] {
            continue;
        }
        match *step {
            Step::Return(_) | Step::ReturnA => {}
            Step::Jump(by) => reached[at + 1 + by as usize] = true,
            Step::Branch(_, _, yes, no) => {
                reached[at + 1 + usize::from(yes)] = true;
                reached[at + 1 + usize::from(no)] = true;
            }
            _ => reached[at + 1] = true,
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::process::Command;

    use fib::PortId;
    use wire::capture::PacketFilter;

    use super::super::{Rings, SLOTS};
    use super::*;
    use crate::bpf::sys::{self, Run, Shape};

    const EXPRESSIONS: [&str; 14] = [
        "",
        "icmp",
        "host 10.0.0.1",
        "net 10.0.0.0/8 or port 53",
        "not arp and greater 70",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "ip[2:2] - ((ip[0]&0xf)<<2) > 40",
        "ip[9] << (ip[1] & 63) = 34 or ip[9] >> (ip[1] & 63) = 1",
        "ether[20] / ip[8] = 3 or ether[21] % ip[8] = 1",
        "udp[4:2] % 3 = 1 or ip[20:4] ^ ip[24:4] > 0x7fffffff",
        "ip[ip[8]] = ip[ip[8]:2] or ether[-ip[8]:4] = 7",
        "ip6 proto 6",
        "vlan 5 and ip",
        "ether[60000] = 1 or ether[0:4] = 4294967295",
    ];

    fn compiled(expression: &str) -> PacketFilter {
        let output =
            Command::new("tcpdump").args(["-y", "EN10MB", "-ddd", "--", expression]).output().unwrap();
        assert!(output.status.success(), "{expression}: {}", String::from_utf8_lossy(&output.stderr));
        PacketFilter::parse(&String::from_utf8_lossy(&output.stdout)).unwrap()
    }

    /// Frames of every kind of header and length, from a row of numbers that is always the same.
    fn frames(count: usize) -> Vec<Vec<u8>> {
        let mut random = chance::Random(4);
        let mut next = move || random.next() as usize >> 1;
        let frame = |_| {
            let mut frame: Vec<u8> = (0..14 + next() % 110).map(|_| next() as u8).collect();
            let types: [[u8; 2]; 5] = [[8, 0], [8, 0], [0x86, 0xdd], [8, 6], [0x81, 0]];
            frame[12..14].copy_from_slice(&types[next() % 5]);
            for (at, values) in [
                (14, &[0x45, 0x45, 0x46, 0x60][..]),
                (20, &[0, 0, 0x20, 6]),
                (21, &[0, 0, 1]),
                (22, &[0, 1, 8, 64, 255]),
                (23, &[1, 6, 17, 132]),
                (26, &[10]),
                (27, &[0, 1]),
                (28, &[0]),
                (29, &[1, 2]),
                (37, &[53, 179, 80]),
            ] {
                if next() % 4 != 0
                    && let Some(byte) = frame.get_mut(at)
                {
                    *byte = values[next() % values.len()];
                }
            }
            frame
        };
        (0..count).map(frame).collect()
    }

    /// Runs a program on frames; for each the mask of filters that matched, as the ring has it.
    fn masks(wants: &[&Want], mark: u32, frames: &[Vec<u8>]) -> Vec<Option<u32>> {
        let mut rings = Rings::new().unwrap();
        let onward =
            sys::map_create("onward", Shape { kind: 3, key: 4, value: 4, entries: 2, flags: 0 }).unwrap();
        let place = Place::Front { onward: onward.as_fd(), at: 1, mark };
        let code = program(place, rings.as_fd(), wants).unwrap();
        let loaded = sys::prog_load(
            "copy",
            sys::PROG_XDP,
            sys::XDP_HAS_FRAGS,
            sys::ATTACH_XDP,
            c"Dual MIT/GPL",
            &code,
        );
        let loaded = loaded.unwrap();
        let one = |frame: &Vec<u8>| {
            let run = Run { data: frame, ifindex: 1, queue: 0, repeat: 1, live: false, batch: 0 };
            let action = sys::prog_run(loaded.as_fd(), &run, &mut Vec::new()).unwrap();
            assert_eq!(action, XDP_PASS as u32, "where nobody is, Linux is");
            let mut found = None;
            let lost = rings.read(|copy| {
                assert_eq!((copy.length as usize, copy.outgoing, copy.ifindex), (frame.len(), false, 1));
                let snap = wants.iter().map(|want| want.snap as usize).max().unwrap();
                assert_eq!(copy.bytes, &frame[..frame.len().min(snap)]);
                assert!(found.replace(copy.slots).is_none(), "copied twice");
            });
            assert_eq!(lost, 0);
            found
        };
        frames.iter().map(one).collect()
    }

    fn want(slot: u32, filter: PacketFilter, snap: u32) -> Want {
        Want { slot, filter, ports: vec![PortId(0)], incoming: true, outgoing: false, snap }
    }

    /// Eight at a time, as many as there may be.
    #[test]
    fn the_kernel_runs_filters_as_we_do() {
        let frames = frames(3000);
        let filters = EXPRESSIONS.map(compiled);
        let mut hits = vec![0; filters.len()];
        for (group, filters) in filters.chunks(8).enumerate() {
            let slot = |at: usize| SLOTS - 1 - at as u32;
            let wants: Vec<Want> = (filters.iter().enumerate())
                .map(|(at, filter)| want(slot(at), filter.clone(), if at == 0 { 40 } else { 60 }))
                .collect();
            let masks = masks(&wants.iter().collect::<Vec<_>>(), 0, &frames);
            for (frame, mask) in frames.iter().zip(masks) {
                for (at, filter) in filters.iter().enumerate() {
                    let matched = mask.unwrap_or(0) & 1 << slot(at) != 0;
                    let expression = EXPRESSIONS[group * 8 + at];
                    let ours = filter.matches(frame, frame.len() as u32);
                    assert_eq!(matched, ours, "{expression}: {frame:02x?}");
                    hits[group * 8 + at] += u32::from(matched);
                }
                assert_ne!(mask, Some(0));
            }
        }
        let never: Vec<_> = EXPRESSIONS.iter().zip(&hits).filter(|(_, hits)| **hits == 0).collect();
        assert!(
            never.iter().all(
                |(expression, _)| expression.starts_with("vlan") || expression.starts_with("ether[60000")
            ),
            "{never:?}"
        );
    }

    #[test]
    fn a_frame_with_the_mark_was_here_before() {
        let all = want(3, PacketFilter::everything(), 1000);
        let mut frames = frames(2);
        frames[0].extend(0x1234_5679u32.to_ne_bytes());
        assert_eq!(masks(&[&all], 0x1234_5679, &frames), [None, Some(1 << 3)]);
        assert_eq!(masks(&[&all], 0, &frames), [Some(1 << 3); 2]);
    }

    #[test]
    fn programs_of_odd_shape_are_loaded_too() {
        let odd = |code: &[(u16, u8, u8, u32)]| want(0, code.to_vec().try_into().unwrap(), 60);
        let frames = frames(3);
        // Nothing leads to the second step; nothing matches; memory; a jump over all.
        for (code, hits) in [
            (&[(0x06, 0, 0, 1), (0x06, 0, 0, 0)][..], true),
            (&[(0x06, 0, 0, 0)], false),
            (
                &[
                    (0x01, 0, 0, 9),
                    (0x03, 0, 0, 15),
                    (0x60, 0, 0, 15),
                    (0x15, 0, 1, 9),
                    (6, 0, 0, 1),
                    (6, 0, 0, 0),
                ],
                true,
            ),
            (&[(0x60, 0, 0, 3), (0x16, 0, 0, 0)], false),
            (&[(0x05, 0, 0, 1), (0x06, 0, 0, 0), (0x06, 0, 0, 5)], true),
            (&[(0x20, 0, 0, 70_000), (0x06, 0, 0, 5)], false),
            (&[(0x01, 0, 0, u32::MAX), (0x40, 0, 0, 1), (0x06, 0, 0, 5)], true),
        ] {
            let masks = masks(&[&odd(code)], 0, &frames);
            assert_eq!(masks, [hits.then_some(1); 3], "{code:?}");
        }
    }
}
