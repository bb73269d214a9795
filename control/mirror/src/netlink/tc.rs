//! `RTM_GETQDISC` and `RTM_GETTFILTER`: queueing disciplines, and filters that see the packets of
//! an interface (`tc`).

use super::{attributes_after, request, string, u32_at};
use libc::{NLM_F_DUMP, NLM_F_REQUEST};

/// A queueing discipline.
pub const RTM_NEWQDISC: u16 = 36;
/// A queueing discipline that is gone.
pub const RTM_DELQDISC: u16 = 37;
const RTM_GETQDISC: u16 = 38;
/// A filter.
pub const RTM_NEWTFILTER: u16 = 44;
/// A filter that is gone.
pub const RTM_DELTFILTER: u16 = 45;
const RTM_GETTFILTER: u16 = 46;

const FIXED: usize = 20;
const TCA_KIND: u16 = 1;
/// What packets pass before routing (`ffff:fff2`), and on their way out (`ffff:fff3`).
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;
const ETH_P_ALL: u16 = 0x0003;
const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;

/// A queueing discipline of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// The interface.
    pub ifindex: u32,
    /// `tbf`, `htb`...
    pub kind: String,
}

impl Qdisc {
    /// Whether it hands on what it is given as fast as the interface sends, as what Linux has by
    /// default.
    pub fn only_queues(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "noqueue" | "noop" | "pfifo_fast" | "pfifo" | "bfifo" | "mq" | "fq_codel" | "fq"
        )
    }

    /// Where filters hang on it that see all packets: at the way in, at the way out.
    pub fn hooks(&self) -> [bool; 2] {
        [matches!(self.kind.as_str(), "ingress" | "clsact"), self.kind == "clsact"]
    }
}

/// A filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// `u32`, `bpf`, `flower`...
    pub kind: String,
    /// Whether it sees packets of IPv4, of IPv6.
    pub families: [bool; 2],
}

/// The request for all queueing disciplines.
pub fn dump_qdiscs() -> Vec<u8> {
    request::message(RTM_GETQDISC, NLM_F_REQUEST | NLM_F_DUMP, &[0; FIXED])
}

/// The request for the filters at an interface's way in, or out.
pub fn dump_filters(ifindex: u32, egress: bool) -> Vec<u8> {
    let mut body = [0; FIXED];
    body[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    body[12..16].copy_from_slice(&if egress { EGRESS } else { INGRESS }.to_ne_bytes());
    request::message(RTM_GETTFILTER, NLM_F_REQUEST | NLM_F_DUMP, &body)
}

/// Parses the body of a [`RTM_NEWQDISC`].
pub fn parse_qdisc(body: &[u8]) -> Option<Qdisc> {
    Some(Qdisc { ifindex: u32_at(body, 4)?, kind: kind(body)? })
}

/// Parses the body of a [`RTM_NEWTFILTER`].
pub fn parse_filter(body: &[u8]) -> Option<Filter> {
    let protocol = u16::from_be(u32_at(body, 16)? as u16);
    let families = [ETH_P_IP, ETH_P_IPV6].map(|family| protocol == family || protocol == ETH_P_ALL);
    Some(Filter { kind: kind(body)?, families })
}

fn kind(body: &[u8]) -> Option<String> {
    attributes_after(body, FIXED)?.find(|(kind, _)| *kind == TCA_KIND).map(|(_, value)| string(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(ifindex: u32, info: u32, kind: &str) -> Vec<u8> {
        let mut body = vec![0; FIXED];
        body[4..8].copy_from_slice(&ifindex.to_ne_bytes());
        body[16..20].copy_from_slice(&info.to_ne_bytes());
        request::attribute(&mut body, TCA_KIND, format!("{kind}\0").as_bytes());
        body
    }

    #[test]
    fn what_shapes_and_where_filters_hang_is_known() {
        let qdisc = |kind: &str| parse_qdisc(&body(7, 0, kind)).unwrap();
        assert_eq!(qdisc("tbf"), Qdisc { ifindex: 7, kind: "tbf".to_owned() });
        assert!(!qdisc("htb").only_queues() && qdisc("mq").only_queues());
        assert_eq!([qdisc("ingress").hooks(), qdisc("clsact").hooks()], [[true, false], [true, true]]);
        assert_eq!(parse_qdisc(&[0; 19]), None);
    }

    #[test]
    fn a_filters_protocol_says_what_it_sees() {
        let families = |protocol: u16| {
            parse_filter(&body(7, 49152 << 16 | u32::from(protocol.to_be()), "u32")).unwrap().families
        };
        assert_eq!(
            [families(3), families(0x800), families(0x86dd)],
            [[true, true], [true, false], [false, true]]
        );
        assert_eq!(families(0x806), [false, false]);
    }
}
