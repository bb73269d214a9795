//! Policing classes, and the ports that make a packet one of a class.

numbered! {
    c, "CLASS_", "CLASSES";
    /// What a packet handed to Linux is about, so that a flood of one kind cannot starve another.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Class as "police_class" {
        Routing "routing" "What keeps the router connected: routing protocols, VRRP, BFD, group membership, LLDP and other non-IP.",
        Management "management" "How it is managed: SSH, SNMP, NETCONF, DNS, NTP, DHCP, RADIUS, TACACS+, HTTP(S).",
        Icmp "icmp" "ICMP and ICMPv6, neighbour discovery excepted.",
        Rest "rest" "Everything else for this machine.",
        Unresolved "unresolved" "Transit whose neighbour Linux is to resolve.",
        Transit "transit" "Transit that Linux forwards: options, routes by interfaces that are no ports, frames with tags or for other link addresses, multicast, and what a filter of Linux is to see.",
        Neighbour "neighbour" "Who has which address on the link: ARP, neighbour discovery.",
    }
}

/// Ports by the protocol that they are of; `near` are those of UDP that only a neighbour may send
/// to (TTL 255).
macro_rules! port_tests {
    ($($(#[$doc:meta])* $function:ident as $c:literal:
        both [$($both:literal),*], tcp [$($tcp:literal),*], udp [$($udp:literal),*], near [$($near:literal),*];)*) => {
        $(
            $(#[$doc])*
            #[inline]
            pub const fn $function(protocol: u8, ttl: u8, port: u16) -> bool {
                (false $(|| port == $both)*)
                    || protocol == crate::protocol::TCP && (false $(|| port == $tcp)*)
                    || protocol == crate::protocol::UDP
                        && ((false $(|| port == $udp)*) || ttl == 255 && (false $(|| port == $near)*))
            }
        )*

        /// The same in C.
        pub(crate) fn ports() -> String {
            [$(in_c($c, &[$($both),*], &[$($tcp),*], &[$($udp),*], &[$($near),*])),*].concat()
        }
    };
}

port_tests! {
    /// Whether a port is a routing protocol's: BGP, LDP; RIP, RIPng, BFD (single hop, echo,
    /// multihop, on LAGs: RFC 5881, 5883, 7130; seamless BFD 7784 is not). BFD of one hop comes
    /// from a neighbour: what a router has passed on has lost a hop (RFC 5881, 5).
    is_routing as "is_routing_port": both [179, 646], tcp [], udp [520, 521, 4784], near [3784, 3785, 6784];
    /// Whether a port is one by which the router is managed.
    is_management as "is_management_port":
        both [49, 53, 161, 162], tcp [22, 80, 443, 830], udp [67, 68, 123, 546, 547, 1812, 1813], near [];
}

fn in_c(name: &str, both: &[u16], tcp: &[u16], udp: &[u16], near: &[u16]) -> String {
    let any = |ports: &[u16]| {
        let tests: Vec<_> = ports.iter().map(|port| format!("port == {port}")).collect();
        if tests.is_empty() { "0".to_owned() } else { tests.join(" || ") }
    };
    let [both, tcp, udp, near] = [both, tcp, udp, near].map(any);
    format!(
        "static __always_inline int {name}(__u16 port, __u8 protocol, __u8 ttl) {{\n    \
         return {both} || (protocol == 6 && ({tcp})) ||\n           \
         (protocol == 17 && ({udp} || (ttl == 255 && ({near}))));\n}}\n"
    )
}
