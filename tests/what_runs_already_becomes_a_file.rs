//! `bifrost import`: what `ip` and FRR's shell have made becomes a file, and putting that in force
//! changes nothing. (The network of `network.rs`; the router's FRR speaks BGP with the server's,
//! and at the router is a cable a0-a1.)

use std::fs;
use std::time::Duration;

use lab::{Frr, wait_for};

use crate::network::Line;

const SERVER: &str = "
router bgp 65002
 no bgp ebgp-requires-policy
 neighbor 10.2.0.1 remote-as 65001
 neighbor 10.2.0.1 password geheim
 neighbor 10.2.0.1 timers connect 1
exit
";

/// As people write it: with FRR's defaults, a group, areas as numbers, and what has no key.
const ROUTER: &str = "
ip route 10.77.0.0/16 Null0
interface left
 description the customer
 ip ospf area 0
 ip ospf hello-interval 5
exit
router bgp 65001
 bgp router-id 10.2.0.1
 neighbor INSIDE peer-group
 neighbor INSIDE remote-as 65001
 neighbor 10.1.0.2 peer-group INSIDE
 neighbor 10.2.0.2 remote-as 65002
 neighbor 10.2.0.2 description the server
 neighbor 10.2.0.2 password geheim
 neighbor 10.2.0.2 advertisement-interval 3
 neighbor 2001:db8:2::2 remote-as 65002
 address-family ipv4 unicast
  network 10.1.0.0/24
  neighbor 10.2.0.2 route-map ALL in
  neighbor 10.2.0.2 prefix-list OWN out
  neighbor 10.2.0.2 soft-reconfiguration inbound
  no neighbor 2001:db8:2::2 activate
 exit-address-family
 address-family ipv6 unicast
  neighbor 2001:db8:2::2 activate
 exit-address-family
exit
router ospf
 area 1 stub
 default-information originate metric 7
exit
ip prefix-list OWN seq 5 permit 10.1.0.0/24
ip prefix-list OWN seq 10 permit 10.3.0.0/16 le 24
ip prefix-list ANY seq 5 permit any
bgp community-list standard MINE seq 5 permit 65001:7
route-map ALL permit 10
 match community MINE
 set local-preference 200
exit
route-map ALL permit 20
exit
";

const LINUX: &str = "
ip link add a0 type veth peer name a1; ip link set a1 up
ip link add lan type bridge; ip link set a0 master lan; ip link set a0 up
ip link set lan address 02:00:00:00:00:09 mtu 1400 alias 'the hosts' up
ip address add 192.0.2.1/24 dev lan; ip address add 2001:db8:3::1/64 dev lan nodad
ip address add 198.51.100.9/32 dev lo
ip route add 198.51.100.0/24 via 10.2.0.2
ip route add 203.0.113.0/24 via 10.2.0.2 proto static metric 7
ip route add blackhole 203.0.113.0/25
ip route add 100.64.0.0/16 nexthop via 10.2.0.2 nexthop via 10.2.0.3
ip route add 100.65.0.0/16 via 10.2.0.2 mtu 1300
ip -6 route add 2001:db8:9::/48 via 2001:db8:2::2
ip route add 100.66.0.0/16 via 10.2.0.2 proto dhcp
ip rule add from 10.99.0.0/16 table 99
";

#[test]
fn and_changes_nothing() {
    let mut net = Line::stopped("import", "");
    if !net.router.is_bifrost() {
        return;
    }
    let host = net.router.host().clone();
    host.run(LINUX).unwrap();
    let _theirs = Frr::start(&net.server, &["bgpd"], SERVER, false).unwrap();
    let ours = Frr::start(&host, &["bgpd", "ospfd", "staticd"], ROUTER, false).unwrap();
    let resets = || {
        let all = ours.show("show bgp neighbors json").unwrap();
        all["10.2.0.2"]["connectionsEstablished"].as_u64().unwrap()
    };
    wait_for("the session", Duration::from_secs(20), || match resets() {
        1 => Ok(()),
        other => Err(other.to_string()),
    })
    .unwrap();
    // All that there is, but Bifrost's own device.
    let state = || {
        let shown = "ip -br link | grep -v bifrost0; ip -br address | grep -v bifrost0; ip link show lan
                     ip -4 route show table all; ip -6 route show table all; ip rule";
        (host.run(shown).unwrap(), ours.vtysh("show running-config").unwrap())
    };
    let before = state();

    // What is printed has no secret; the file has it, and is for its owner alone.
    let import =
        |words: &str| net.router.client(&format!("import --sockets {} {words}", ours.sockets().display()));
    let printed = host.run(&import("2>&1")).unwrap();
    assert!(!printed.contains("geheim") && printed.contains("secrets are covered"), "{printed}");
    let path = host.folder().join("imported.toml");
    let said = host.run(&import(&format!("--output {} 2>&1", path.display()))).unwrap();
    let left = "ip route 100.65.0.0/16 table 254: there is no key for metrics";
    assert!(said.contains(left) && printed.contains(&format!("# - Linux: {left}")), "{said}\n{printed}");
    assert!(printed.contains("[[rule]]\npriority = 32765\n"), "{printed}");
    assert!(!said.contains("100.66") && !said.contains("10.77"), "{said}");
    assert!(
        host.run(&import(&format!("--output {} 2>&1", path.display()))).is_err(),
        "it overwrites nothing"
    );
    let mode = host.run(&format!("stat -c %a {}", path.display())).unwrap();
    let file = fs::read_to_string(&path).unwrap();
    assert!(mode.trim() == "600" && file.contains("password = \"geheim\""), "{mode}{file}");
    for section in [
        "[interface.lan]\nkind = \"bridge\"\nmembers = [\"a0\"]\ndescription = \"the hosts\"\n\
         mac = \"02:00:00:00:00:09\"\nmtu = 1400\naddresses = [\"192.0.2.1/24\", \"2001:db8:3::1/64\"]\n",
        "[interface.lo]\naddresses = [\"198.51.100.9/32\"]\n",
        "[[route]]\nto = \"203.0.113.0/24\"\nvia = \"10.2.0.2\"\nmetric = 7\n",
        "[[route]]\nto = \"203.0.113.0/25\"\nkind = \"blackhole\"\n",
        "[[route]]\nto = \"100.64.0.0/16\"\nvia = [\"10.2.0.2\", \"10.2.0.3\"]\n",
        "[bgp.neighbour.\"10.2.0.2\"]\nremote_as = 65002\ndescription = \"the server\"\n",
        "[ospf.interface.left]\narea = \"0.0.0.0\"\nhello = \"5s\"\n",
        "\nadvertisement_interval = \"3s\"\n",
        "\n neighbor 10.1.0.2 peer-group INSIDE\n",
        "\nip route 10.77.0.0/16 Null0\n",
    ] {
        assert!(file.contains(section), "{section}\n{file}");
    }

    // The plan is empty, and the start, a reload and a commit do nothing.
    let checked = host.run(&net.router.client(&format!("check {} --json", path.display()))).unwrap();
    let checked: serde_json::Value = serde_json::from_str(&checked).unwrap();
    assert_eq!(checked["plan"], serde_json::json!([]), "{file}\n{}", before.1);
    net.router.configure(&file).unwrap();
    net.router.restart().unwrap();
    let nothing = || assert_eq!(net.router.ask("reload --dry-run").unwrap().trim(), "nothing would change");
    nothing();
    net.router.ask("reload").unwrap();
    assert_eq!(state(), before);
    assert_eq!(resets(), 1);

    // From here on it is the file's: what is taken out of it goes, whoever made it.
    let shorter = file.replacen("[[route]]\nto = \"198.51.100.0/24\"\nvia = \"10.2.0.2\"\n", "", 1);
    net.router.configure(&shorter.replace("hello = \"5s\"\n", "")).unwrap();
    let said = net.router.ask("reload --dry-run").unwrap();
    let effects = [
        "FRR: interface left: no ip ospf hello-interval 5",
        "OSPF on left is reset (hello-interval)",
        "route 198.51.100.0/24 is removed",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), effects);
    net.router.ask("reload").unwrap();
    nothing();
    // A shell finds nothing more to take over.
    let state = host.folder().join("shell");
    let cli = format!("cli --state {} -c 'configure private' -c 'load import' 2>&1", state.display());
    let said = host.run(&net.router.client(&cli)).unwrap();
    assert!(said.contains("\n0 change(s)") && !said.contains("not taken: the file"), "{said}");
    let routes = host.run("ip route").unwrap();
    assert!(
        !routes.contains("198.51.100.0/24") && routes.contains("203.0.113.0/24 via 10.2.0.2"),
        "{routes}"
    );
}
