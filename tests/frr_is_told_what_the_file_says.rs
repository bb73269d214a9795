//! FRR is told what the file says: only what changed, whole or not at all, and what that does to
//! sessions is told before it is done. (The network of `network.rs`; the router's FRR is the
//! file's, those of the server, which is a BGP neighbour, and of the customer, which speaks OSPF,
//! are not.)

#[path = "../control/frr/tests/naive/file.rs"]
mod file;

use std::time::Duration;

use chance::Random;
use config::Routing;
use frr::{Config, Owned, diff, render, script, sessions};
use lab::{Frr, Lab, wait_for};

use crate::network::{Line, OSPF, ports, turn};

const SOON: Duration = Duration::from_secs(20);

const SERVER: &str = "
router bgp 65002
 bgp router-id 10.2.0.2
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor 10.2.0.1 remote-as 65001
 neighbor 10.2.0.1 timers connect 1
 address-family ipv4 unicast
  network 198.51.100.0/24
  network 203.0.113.0/24
 exit-address-family
exit
";

/// The router's part of the file.
const FILE: &str = r#"
[bgp]
as = 65001
router_id = "10.2.0.1"
ebgp_requires_policy = false

[bgp.ipv4]
redistribute = ["connected"]

[bgp.neighbour."10.2.0.2"]
remote_as = 65002
description = "the server"
connect_retry = "1s"
ipv4 = { prefix_list_in = "wanted" }

[ospf]
router_id = "10.2.0.1"
default = { metric = 7 }
[ospf.interface.left]
area = 0
hello = "1s"
dead = "4s"
network = "point-to-point"

[policy.prefix_list]
wanted = ["permit 198.51.100.0/24"]
"#;

struct Net {
    ours: Frr,
    theirs: Frr,
    customer: Frr,
    line: Line,
}

impl Net {
    fn file(&self, sections: &str) -> String {
        let sockets = self.ours.sockets().display();
        let own = if sections.contains("[routing]") { "" } else { "[routing]\n" };
        let sections = format!("{own}{sections}")
            .replace("[routing]\n", &format!("[routing]\nsockets = \"{sockets}\"\n"));
        ports("auto", &["left", "right"]) + &sections
    }

    /// A reload, after a dry run that said all this.
    fn reload(&self, sections: &str, effects: &[&str]) {
        self.line.router.configure(&self.file(sections)).unwrap();
        let said = self.line.router.ask("reload --dry-run").unwrap();
        assert_eq!(said.lines().collect::<Vec<_>>(), effects, "{said}");
        self.line.router.ask("reload").unwrap();
        assert_eq!(self.line.router.ask("reload --dry-run").unwrap().trim(), "nothing would change");
    }

    fn refused(&self, sections: &str, why: &str) {
        let state = || {
            let linux = self.line.router.host().run("ip -br link").unwrap();
            (self.ours.vtysh("show running-config").unwrap(), linux, self.resets())
        };
        let before = state();
        self.line.router.configure(&self.file(sections)).unwrap();
        let said = self.line.router.ask("reload").unwrap_err().to_string();
        assert!(said.contains(why) && said.contains("stays as it is"), "{said}");
        assert_eq!(state(), before, "{said}");
        assert!(!self.line.router.log().contains("FRR is not as it was"), "{}", self.line.router.log());
    }

    /// How often the session began.
    fn resets(&self) -> u64 {
        let all = self.ours.show("show bgp neighbors json").unwrap();
        all["10.2.0.2"]["connectionsEstablished"].as_u64().unwrap()
    }

    fn has(&self, what: &str, host: &lab::Host, command: &str, text: &str, wanted: bool) {
        wait_for(what, SOON, || {
            let said = host.run(command).map_err(|error| error.to_string())?;
            if said.contains(text) == wanted { Ok(()) } else { Err(said + &self.line.router.log()) }
        })
        .unwrap();
    }

    fn route(&self, prefix: &str, wanted: bool) {
        let command = "ip route show proto bgp";
        self.has(&format!("a route to {prefix}: {wanted}"), self.line.router.host(), command, prefix, wanted);
    }

    /// Whether the customer hears of a default route.
    fn default(&self, wanted: bool) {
        wait_for(&format!("a default route by OSPF: {wanted}"), SOON, || {
            let said =
                self.customer.vtysh("show ip ospf database external").map_err(|error| error.to_string())?;
            let told = said.contains("Link State ID: 0.0.0.0") && !said.contains("LS age: 3600");
            if told == wanted {
                Ok(())
            } else {
                Err(said + &self.ours.vtysh("show ip route").unwrap_or_default())
            }
        })
        .unwrap();
    }
}

fn net() -> Option<Net> {
    let line = Line::stopped("told", "");
    if !line.router.is_bifrost() {
        return None;
    }
    let theirs = Frr::start(&line.server, &["bgpd"], SERVER, false).unwrap();
    let customer_says = format!("router ospf\n ospf router-id 10.1.0.2\nexit\n{OSPF}");
    let customer = Frr::start(&line.customer, &["ospfd"], &customer_says, false).unwrap();
    // What others tell FRR stays.
    let theirs_too = "ip prefix-list old seq 5 permit any\ninterface left\n description theirs\nexit\n";
    let ours = Frr::start(line.router.host(), &["bgpd", "ospfd"], theirs_too, false).unwrap();
    let mut net = Net { ours, theirs, customer, line };
    let file = net.file(FILE);
    net.line.router.configure(&file).unwrap();
    net.line.router.restart().unwrap();
    Some(net)
}

#[test]
fn only_what_changed_and_whole_or_not_at_all() {
    let Some(net) = net() else { return };
    net.route("198.51.100.0/24", true);
    net.route("203.0.113.0/24", false);
    let running = net.ours.vtysh("show running-config").unwrap();
    assert!(running.contains(" description theirs") && !running.contains("prefix-list old"), "{running}");

    // A list changes: the routes do, and the session does not notice.
    let both = FILE.replace("\"permit 198.51.100.0/24\"", "\"permit 203.0.113.0/24\", \"permit 0.0.0.0/0\"");
    net.reload(
        &both,
        &[
            "FRR: no ip prefix-list wanted seq 5 permit 198.51.100.0/24",
            "FRR: ip prefix-list wanted seq 5 permit 203.0.113.0/24",
            "FRR: ip prefix-list wanted seq 10 permit 0.0.0.0/0",
            "the BGP session with 10.2.0.2 is kept, and its routes are judged again (prefix-list)",
        ],
    );
    net.route("203.0.113.0/24", true);
    net.route("198.51.100.0/24", false);
    assert_eq!(net.resets(), 1);

    // What FRR's grammar has not, and what its daemon refuses, at the end of much that it takes.
    let bad = |line: &str| {
        let more = "[interface.br7]\nkind = \"bridge\"\n";
        let file = both
            .replace("the server", "somebody")
            .replace("[policy.prefix_list]", "[policy.prefix_list]\nmore = [\"permit 192.0.2.0/24\"]");
        format!("{file}{more}[routing]\nfrr = '''\nrouter bgp 65001\n {line}\n'''\n")
    };
    net.refused(
        &bad("neighbor 10.2.0.2 frobnicate"),
        "FRR refuses \"neighbor 10.2.0.2 frobnicate\": Unknown command",
    );
    net.refused(&bad("neighbor 10.2.0.99 description x"), "Specify remote-as or peer-group commands first");
    net.refused(&bad("timers bgp 60 180"), "but does not show it so");
    let missing = format!("{both}[ospf6]\n");
    net.refused(&missing, "[ospf6] needs FRR's ospf6d, which does not run");
    assert_eq!(net.resets(), 1);

    // What resets the session is told.
    net.reload(
        &both.replace("connect_retry", "update_source = \"10.2.0.1\"\npassword = \"geheim\"\nconnect_retry"),
        &[
            "FRR: router bgp 65001: neighbor 10.2.0.2 password ***",
            "FRR: router bgp 65001: neighbor 10.2.0.2 update-source 10.2.0.1",
            "the BGP session with 10.2.0.2 is reset (password, update-source)",
        ],
    );
    net.theirs.vtysh("configure terminal\nrouter bgp 65002\nneighbor 10.2.0.1 password geheim").unwrap();
    wait_for("the session again", SOON, || match net.resets() {
        2 => Ok(()),
        resets => Err(resets.to_string()),
    })
    .unwrap();
    assert!(!net.line.router.log().contains("geheim"));

    // FRR ends, the file changes, and FRR is back: it is told all. The password is gone with it.
    let file = net.file(FILE);
    let Net { ours, theirs, customer, line } = net;
    drop(ours);
    line.router.configure(&file).unwrap();
    line.router.ask("reload").unwrap();
    theirs.vtysh("configure terminal\nrouter bgp 65002\nno neighbor 10.2.0.1 password").unwrap();
    line.router.host().run(&format!("rm -r {}", line.router.host().folder().join("frr").display())).unwrap();
    let ours = Frr::start(line.router.host(), &["bgpd", "ospfd"], "", false).unwrap();
    let net = Net { ours, theirs, customer, line };
    net.route("198.51.100.0/24", true);
    assert_eq!(net.line.router.ask("reload --dry-run").unwrap().trim(), "nothing would change");
}

#[test]
fn a_default_route_is_told_by_ospf_while_bgp_has_one() {
    let Some(net) = net() else { return };
    net.reload(
        &FILE.replace("\"permit 198.51.100.0/24\"", "\"permit 198.51.100.0/24\", \"permit 0.0.0.0/0\""),
        &[
            "FRR: ip prefix-list wanted seq 10 permit 0.0.0.0/0",
            "the BGP session with 10.2.0.2 is kept, and its routes are judged again (prefix-list)",
        ],
    );
    net.route("198.51.100.0/24", true);
    net.default(false);
    let tell = |no: &str| {
        let lines = format!(
            "configure terminal\nrouter bgp 65002\naddress-family ipv4 unicast\n{no}neighbor 10.2.0.1 default-originate"
        );
        net.theirs.vtysh(&lines).unwrap();
    };
    for is in [true, false] {
        tell(if is { "" } else { "no " });
        net.default(is);
    }
    // What the file says no more is taken back; what others said is theirs.
    let (_, rest) = FILE.split_once("[policy").unwrap();
    let file = net.file(&format!("[policy{rest}"));
    net.line.router.configure(&file).unwrap();
    let said = net.line.router.ask("reload --dry-run").unwrap();
    assert!(
        said.contains("FRR: no router bgp 65001") && said.contains("the BGP session with 10.2.0.2 ends"),
        "{said}"
    );
    net.line.router.ask("reload").unwrap();
    let running = net.ours.vtysh("show running-config").unwrap();
    assert!(
        !running.contains("\nrouter ")
            && !running.contains("ip ospf")
            && running.contains(" description theirs"),
        "{running}"
    );
}

/// Keys of the neighbour's, of which edits choose.
const NEIGHBOUR: [&[&str]; 8] = [
    &["", "description = \"one\"", "description = \"another\""],
    &["", "keepalive = \"5s\"\nhold = \"15s\""],
    &["", "", "update_source = \"10.2.0.1\""],
    &["", "advertisement_interval = \"1s\""],
    &["", "", "graceful_restart = \"helper\"", "graceful_restart = \"off\""],
    &["", "", "ebgp_multihop = 3"],
    &["", "bfd = false"],
    &["", "", "extended_next_hop = true"],
];
/// And of what is exchanged with it.
const EXCHANGED: [&[&str]; 8] = [
    &["prefix_list_in = \"wanted\"", "prefix_list_in = \"all\"", ""],
    &["", "route_map_in = \"in\""],
    &["", "next_hop_self = true"],
    &["", "allowas_in = 2"],
    &["", "send_community = [\"large\"]"],
    &["", "", "add_path = \"all\""],
    &["", "maximum_prefix = 100\nmaximum_prefix_warning_only = true"],
    &["", "weight = 7", "frobnicate = 1"],
];

/// Random edits, of which some are wrong: those change nothing; after the others FRR has what the
/// file says, and the session was reset if that was told, and only then. `EDITS` says how many.
#[test]
fn sessions_are_reset_as_was_told_and_not_else() {
    let Some(net) = net() else { return };
    let established = || {
        wait_for("the session", SOON, || {
            let state = net.ours.show("show bgp neighbors json").map_err(|error| error.to_string())?;
            match state["10.2.0.2"]["bgpState"].as_str() {
                Some("Established") => Ok(()),
                state => Err(format!("{state:?}")),
            }
        })
        .unwrap();
    };
    established();
    let edits = std::env::var("EDITS").ok().and_then(|edits| edits.parse().ok()).unwrap_or(12);
    let mut random = Random(11);
    let (mut refused, mut resets, mut quiet) = (0, 0, 0);
    for edit in 0..edits {
        let mut own = String::new();
        let mut exchanged = String::new();
        for (keys, text) in [(&NEIGHBOUR[..], &mut own), (&EXCHANGED[..], &mut exchanged)] {
            for keys in keys {
                *text += &format!("{}\n", keys[random.below(keys.len())]);
            }
        }
        let file = FILE
            .replace("description = \"the server\"\n", &own)
            .replace("ipv4 = { prefix_list_in = \"wanted\" }\n", "")
            .replace("[ospf]\n", &format!("[bgp.neighbour.\"10.2.0.2\".ipv4]\n{exchanged}[ospf]\n"))
            + "all = [\"permit 0.0.0.0/0 le 32\"]\n[[policy.route_map.in]]\nset = { metric = 5 }\n";
        let before = net.resets();
        net.line.router.configure(&net.file(&file)).unwrap();
        let Ok(said) = net.line.router.ask("reload --dry-run") else {
            refused += 1;
            continue;
        };
        net.line.router.ask("reload").unwrap_or_else(|error| panic!("{edit}: {error}\n{file}"));
        let told = said.contains("the BGP session with 10.2.0.2 is reset");
        if told {
            wait_for("the reset", SOON, || if net.resets() > before { Ok(()) } else { Err(said.clone()) })
                .unwrap();
        }
        established();
        assert_eq!(net.line.router.ask("reload --dry-run").unwrap().trim(), "nothing would change");
        assert_eq!(net.resets() > before, told, "{edit}: {said}");
        if told { resets += 1 } else { quiet += 1 }
    }
    assert!(refused + resets + quiet == edits && resets > 0 && quiet > 0, "{refused} {resets} {quiet}");
}

/// From any file to any other, with FRR itself: it takes every line, and shows it as it was told.
#[test]
fn from_any_file_to_any_other() {
    let _turn = turn();
    let lab = Lab::new("anyfile").unwrap();
    let host = lab.router("router").unwrap();
    host.run("ip link add eth0 type veth peer name eth1").unwrap();
    let daemons = ["bgpd -M bmp", "ospfd", "ospf6d", "isisd", "ripd", "ripngd", "pimd", "bfdd", "staticd"];
    let daemon = Frr::start(&host, &daemons, "", false).unwrap();
    let shell = format!("vtysh --vty_socket {0} --config_dir {0}", daemon.sockets().display());
    let lines = host.folder().join("lines");
    let mut random = Random(7);
    let mut before = Routing::default();
    let mut told = 0;
    for round in 0..20 {
        let after = file::random(&mut random);
        let (owned, wanted) = (Owned::of(&before, &after), render(&after));
        let mut left = Vec::new();
        for _ in 0..3 {
            let from = owned.part(&Config::parse(&daemon.vtysh("show running-config").unwrap()));
            left = diff(&from, &wanted);
            if left.is_empty() {
                break;
            }
            let (text, _) = script(&left);
            std::fs::write(&lines, &text).unwrap();
            let said = host.run(&format!("{shell} -f {} 2>&1 || true", lines.display())).unwrap();
            assert!(!said.contains("line "), "round {round}\n{said}\n{text}\nfrom {}", from.text());
            let _ = sessions::effects(&from, &wanted, &left);
            told += left.len();
        }
        assert!(left.is_empty(), "round {round}: {left:?}\n{}", daemon.vtysh("show running-config").unwrap());
        before = after;
    }
    assert!(told > 300, "{told}");
}
