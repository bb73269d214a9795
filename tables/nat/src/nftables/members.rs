//! What comes in by members of VRFs.
//!
//! Linux shows its chains the VRF's device as the interface that such a packet came in by. At
//! `prerouting` they see the member first. At `forward` it can be asked for beside the device
//! (`meta sdifname`), and nowhere else. So where ports are in VRFs:
//!
//! - at `prerouting` lines stay, for they see the member. The router's own addresses of a VRF are
//!   not those of the main table: they are asked for by the interface.
//! - at `forward` each line that asks for the input stands there twice, once for members.
//! - at `postrouting` nobody shows the member any more. What a line asks of it is asked at
//!   `forward` when the connection begins, and the answer is a *label* of the connection.

use super::{OWN, Sides, interface};

/// What comes by the device of a VRF, as far as Linux shows it.
const OF_VRF: &str = "meta iifkind \"vrf\" ";
/// Asks whether an address is the interface's own.
const OWN_OF_INTERFACE: &str = "fib daddr . iif type local ";
/// Labels that a connection can have, by number.
const LABELS: usize = 128;

/// The ports in VRFs, and what is asked of them.
pub(super) struct Members<'r> {
    names: &'r [String],
    /// Conditions, each with the label of its number.
    labels: Vec<String>,
}

impl<'r> Members<'r> {
    pub(super) fn new(names: &'r [String]) -> Members<'r> {
        Members { names, labels: Vec::new() }
    }

    /// Lines of a chain there, for members too.
    pub(super) fn at_prerouting(&self, lines: Vec<String>) -> Vec<String> {
        let both = |line: String| match line.contains(OWN) && !self.names.is_empty() {
            false => vec![line],
            true => {
                let of_members =
                    interface("iifname", "==", self.names) + &line.replace(OWN, OWN_OF_INTERFACE);
                vec![line, of_members]
            }
        };
        lines.into_iter().flat_map(both).collect()
    }

    /// Lines of a chain there, for members too.
    pub(super) fn at_forward(&self, lines: Vec<String>, sides: &Sides) -> Vec<String> {
        let both = |line: String| match self.input_of(&line, sides) {
            None => vec![line],
            Some((input, rest)) => vec![format!("{OF_VRF}{}{rest}", of_member(input)), line],
        };
        lines.into_iter().flat_map(both).collect()
    }

    /// Lines of a chain there, for members too.
    pub(super) fn at_postrouting(&mut self, lines: Vec<String>, sides: &Sides) -> Vec<String> {
        let mut all = Vec::new();
        for line in lines {
            let Some((input, rest)) = self.input_of(&line, sides) else {
                all.push(line);
                continue;
            };
            let asked = of_member(input);
            let known = self.labels.iter().position(|label| *label == asked);
            match known.unwrap_or(self.labels.len()) {
                LABELS.. => all.push("# of members of VRFs: there are too many such rules".to_owned()),
                n => {
                    all.push(format!("{OF_VRF}ct label {n} {rest}"));
                    self.labels.extend(known.is_none().then_some(asked));
                }
            }
            all.push(format!("meta iifkind != \"vrf\" {line}"));
        }
        all
    }

    /// Lines of a chain at `forward` that give connections their labels.
    pub(super) fn labels(&self) -> String {
        let labels = self.labels.iter().enumerate();
        labels.map(|(n, asked)| format!("\t\t{OF_VRF}ct state new {asked}ct label set {n}\n")).collect()
    }

    /// A line in two, if there are members and it begins with what it came by.
    fn input_of<'l>(&self, line: &'l str, sides: &'l Sides) -> Option<(&'l str, &'l str)> {
        let all = [&sides.input, &sides.from_outside, &sides.from_inside];
        let asked = all.into_iter().filter(|asked| !asked.is_empty() && !self.names.is_empty());
        asked.filter_map(|asked| Some((&**asked, line.strip_prefix(&**asked)?))).next()
    }
}

/// A condition on the interface that a packet came by, as one on the member of a VRF.
fn of_member(input: &str) -> String {
    input.replacen("iifname", "meta sdifname", 1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::rendered_with;
    use super::LABELS;

    #[test]
    fn members_of_vrfs_are_asked_for_where_linux_shows_them() {
        let text = rendered_with(crate::text::EVERYTHING, &["lan0".to_owned(), "wan0".to_owned()]);
        for line in [
            // Asked at forward, remembered until postrouting; the others as ever.
            "chain nat_members {\n\t\ttype filter hook forward priority mangle; policy accept;\n",
            "meta iifkind \"vrf\" ct state new meta sdifname \"lan0\" ct label set 0\n",
            "\t\tmeta iifkind \"vrf\" ct label 0 meta nfproto ipv4 ip daddr { 10.0.0.0/8 } accept\n",
            "\t\tmeta iifkind != \"vrf\" iifname \"lan0\" meta nfproto ipv4 ip daddr { 10.0.0.0/8 } accept\n",
            "meta iifkind \"vrf\" ct state new meta sdifname != \"wan0\" ct label set ",
            // At forward; the interface itself is asked for where it is shown.
            "\t\tmeta iifkind \"vrf\" meta sdifname \"lan0\" meta nfproto ipv4 ip daddr { 10.0.0.0/8 } accept\n",
            "\t\tiifname \"lan0\" meta nfproto ipv4 ip daddr { 10.0.0.0/8 } accept\n",
            "\t\tiifname \"wan0\" ip daddr 203.0.113.64/28 dnat ip prefix",
            "\t\toifname \"wan0\" meta nfproto ipv4 ip saddr { 192.168.0.0/16 } masquerade\n",
            "\t\tiifname { \"lan0\", \"wan0\" } meta nfproto ipv4 meta l4proto { 6 } th dport { 443-443 } fib daddr . iif type local dnat ",
        ] {
            assert!(text.contains(line), "{line}\nis not in\n{text}");
        }
        let many: String = (0..LABELS + 2)
            .map(|n| {
                format!("[[rule]]\nname = \"{n}\"\ntype = \"masquerade\"\nin = \"lan{n}\"\nout = \"wan0\"\n")
            })
            .collect();
        let text = rendered_with(&many, &["lan0".to_owned()]);
        assert_eq!(text.matches("ct label set").count(), LABELS);
        assert_eq!(text.matches("# of members of VRFs: there are too many such rules").count(), 4, "{text}");
    }
}
