//! What an Ethernet frame says of what it carries (IEEE 802.3; IEEE 802.1Q).

constants! {
    types, "ETHERTYPE_";
    /// IPv4 (RFC 894).
    IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    ARP: u16 = 0x0806;
    /// IPv6 (RFC 2464).
    IPV6: u16 = 0x86dd;
    /// A tag of 802.1Q.
    VLAN: u16 = 0x8100;
    /// A tag of 802.1ad: a provider's.
    QINQ: u16 = 0x88a8;
}
