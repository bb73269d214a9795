//! Control packets (RFC 5880, section 4.1): 24 bytes in a datagram of UDP, and behind them a
//! section that shows who sent them, if the session is authenticated.

/// The port of sessions with a neighbour on the link (RFC 5881, section 4).
pub const PORT: u16 = 3784;
/// The port of sessions over several hops (RFC 5883, section 5).
pub const PORT_MULTIHOP: u16 = 4784;
/// Source ports (RFC 5881, section 4).
pub const SOURCE_PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;
/// Bytes of a packet without authentication.
pub const LENGTH: usize = 24;

const VERSION: u8 = 1;
const POLL: u8 = 1 << 5;
const FINAL: u8 = 1 << 4;
const INDEPENDENT: u8 = 1 << 3;
const AUTHENTICATED: u8 = 1 << 2;
const DEMAND: u8 = 1 << 1;
const MULTIPOINT: u8 = 1;

/// The state of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// Somebody has switched it off.
    AdminDown = 0,
    /// Nothing was heard, or not for too long.
    #[default]
    Down = 1,
    /// The other end was heard, and has not said that it hears this one.
    Init = 2,
    /// Both hear each other.
    Up = 3,
}

impl State {
    pub(crate) const ALL: [State; 4] = [State::AdminDown, State::Down, State::Init, State::Up];

    /// The word that FRR has for it, too.
    pub const fn name(self) -> &'static str {
        match self {
            State::AdminDown => "admin-down",
            State::Down => "down",
            State::Init => "init",
            State::Up => "up",
        }
    }
}

/// Why a session last left the state up (RFC 5880, section 4.1): 0 to 31.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Diagnostic(pub u8);

impl Diagnostic {
    /// No reason.
    pub const NONE: Diagnostic = Diagnostic(0);
    /// Nothing was heard for the detection time.
    pub const EXPIRED: Diagnostic = Diagnostic(1);
    /// The other end said that it is down.
    pub const NEIGHBOUR_DOWN: Diagnostic = Diagnostic(3);
    /// Somebody has switched it off.
    pub const ADMIN_DOWN: Diagnostic = Diagnostic(7);

    /// In words.
    pub const fn words(self) -> &'static str {
        match self.0 {
            0 => "none",
            1 => "detection time expired",
            2 => "echo failed",
            3 => "neighbour signalled session down",
            4 => "forwarding plane reset",
            5 => "path down",
            6 => "concatenated path down",
            7 => "administratively down",
            8 => "reverse concatenated path down",
            _ => "reserved",
        }
    }
}

/// A packet. Intervals are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// The sender's state.
    pub state: State,
    /// Why it left the state up.
    pub diagnostic: Diagnostic,
    /// It asks whether its timers were understood.
    pub poll: bool,
    /// It answers that.
    pub is_final: bool,
    /// It goes on when its control plane does not.
    pub independent: bool,
    /// While both are up it wants to hear nothing but answers.
    pub demand: bool,
    /// How many intervals may pass without a packet; 1 and up.
    pub multiplier: u8,
    /// The sender's number for the session; 1 and up.
    pub mine: u32,
    /// The receiver's, if the sender knows it; else 0.
    pub yours: u32,
    /// The shortest interval at which the sender wants to send.
    pub min_tx: u32,
    /// The shortest interval at which it can hear; 0: it wants to hear nothing.
    pub min_rx: u32,
    /// The same of echo packets.
    pub min_echo_rx: u32,
}

/// A packet as it was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What it says.
    pub control: Control,
    /// As long as it says that it is; 24 bytes at least.
    bytes: &'a [u8],
}

impl<'a> Packet<'a> {
    /// All of it.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What stands behind the first 24 bytes, if the packet says that it is authenticated.
    pub(crate) fn authentication(&self) -> Option<&'a [u8]> {
        (self.bytes[1] & AUTHENTICATED != 0).then(|| &self.bytes[LENGTH..])
    }
}

/// Why a packet is discarded, whatever session it is for (RFC 5880, section 6.8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// Its length, or the one it says.
    #[error("it is of a wrong length")]
    Length,
    /// Not version 1.
    #[error("it is of version {0}")]
    Version(u8),
    /// No interval may pass without a packet.
    #[error("its multiplier is 0")]
    Multiplier,
    /// It is for many.
    #[error("it is for several receivers")]
    Multipoint,
    /// Its sender has no number.
    #[error("its sender has no discriminator")]
    NoSender,
    /// It is for no session that is known.
    #[error("it names no session, and does not begin one")]
    NoSession,
    /// It asks and answers at once.
    #[error("it has both poll and final set")]
    PollAndFinal,
}

/// Reads a packet.
///
/// # Errors
/// Why it is to be discarded.
pub fn parse(bytes: &[u8]) -> Result<Packet<'_>, Wrong> {
    let fixed: &[u8; LENGTH] = bytes.first_chunk().ok_or(Wrong::Length)?;
    let [first, second, multiplier, length, ..] = *fixed;
    if first >> 5 != VERSION {
        return Err(Wrong::Version(first >> 5));
    }
    let bytes = bytes.get(..length.into()).filter(|bytes| bytes.len() >= LENGTH).ok_or(Wrong::Length)?;
    if multiplier == 0 {
        return Err(Wrong::Multiplier);
    }
    if second & MULTIPOINT != 0 {
        return Err(Wrong::Multipoint);
    }
    if second & (POLL | FINAL) == POLL | FINAL {
        return Err(Wrong::PollAndFinal);
    }
    let word = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let state = State::ALL[usize::from(second >> 6)];
    let control = Control {
        state,
        diagnostic: Diagnostic(first & 31),
        poll: second & POLL != 0,
        is_final: second & FINAL != 0,
        independent: second & INDEPENDENT != 0,
        demand: second & DEMAND != 0,
        multiplier,
        mine: word(4),
        yours: word(8),
        min_tx: word(12),
        min_rx: word(16),
        min_echo_rx: word(20),
    };
    if control.mine == 0 {
        return Err(Wrong::NoSender);
    }
    if control.yours == 0 && matches!(state, State::Init | State::Up) {
        return Err(Wrong::NoSession);
    }
    Ok(Packet { control, bytes })
}

impl Control {
    /// Writes it, without authentication.
    pub fn emit(&self) -> [u8; LENGTH] {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(self.poll, POLL)
            | flag(self.is_final, FINAL)
            | flag(self.independent, INDEPENDENT)
            | flag(self.demand, DEMAND);
        let mut bytes = [0; LENGTH];
        bytes[0] = VERSION << 5 | self.diagnostic.0 & 31;
        bytes[1] = (self.state as u8) << 6 | flags;
        bytes[2] = self.multiplier;
        bytes[3] = LENGTH as u8;
        let words = [self.mine, self.yours, self.min_tx, self.min_rx, self.min_echo_rx];
        for (to, word) in bytes[4..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }
}

/// Has the first bytes of a packet say that a section follows, up to `length` bytes in all.
pub(crate) fn mark_authenticated(bytes: &mut [u8], length: usize) {
    bytes[1] |= AUTHENTICATED;
    bytes[3] = length as u8;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As FRR sends it: up, multiplier 3, 10 ms both ways.
    const CAPTURED: [u8; 24] = [
        0x20, 0xc8, 3, 24, 0x12, 0x34, 0x56, 0x78, 0, 0, 0, 7, 0, 0, 0x27, 0x10, 0, 0, 0x27, 0x10, 0, 0,
        0xc3, 0x50,
    ];

    #[test]
    fn a_packet_is_read_and_written() {
        let control = parse(&CAPTURED).unwrap().control;
        assert_eq!((control.state, control.independent, control.multiplier), (State::Up, true, 3));
        assert_eq!((control.mine, control.yours), (0x1234_5678, 7));
        assert_eq!((control.min_tx, control.min_rx, control.min_echo_rx), (10_000, 10_000, 50_000));
        assert_eq!(control.emit(), CAPTURED);
    }

    #[test]
    fn what_the_rfc_discards_is_discarded() {
        let with = |at: usize, byte: u8| {
            let mut bytes = CAPTURED;
            bytes[at] = byte;
            bytes
        };
        assert_eq!(parse(&CAPTURED[..23]), Err(Wrong::Length));
        assert_eq!(parse(&with(3, 23)), Err(Wrong::Length));
        assert_eq!(parse(&with(3, 25)), Err(Wrong::Length));
        assert_eq!(parse(&with(0, 0x40)), Err(Wrong::Version(2)));
        assert_eq!(parse(&with(2, 0)), Err(Wrong::Multiplier));
        assert_eq!(parse(&with(1, 0xc1)), Err(Wrong::Multipoint));
        assert_eq!(parse(&with(1, 0xf0)), Err(Wrong::PollAndFinal));
        assert_eq!(parse(&[&CAPTURED[..4], &[0; 4], &CAPTURED[8..]].concat()), Err(Wrong::NoSender));
        assert_eq!(parse(&with(11, 0)), Err(Wrong::NoSession));
        // Who is down may begin one.
        let mut down = with(11, 0);
        down[1] = 0x40;
        assert_eq!(parse(&down).map(|packet| packet.control.state), Ok(State::Down));
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_as_it_was(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            super::super::fuzz(&bytes);
        }
    }
}
