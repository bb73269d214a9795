//! Who made a route (`RTPROT_*`), by name.

use std::collections::HashMap;
use std::path::Path;

/// Bifrost itself, for static routes of its configuration.
pub const BIFROST: u8 = 0xb1;

/// Names that Linux and the routing daemons agree on (linux/rtnetlink.h, FRR's zebra/rt_netlink.h).
const KNOWN: [(u8, &str); 32] = [
    (0, "unspec"),
    (1, "redirect"),
    (2, "kernel"),
    (3, "boot"),
    (4, "static"),
    (8, "gated"),
    (9, "ra"),
    (10, "mrt"),
    (11, "zebra"),
    (12, "bird"),
    (13, "dnrouted"),
    (14, "xorp"),
    (15, "ntk"),
    (16, "dhcp"),
    (17, "mrouted"),
    (18, "keepalived"),
    (42, "babel"),
    (99, "openr"),
    (BIFROST, "bifrost"),
    (186, "bgp"),
    (187, "isis"),
    (188, "ospf"),
    (189, "rip"),
    (190, "ripng"),
    (191, "nhrp"),
    (192, "eigrp"),
    (193, "ldp"),
    (194, "sharp"),
    (195, "pbr"),
    (196, "zstatic"),
    (197, "openfabric"),
    (198, "srte"),
];

/// Whether this protocol is one of FRR's, which zebra tells over FPM.
pub fn is_frr(protocol: u8) -> bool {
    matches!(protocol, 11 | 42 | 186..=198)
}

/// The names of origins: those known here, and over them those of this machine's `rt_protos`.
#[derive(Clone, Debug)]
pub struct Origins(HashMap<u8, String>);

impl Origins {
    /// Reads `/etc/iproute2/rt_protos` and what is in `rt_protos.d`; files that are not there are
    /// passed over.
    pub fn of_machine() -> Origins {
        let mut names: HashMap<u8, String> =
            KNOWN.iter().map(|(number, name)| (*number, (*name).to_string())).collect();
        for root in ["/usr/share/iproute2", "/usr/lib/iproute2", "/etc/iproute2"] {
            let root = Path::new(root);
            let mut files = vec![root.join("rt_protos")];
            let more = std::fs::read_dir(root.join("rt_protos.d")).into_iter().flatten().flatten();
            files.extend(
                more.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "conf")),
            );
            for text in files.iter().filter_map(|file| std::fs::read_to_string(file).ok()) {
                names.extend(parse(&text));
            }
        }
        Origins(names)
    }

    /// The name of an origin; its number when it has none.
    pub fn name(&self, protocol: u8) -> String {
        self.0.get(&protocol).cloned().unwrap_or_else(|| protocol.to_string())
    }

    /// The number of an origin, by name or number.
    pub fn number(&self, name: &str) -> Option<u8> {
        let named = self.0.iter().find(|(_, known)| *known == name).map(|(number, _)| *number);
        named.or_else(|| name.parse().ok())
    }
}

/// Lines of number and name; `#` starts a comment.
fn parse(text: &str) -> impl Iterator<Item = (u8, String)> + '_ {
    text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let number = words.next()?;
        let number = match number.strip_prefix("0x") {
            Some(digits) => u8::from_str_radix(digits, 16).ok()?,
            None => number.parse().ok()?,
        };
        Some((number, words.next()?.to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_iproute2_writes_them() {
        let text = "# comment\n186\tbgp\n0x12 hex # x\nnonsense\n300 too-big\n";
        assert_eq!(parse(text).collect::<Vec<_>>(), vec![(186, "bgp".into()), (18, "hex".into())]);
    }

    #[test]
    fn an_origin_without_a_name_is_its_number() {
        let origins = Origins(HashMap::from([(186, "bgp".to_string())]));
        assert_eq!(origins.name(186), "bgp");
        assert_eq!(origins.name(77), "77");
        assert_eq!(origins.number("bgp"), Some(186));
        assert_eq!(origins.number("77"), Some(77));
    }
}
