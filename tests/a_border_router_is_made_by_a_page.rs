//! `docs/border.md` leads from a bare router to one with two upstreams, a default route that the
//! site hears of while there is one, a filter and a flow log, with the shell alone. Its commands
//! are taken out of the page.
//!
//! ```text
//!   first (AS 65010) ── wan0 ┐
//!                            ├ border ── lan0 ── core (OSPF), which is the web server as well
//!   second (AS 65020) ─ wan1 ┘
//! ```

use std::time::Duration;

use lab::{Frr, Host, Lab, Router, wait_for};

use crate::network::{OSPF, turn};

const PAGE: &str = include_str!("../docs/border.md");
const SOON: Duration = Duration::from_secs(20);

/// An upstream: it has a default route, a network of its own, and a private one.
fn upstream(asn: u32, border: &str, network: &str, private: &str) -> String {
    format!(
        "router bgp {asn}\n no bgp ebgp-requires-policy\n no bgp network import-check\n \
         neighbor {border} remote-as 65001\n neighbor {border} timers connect 1\n \
         address-family ipv4 unicast\n  network {network}\n  network {private}\n  \
         neighbor {border} default-originate\n exit-address-family\nexit\n"
    )
}

/// Connects from an address, and says how that fails.
const REFUSED: &str = r#"
import socket, sys
source, address, port = sys.argv[1:]
try:
    socket.create_connection((address, int(port)), 2, (source, 0))
    print("it is answered")
except OSError as error:
    print(type(error).__name__)
"#;

/// The lines that the page has typed into the shell, block by block.
fn blocks() -> Vec<Vec<&'static str>> {
    let parts = PAGE.split("\n```bifrost\n").skip(1);
    parts.map(|part| part.split("\n```").next().unwrap_or_default().lines().collect()).collect()
}

struct Net {
    router: Router,
    core: Host,
    _turn: crate::network::Turn,
    _lab: Lab,
}

impl Net {
    fn types(&self, lines: &[&str]) -> String {
        let script = self.router.host().folder().join("lines");
        let flows = self.router.host().folder().join("flows");
        let lines: Vec<String> = lines
            .iter()
            .map(|line| line.replace("/var/lib/bifrost/flows", &flows.display().to_string()))
            .collect();
        std::fs::write(&script, lines.join("\n") + "\n").unwrap();
        let state = self.router.host().folder().join("shell");
        let cli = self.router.client(&format!("cli --state {}", state.display()));
        let said = self.router.host().run(&format!("{cli} 2>&1 < {}", script.display()));
        said.unwrap_or_else(|error| panic!("{error}\n{}", self.router.log()))
    }

    /// What FRR and Linux make of it.
    fn routing(&self) -> String {
        let shown = self.types(&["show ip ospf neighbor", "show ip ospf route", "show ip route"]);
        shown + &self.core.run("ip route; ip address").unwrap()
    }

    /// A route of a host's is there, or not.
    fn route(&self, host: &Host, prefix: &str, by: &str, wanted: bool) {
        wait_for(&format!("{}: {prefix} by {by}: {wanted}", host.name()), SOON, || {
            let said = host.run(&format!("ip route show {prefix}")).unwrap();
            if said.contains(by) == wanted { Ok(()) } else { Err(said + &self.routing()) }
        })
        .unwrap();
    }
}

#[test]
fn and_its_commands_do_what_it_says() {
    let turn = turn();
    let lab = Lab::new("border").unwrap();
    let host = lab.router("border").unwrap();
    let [first, second, core] = ["first", "second", "core"].map(|name| lab.router(name).unwrap());
    let (a, b) = ("192.0.2.1/30", "203.0.113.1/30");
    lab.link(host.end("wan0"), first.end("eth0").address(a)).unwrap();
    lab.link(host.end("wan1"), second.end("eth0").address(b)).unwrap();
    lab.link(host.end("lan0"), core.end("eth0").address("198.51.100.2/30")).unwrap();
    core.run("ip address add 198.51.100.80/32 dev lo").unwrap();
    first.run("ip address add 198.18.1.1/32 dev lo").unwrap();
    second.run("ip address add 198.19.1.1/32 dev lo").unwrap();
    let daemons = ["bgpd"];
    let first_says = upstream(65010, "192.0.2.2", "198.18.0.0/16", "10.66.0.0/16");
    let second_says = upstream(65020, "203.0.113.2", "198.19.0.0/16", "192.168.66.0/24");
    let first_frr = Frr::start(&first, &daemons, &first_says, false).unwrap();
    let second_frr = Frr::start(&second, &daemons, &second_says, false).unwrap();
    let core_says = format!("router ospf\n redistribute connected\nexit\n{OSPF}");
    let _core = Frr::start(&core, &["ospfd"], &core_says, false).unwrap();
    let ours = Frr::start(&host, &["bgpd", "ospfd"], "", false).unwrap();
    let _server = core.tells(&[22, 80]).unwrap();

    let bare = format!("without_ports = \"on\"\n[routing]\nsockets = \"{}\"\n", ours.sockets().display());
    let router = Router::start(&host, &bare).unwrap();
    if !router.is_bifrost() {
        return;
    }
    let net = Net { router, core, _turn: turn, _lab: lab };
    let blocks = blocks();
    let (look, make) = blocks.split_last().unwrap();
    assert!(make.len() == 4 && make.iter().map(Vec::len).sum::<usize>() > 40);
    // As it is pasted: all in one go.
    let said = net.types(&make.concat());
    assert!(said.contains("revision 4 is in force"), "{said}");

    // Both upstreams are there, and what is private is not.
    net.route(net.router.host(), "198.18.0.0/16", "via 192.0.2.1 dev wan0", true);
    net.route(net.router.host(), "198.19.0.0/16", "via 203.0.113.1 dev wan1", true);
    net.route(net.router.host(), "default", "via 192.0.2.1 dev wan0", true);
    let all = net.router.host().run("ip route").unwrap();
    assert!(!all.contains("10.66") && !all.contains("192.168.66"), "{all}");
    net.route(&first, "198.51.100.0/24", "via 192.0.2.2", true);
    net.route(&second, "198.51.100.0/24", "via 203.0.113.2", true);
    assert!(!first.run("ip route").unwrap().contains("198.19"), "nothing of the other upstream is told");
    net.route(&net.core, "default", "via 198.51.100.1", true);

    net.route(net.router.host(), "198.51.100.80", "via 198.51.100.2 dev lan0", true);

    // What passes, and what is refused; all of it by Bifrost.
    net.router.equals_linux(SOON).unwrap();
    let pings = || {
        net.core.run("ping -c 2 -i 0.2 -W 2 -I 198.51.100.80 198.19.1.1").unwrap();
        first.run("ping -c 2 -i 0.2 -W 2 -I 198.18.1.1 198.51.100.80").unwrap();
    };
    // Linux finds out where the neighbours are.
    pings();
    let linux = net.router.host().linux_forwarded().unwrap();
    pings();
    assert_eq!(first.call("tcp", ("198.18.1.1", 0), ("198.51.100.80", 80)).unwrap(), "198.18.1.1");
    let ssh = first.run(&format!("python3 -c '{REFUSED}' 198.18.1.1 198.51.100.80 22")).unwrap();
    assert_eq!(ssh.trim(), "ConnectionRefusedError");
    assert_eq!(net.router.host().linux_forwarded().unwrap(), linux, "Linux forwarded");

    // What the page looks at.
    let said = net.types(look);
    for text in ["65010", "65020", "Full", "via 192.0.2.1", "web", "198.51.100.80:80", "BGP and OSPF"] {
        assert!(said.contains(text), "{text}: {said}");
    }
    let flows = net.router.ask("flows --host 198.18.1.1 --json").unwrap();
    assert!(flows.contains("198.51.100.80") && flows.contains("80"), "{flows}");

    // One upstream is lost, then both: then the site hears of no default route.
    drop(first_frr);
    net.route(net.router.host(), "default", "via 203.0.113.1 dev wan1", true);
    net.route(net.router.host(), "198.18.0.0/16", "via", false);
    net.route(&net.core, "default", "via 198.51.100.1", true);
    net.core.run("ping -c 1 -W 2 -I 198.51.100.80 198.19.1.1").unwrap();
    drop(second_frr);
    net.route(&net.core, "default", "via", false);
}
