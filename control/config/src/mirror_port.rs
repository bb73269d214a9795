//! `[mirror]`: copies of packets, sent out by an interface for a machine that watches.

use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;

use crate::mistake::{Hint, Page};
use crate::pattern::Pattern;
use crate::pattern::is_interface_name;

/// Where copies go, and of what.
#[derive(Clone, Debug, PartialEq)]
pub struct MirrorPort {
    /// An interface of Linux; packets of that one itself are never copied.
    pub to: String,
    /// Which packets, in tcpdump's language; empty: all.
    pub filter: String,
    /// On which ports; none: on all.
    pub ports: Vec<Pattern>,
    /// Of what comes in.
    pub incoming: bool,
    /// Of what leaves.
    pub outgoing: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    to: Spanned<String>,
    #[serde(default)]
    filter: String,
    #[serde(default)]
    ports: Vec<Spanned<String>>,
    #[serde(default)]
    direction: Direction,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Direction {
    In,
    Out,
    #[default]
    Both,
}

pub(crate) fn mirror_port(page: &mut Page, value: &Spanned<DeValue>) -> Option<MirrorPort> {
    let written = match Written::deserialize(toml::de::ValueDeserializer::from(value.clone())) {
        Ok(written) => written,
        Err(error) => {
            let at = error.span().unwrap_or(value.span());
            page.wrong(at, format!("[mirror]: {}", error.message().replace('\n', ", ")), Hint::default());
            return None;
        }
    };
    let to = written.to.get_ref();
    if !is_interface_name(to) {
        let hint = Hint::expected("the name of an interface, such as \"eth9\"");
        page.wrong(written.to.span(), format!("[mirror]: {to:?} is no interface's name"), hint);
        return None;
    }
    let mut ports = Vec::new();
    for port in &written.ports {
        match port.get_ref().parse() {
            Ok(pattern) => ports.push(pattern),
            Err(error) => {
                let hint = Hint::expected("names of ports, or patterns such as \"eth*\"");
                page.wrong(port.span(), format!("[mirror]: {error}"), hint);
            }
        }
    }
    Some(MirrorPort {
        to: to.clone(),
        filter: written.filter,
        ports,
        incoming: written.direction != Direction::Out,
        outgoing: written.direction != Direction::In,
    })
}

#[cfg(test)]
mod tests {
    use crate::{Machine, Router};

    fn read(section: &str) -> Result<Router, String> {
        let text = format!("[[port]]\nname = \"eth0\"\n[mirror]\n{section}\n");
        Router::read("router.toml", &text, &Machine::this()).map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn a_mirror_has_an_interface_and_perhaps_more() {
        let mirror = read("to = \"eth9\"").unwrap().mirror.unwrap();
        assert!(mirror.to == "eth9" && mirror.incoming && mirror.outgoing && mirror.ports.is_empty());
        let mirror = read("to = \"eth9\"\nfilter = \"tcp\"\nports = [\"eth*\"]\ndirection = \"in\"");
        let mirror = mirror.unwrap().mirror.unwrap();
        assert!(mirror.filter == "tcp" && mirror.ports[0].matches("eth1"));
        assert!(mirror.incoming && !mirror.outgoing);
    }

    #[test]
    fn what_makes_no_sense_is_refused_where_it_stands() {
        for (section, message) in [
            ("filter = \"tcp\"", "missing field `to`"),
            ("to = \"\"", "no interface's name"),
            ("to = \"an-interface-with-a-long-name\"", "no interface's name"),
            ("to = \"eth9\"\ndirection = \"up\"", "unknown variant `up`"),
            ("to = \"eth9\"\nfliter = \"tcp\"", "unknown field `fliter`"),
            ("to = \"eth9\"\nports = [\"\"]", "[mirror]"),
        ] {
            let refused = read(section).unwrap_err();
            assert!(refused.contains(message) && refused.contains("router.toml:"), "{section}: {refused}");
        }
    }
}
