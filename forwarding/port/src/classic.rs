//! Codes of classic BPF (linux/bpf_common.h), of which the filters of packet sockets are made.

/// Load 4 bytes at an offset.
pub const WORD: u16 = 0x20;
/// Load 2 bytes at an offset.
pub const HALF: u16 = 0x28;
/// Load 1 byte at an offset.
pub const BYTE: u16 = 0x30;
/// Note how long the header of IPv4 at an offset is.
pub const HEADER: u16 = 0xb1;
/// Load 2 bytes at an offset behind that header.
pub const HALF_BEHIND: u16 = 0x48;
/// Load 1 byte at an offset behind that header.
pub const BYTE_BEHIND: u16 = 0x50;
/// Jump by whether what was loaded is this.
pub const EQUAL: u16 = 0x15;
/// Jump by whether what was loaded has any of these bits.
pub const ANY_OF: u16 = 0x45;
/// So many bytes of the frame are received.
pub const RETURN: u16 = 0x06;
/// The offset at which a word says whether the frame has a tag, which Linux has taken off:
/// `SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT`.
pub const TAGGED: u32 = 0xffff_f000 + 48;
