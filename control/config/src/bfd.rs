//! `[bfd]`: BFD sessions of FRR's are run here.

use std::net::{Ipv4Addr, SocketAddr};

use crate::mistake::Page;
use crate::section::Section;
use crate::sections::users;

/// Where FRR's bfdd listens for a forwarding plane by default; the port is FRR's own choice.
const FRR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 50_700);

/// `[bfd]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bfd {
    /// Where bfdd listens: what its `--dplaneaddr` says.
    pub frr: SocketAddr,
    /// Users of this machine whose bfdd is believed, besides root's.
    pub users: Vec<String>,
}

pub(crate) fn bfd(page: &mut Page, mut section: Section) -> Option<Bfd> {
    const EXPECTED: &str = "an address and port of this machine itself, such as \"127.0.0.1:50700\"";
    let written = section.value("frr").is_some();
    let frr = section.text(page, "frr", EXPECTED, place).map(|found| found.value);
    let users = section.value("users").map(|value| users(page, value));
    section.finish(page);
    let users = users.unwrap_or_else(|| vec!["frr".to_owned()]);
    Some(Bfd { frr: frr.or(Some(FRR).filter(|_| !written))?, users })
}

/// Who answers there is believed, so it must be on this machine.
fn place(text: &str) -> Result<SocketAddr, String> {
    let place: SocketAddr = text.parse().map_err(|_| format!("{text:?} is no address and port"))?;
    match place.ip().is_loopback() {
        true => Ok(place),
        false => Err(format!("{} is no address of this machine alone", place.ip())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Router};

    fn read(section: &str) -> Result<Option<Bfd>, String> {
        let text = format!("[[port]]\nname = \"eth0\"\n[bfd]\n{section}\n");
        let read = Router::read("router.toml", &text, &Machine::this());
        read.map(|router| router.bfd).map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn frr_listens_on_this_machine() {
        let place = |section: &str| read(section).unwrap().unwrap().frr.to_string();
        assert_eq!(place(""), "127.0.0.1:50700");
        assert_eq!(place("frr = \"[::1]:50701\""), "[::1]:50701");
        let users = |section: &str| read(section).unwrap().unwrap().users;
        assert_eq!((users(""), users("users = [\"quagga\"]")), (vec!["frr".into()], vec!["quagga".into()]));
        for wrong in ["frr = \"192.0.2.1:50700\"", "frr = \"bfdd\"", "frr = \"/run/frr/bfdd.sock\""] {
            let said = read(wrong).unwrap_err();
            assert!(said.contains("frr: ") && said.contains("router.toml:4:"), "{said}");
        }
        assert!(read("ffr = \"127.0.0.1:1\"").unwrap_err().contains("frr"));
    }
}
