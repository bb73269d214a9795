//! Filters in tcpdump's language, as tcpdump compiles them: `tcpdump -y EN10MB -ddd 'tcp port 80'`
//! prints a program of classic BPF, a list of numbers.
//!
//! A program is read once and for all: afterwards there is no operation unknown, no jump that leads
//! nowhere, no division by a constant 0, and since jumps only lead forward, every program ends.
//! [`PacketFilter::matches`] runs it here; the programs in the driver get the same steps as code of
//! their own (`forwarding/port/src/copies/code.rs`).

use serde::{Deserialize, Serialize};

/// Steps of a program at most, as many as Linux allows.
pub const MOST_STEPS: usize = 4096;
/// Words of memory that a program has.
pub const WORDS: usize = 16;

/// One instruction of classic BPF: code, jumps if true and if false, and a number.
pub type Instruction = (u16, u8, u8, u32);

/// A program, known to be sound. In JSON it is its instructions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Instruction>", into = "Vec<Instruction>")]
pub struct PacketFilter {
    instructions: Vec<Instruction>,
    steps: Vec<Step>,
}

/// Why a program is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// Not what `tcpdump -ddd` prints.
    #[error("line {0} of the compiled filter is not one: {1:?}")]
    NotALine(usize, String),
    /// No steps, or too many.
    #[error("a filter has between 1 and {MOST_STEPS} steps, not {0}")]
    Length(usize),
    /// An operation that is none.
    #[error("step {0} of the filter is no operation of classic BPF: {1:#06x} {2}")]
    Operation(usize, u16, u32),
    /// A jump out of the program.
    #[error("step {0} of the filter leads out of it")]
    Jump(usize),
}

/// One step. There are two registers, A and X, and [`WORDS`] words of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A becomes this.
    LoadA(Value),
    /// X becomes this.
    LoadX(Value),
    /// A word of memory becomes A.
    StoreA(u8),
    /// A word of memory becomes X.
    StoreX(u8),
    /// A becomes the result. Division by an X of 0 ends the program: no match.
    Compute(Arithmetic, Operand),
    /// A becomes -A.
    Negate,
    /// On, so many steps behind the next one.
    Jump(u32),
    /// As [`Step::Jump`], by how A compares.
    Branch(Test, Operand, u8, u8),
    /// The end: whether the packet matches.
    Return(bool),
    /// The end: it matches unless A is 0.
    ReturnA,
    /// X becomes A.
    AToX,
    /// A becomes X.
    XToA,
}

/// What is loaded. Bytes that the packet does not have end the program: no match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Constant(u32),
    /// A word of memory.
    Memory(u8),
    /// The packet's length.
    Length,
    /// Bytes of the packet: where, and how many (1, 2 or 4).
    At(u32, u8),
    /// The same, X further behind.
    AtX(u32, u8),
    /// Four times the low half of a byte: the length of an IPv4 header.
    HeaderLength(u32),
}

/// What A is computed or compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A number.
    Constant(u32),
    /// X.
    X,
}

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are what they are")]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Or,
    And,
    Left,
    Right,
    Modulo,
    ExclusiveOr,
}

/// How A compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// They are equal.
    Equal,
    /// A is greater.
    Greater,
    /// A is not less.
    AtLeast,
    /// They have a bit in common.
    Common,
}

impl TryFrom<Vec<Instruction>> for PacketFilter {
    type Error = FilterError;

    fn try_from(instructions: Vec<Instruction>) -> Result<PacketFilter, FilterError> {
        let length = instructions.len();
        if length == 0 || length > MOST_STEPS {
            return Err(FilterError::Length(length));
        }
        let mut steps = Vec::with_capacity(length);
        for (at, &(code, yes, no, k)) in instructions.iter().enumerate() {
            let step = step(code, yes, no, k).ok_or(FilterError::Operation(at, code, k))?;
            let furthest = match step {
                Step::Return(_) | Step::ReturnA => None,
                Step::Jump(by) => Some(by as usize),
                Step::Branch(_, _, yes, no) => Some(usize::from(yes.max(no))),
                _ => Some(0),
            };
            if furthest.is_some_and(|by| at + 1 + by >= length) {
                return Err(FilterError::Jump(at));
            }
            steps.push(step);
        }
        Ok(PacketFilter { instructions, steps })
    }
}

impl From<PacketFilter> for Vec<Instruction> {
    fn from(filter: PacketFilter) -> Vec<Instruction> {
        filter.instructions
    }
}

fn step(code: u16, yes: u8, no: u8, k: u32) -> Option<Step> {
    let operand = if code & 0x08 == 0 { Operand::Constant(k) } else { Operand::X };
    let word = u8::try_from(k).ok().filter(|&word| usize::from(word) < WORDS);
    Some(match code {
        0x00 => Step::LoadA(Value::Constant(k)),
        0x20 => Step::LoadA(Value::At(k, 4)),
        0x28 => Step::LoadA(Value::At(k, 2)),
        0x30 => Step::LoadA(Value::At(k, 1)),
        0x40 => Step::LoadA(Value::AtX(k, 4)),
        0x48 => Step::LoadA(Value::AtX(k, 2)),
        0x50 => Step::LoadA(Value::AtX(k, 1)),
        0x60 => Step::LoadA(Value::Memory(word?)),
        0x80 => Step::LoadA(Value::Length),
        0x01 => Step::LoadX(Value::Constant(k)),
        0x61 => Step::LoadX(Value::Memory(word?)),
        0x81 => Step::LoadX(Value::Length),
        0xb1 => Step::LoadX(Value::HeaderLength(k)),
        0x02 => Step::StoreA(word?),
        0x03 => Step::StoreX(word?),
        0x84 => Step::Negate,
        0x05 => Step::Jump(k),
        0x06 => Step::Return(k != 0),
        0x16 => Step::ReturnA,
        0x07 => Step::AToX,
        0x87 => Step::XToA,
        _ => match (code & 7, code & 0xf0) {
            (4, operation) => {
                let operation = match operation {
                    0x00 => Arithmetic::Add,
                    0x10 => Arithmetic::Subtract,
                    0x20 => Arithmetic::Multiply,
                    0x30 if operand != Operand::Constant(0) => Arithmetic::Divide,
                    0x40 => Arithmetic::Or,
                    0x50 => Arithmetic::And,
                    0x60 if is_shift(operand) => Arithmetic::Left,
                    0x70 if is_shift(operand) => Arithmetic::Right,
                    0x90 if operand != Operand::Constant(0) => Arithmetic::Modulo,
                    0xa0 => Arithmetic::ExclusiveOr,
                    _ => return None,
                };
                Step::Compute(operation, operand)
            }
            (5, test) => {
                let test = match test {
                    0x10 => Test::Equal,
                    0x20 => Test::Greater,
                    0x30 => Test::AtLeast,
                    0x40 => Test::Common,
                    _ => return None,
                };
                Step::Branch(test, operand, yes, no)
            }
            _ => return None,
        },
    })
}

fn is_shift(operand: Operand) -> bool {
    !matches!(operand, Operand::Constant(32..))
}

impl PacketFilter {
    /// Reads what `tcpdump -ddd` prints: a count, then four numbers a line.
    pub fn parse(text: &str) -> Result<PacketFilter, FilterError> {
        let mut instructions = Vec::new();
        for (at, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = || FilterError::NotALine(at + 1, line.to_owned());
            let numbers: Vec<u32> =
                line.split_whitespace().map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
            let [code, yes, no, k] = numbers[..] else { return Err(wrong()) };
            let small = |number: u32| u8::try_from(number).map_err(|_| wrong());
            instructions.push((u16::try_from(code).map_err(|_| wrong())?, small(yes)?, small(no)?, k));
        }
        instructions.try_into()
    }

    /// The one that every packet matches.
    pub fn everything() -> PacketFilter {
        let end = (0x06, 0, 0, u32::MAX);
        PacketFilter { instructions: vec![end], steps: vec![Step::Return(true)] }
    }

    /// The program.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether a packet of so many bytes matches, of which these are there.
    pub fn matches(&self, bytes: &[u8], length: u32) -> bool {
        self.run(bytes, length).unwrap_or(false)
    }

    /// `None` when a step ended the program.
    fn run(&self, bytes: &[u8], length: u32) -> Option<bool> {
        let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; WORDS]);
        let mut at = 0;
        loop {
            let step = *self.steps.get(at)?;
            at += 1;
            let operand = |operand| match operand {
                Operand::Constant(k) => k,
                Operand::X => x,
            };
            let load = |value| match value {
                Value::Constant(k) => Some(k),
                Value::Memory(word) => Some(memory[usize::from(word)]),
                Value::Length => Some(length),
                Value::At(offset, size) => read(bytes, offset, size),
                Value::AtX(offset, size) => read(bytes, x.wrapping_add(offset), size),
                Value::HeaderLength(offset) => Some((read(bytes, offset, 1)? & 15) * 4),
            };
            match step {
                Step::LoadA(value) => a = load(value)?,
                Step::LoadX(value) => x = load(value)?,
                Step::StoreA(word) => memory[usize::from(word)] = a,
                Step::StoreX(word) => memory[usize::from(word)] = x,
                Step::Compute(operation, with) => a = compute(operation, a, operand(with))?,
                Step::Negate => a = a.wrapping_neg(),
                Step::Jump(by) => at += by as usize,
                Step::Branch(test, with, yes, no) => {
                    let with = operand(with);
                    let holds = match test {
                        Test::Equal => a == with,
                        Test::Greater => a > with,
                        Test::AtLeast => a >= with,
                        Test::Common => a & with != 0,
                    };
                    at += usize::from(if holds { yes } else { no });
                }
                Step::Return(verdict) => return Some(verdict),
                Step::ReturnA => return Some(a != 0),
                Step::AToX => x = a,
                Step::XToA => a = x,
            }
        }
    }
}

fn compute(operation: Arithmetic, a: u32, with: u32) -> Option<u32> {
    Some(match operation {
        Arithmetic::Add => a.wrapping_add(with),
        Arithmetic::Subtract => a.wrapping_sub(with),
        Arithmetic::Multiply => a.wrapping_mul(with),
        Arithmetic::Divide => a.checked_div(with)?,
        Arithmetic::Modulo => a.checked_rem(with)?,
        Arithmetic::Or => a | with,
        Arithmetic::And => a & with,
        Arithmetic::ExclusiveOr => a ^ with,
        Arithmetic::Left => a.checked_shl(with).unwrap_or(0),
        Arithmetic::Right => a.checked_shr(with).unwrap_or(0),
    })
}

fn read(bytes: &[u8], offset: u32, size: u8) -> Option<u32> {
    let found = bytes.get(offset as usize..)?.get(..usize::from(size))?;
    Some(found.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `tcpdump -y EN10MB -ddd 'tcp dst port 80'`
    const WEB: &str = "16
40 0 0 12
21 0 4 34525
48 0 0 20
21 0 11 6
40 0 0 56
21 8 9 80
21 0 8 2048
48 0 0 23
21 0 6 6
40 0 0 20
69 4 0 8191
177 0 0 14
72 0 0 16
21 0 1 80
6 0 0 262144
6 0 0 0
";

    fn frame(protocol: u8, port: u16) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        frame[23] = protocol;
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        frame
    }

    #[test]
    fn tcpdumps_programs_run() {
        let web = PacketFilter::parse(WEB).unwrap();
        assert!(web.matches(&frame(6, 80), 60));
        assert!(!web.matches(&frame(6, 81), 60));
        assert!(!web.matches(&frame(17, 80), 60));
        // What is not there does not match.
        assert!(!web.matches(&frame(6, 80)[..37], 60));
        assert!(PacketFilter::everything().matches(&[], 0));
    }

    #[test]
    fn it_is_its_instructions_in_json() {
        let web = PacketFilter::parse(WEB).unwrap();
        let json = serde_json::to_string(&web).unwrap();
        assert!(json.starts_with("[[40,0,0,12],[21,0,4,34525]"), "{json}");
        assert_eq!(serde_json::from_str::<PacketFilter>(&json).unwrap(), web);
        assert!(serde_json::from_str::<PacketFilter>("[[21,9,0,0],[6,0,0,0]]").is_err());
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let program = |code: &[Instruction]| PacketFilter::try_from(code.to_vec()).map(drop);
        assert_eq!(program(&[]), Err(FilterError::Length(0)));
        assert_eq!(program(&vec![(0x06, 0, 0, 0); 4097]), Err(FilterError::Length(4097)));
        assert_eq!(program(&[(0xff, 0, 0, 0)]), Err(FilterError::Operation(0, 0xff, 0)));
        assert_eq!(program(&[(0x00, 0, 0, 1)]), Err(FilterError::Jump(0)));
        assert_eq!(program(&[(0x05, 0, 0, u32::MAX), (0x06, 0, 0, 1)]), Err(FilterError::Jump(0)));
        assert_eq!(program(&[(0x34, 0, 0, 0), (6, 0, 0, 1)]), Err(FilterError::Operation(0, 0x34, 0)));
        assert_eq!(program(&[(0x64, 0, 0, 32), (6, 0, 0, 1)]), Err(FilterError::Operation(0, 0x64, 32)));
        assert_eq!(program(&[(0x60, 0, 0, 16), (6, 0, 0, 1)]), Err(FilterError::Operation(0, 0x60, 16)));
        assert!(matches!(PacketFilter::parse("1\n6 0 0"), Err(FilterError::NotALine(2, _))));
        assert!(matches!(PacketFilter::parse("tcpdump: syntax error"), Err(FilterError::Length(0))));
    }

    proptest! {
        #[test]
        fn every_program_ends(
            code in proptest::collection::vec((0u16..256, 0u8..8, 0u8..8, any::<u32>()), 1..64),
            bytes: Vec<u8>,
        ) {
            if let Ok(filter) = PacketFilter::try_from(code) {
                filter.matches(&bytes, bytes.len() as u32);
            }
        }
    }
}
