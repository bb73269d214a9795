//! What the words of the forwarding tables are made of.

numbered! {
    kinds, "KIND_", "KINDS";
    /// What a next hop does with a packet: the kind in its word.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum HopKind as "kind" {
        None "none" "No route.",
        Forward "forward" "To an adjacency.",
        Local "local" "To this machine.",
        Glean "glean" "To a host on a connected network whose neighbour entry is not known yet.",
        Blackhole "blackhole" "Drop silently.",
        Unreachable "unreachable" "Drop, and answer with ICMP host (address) unreachable.",
        Prohibit "prohibit" "Drop, and answer with ICMP administratively prohibited.",
        Punt "punt" "Linux forwards it.",
    }
}

constants! {
    words, "FIB_";
    /// Set in a word that points into its table; clear in a route word.
    POINTER: u32 = 1 << 31;
    /// With the pointer's bit: the line belongs to the next window.
    NEXT: u32 = 1 << 30;
    /// The bits of such a word that are the line's number.
    LINE: u32 = NEXT - 1;
    /// The bits of a route word that are the next hop's.
    ID: u32 = (1 << 22) - 1;
    /// Tables of routes at most, the main one among them.
    TABLES: u16 = 4096;
    /// Where the roots of the tables beside the main one stand among the words of IPv6's: two for
    /// each table, IPv4's first.
    ROOTS: u32 = 1 << 16;
    /// The bits of the half of a word that has an MTU which are that.
    MTU: u32 = (1 << 30) - 1;
    /// Words of a block of tags, one for each VLAN identifier.
    TAGS: u32 = 4096;
    /// Interfaces at most, the ports' own among them: a flow's entry has 14 bits for a number, and
    /// one says none.
    INTERFACES: u16 = 0x3fff;
}
