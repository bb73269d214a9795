//! Why a packet was dropped.

numbered! {
    c, "REASON_", "REASONS";
    /// Why a packet was dropped. The names are stable, and are what operators read in `show drops`
    /// and in the metrics. A new reason is a line at the end.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Reason as "reason" {
        #[default]
        None "none" "Not dropped.",
        Truncated "truncated" "Shorter than its headers say.",
        BadVersion "bad_version" "The IP version is not that of the Ethernet type.",
        BadHeaderLength "bad_header_length" "IPv4 header length below 20 bytes or beyond the packet (RFC 1812, 5.2.2).",
        BadTotalLength "bad_total_length" "IPv4 total length below the header length, or beyond the frame (RFC 1812, 5.2.2).",
        BadChecksum "bad_checksum" "Wrong IPv4 header checksum (RFC 1812, 5.2.2).",
        TtlExpired "ttl_expired" "TTL or hop limit used up; answered with time exceeded.",
        MartianSource "martian_source" "A source address that no packet to be forwarded can have (RFC 1812, 5.3.7; RFC 4291).",
        MartianDestination "martian_destination" "A destination address that is never forwarded (RFC 1812, 5.3.7; RFC 4291).",
        NoRoute "no_route" "No route to the destination; answered with unreachable.",
        Blackhole "blackhole" "A blackhole route: dropped without an answer.",
        Unreachable "unreachable" "An unreachable route; answered with host unreachable.",
        Prohibit "prohibit" "A prohibit route; answered with administratively prohibited.",
        ReversePath "reverse_path" "The source is not reached by the port the packet came from (RFC 3704).",
        TooBig "too_big" "Larger than the MTU and may not be fragmented; answered with the MTU.",
        ForwardingOff "forwarding_off" "Forwarding of this family is off on the input port.",
        PortDown "port_down" "The output port is down or gone.",
        TransmitFull "transmit_full" "The transmit ring of the output port is full.",
        NoBuffer "no_buffer" "No packet memory left for a copy, a fragment or an answer.",
        RedirectFailed "redirect_failed" "The driver refused the frame at redirect.",
        PolicedRouting "policed_routing" "For Linux, above the rate of class routing.",
        PolicedManagement "policed_management" "For Linux, above the rate of class management.",
        PolicedIcmp "policed_icmp" "For Linux, above the rate of class icmp.",
        PolicedRest "policed_rest" "For Linux, above the rate of class rest.",
        PolicedUnresolved "policed_unresolved" "For Linux, above the rate of class unresolved.",
        PolicedTransit "policed_transit" "For Linux to forward, above the rate of class transit.",
        PolicedNeighbour "policed_neighbour" "For Linux, above the rate of class neighbour.",
        PuntFailed "punt_failed" "Handing the packet to Linux failed.",
        IcmpLimited "icmp_limited" "An ICMP answer suppressed by its rate limit or by the rules on what is never answered.",
        CorruptRing "corrupt_ring" "A ring descriptor that points outside the packet memory.",
        NotIp "not_ip" "Neither IPv4 nor IPv6.",
        ReceiveFull "receive_full" "The worker's receive ring was full: it could not keep up.",
        Discarded "discarded" "An element's purpose (Discard), or an output that leads nowhere.",
        QueueFull "queue_full" "A queue in the graph was full, or dropped early to stay short.",
        Filtered "filtered" "The filter, or a switch of the graph, let nothing like it pass.",
        Malformed "malformed" "A check of the graph found its headers wrong.",
        FlowsFull "flows_full" "A new flow for which the flow table has no room.",
        PortsExhausted "ports_exhausted" "A new flow for which address translation has no port left; answered with unreachable.",
        Untranslatable "untranslatable" "Address translation has no counterpart for it.",
        Unwanted "unwanted" "To a group whose entry has no interface for it to leave by, or only ones with too high a TTL threshold.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_each_their_own() {
        for (number, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
            assert_eq!(Reason::from_number(number), Some(reason));
            assert_eq!(Reason::from_name(reason.name()), Some(reason));
        }
        assert_eq!(Reason::from_number(Reason::COUNT), None);
    }
}
