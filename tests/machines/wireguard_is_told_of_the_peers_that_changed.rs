//! WireGuard of the file: two routers speak by it; a reload that adds, changes and removes peers
//! disturbs no other; a peer that moves is followed, and not taken back. (Hosts a and b, with a
//! link.)

use std::time::Duration;

use lab::{Host, Lab, Ping, Router, inside, wait_for};

use crate::network::turn;

/// Private and public keys.
const A: [&str; 2] =
    ["IFO+wRrCM6IGUNjz11C7E7Iulvq3RZjvFiWC4K2vp3A=", "gpY/W+X0/flXKjfBGxHNRrDXCPZjJr/XQwbIH66IwFc="];
const B: [&str; 2] =
    ["2Bp3sc66aKMwSSreS3+Cfr27e/17hbr0tXLVx9UWQkw=", "hO+FbK2l1pOE7Ed0+RH/lF/70g5FS/kzqMhFOcJdNzs="];
const SHARED: &str = "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=";
const THIRD: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

fn file(own: usize, port: u16, private: &str) -> String {
    let (other, public) = [(2, B[1]), (1, A[1])][own - 1];
    format!(
        "without_ports = \"on\"\n[interface.wg0]\nkind = \"wireguard\"\nprivate_key = {private}\n\
         listen_port = {port}\naddresses = [\"10.200.0.{own}/24\"]\n\
         [interface.wg0.peer.other]\npublic_key = \"{public}\"\npreshared_key = \"{SHARED}\"\n\
         endpoint = \"192.0.2.{other}:51820\"\nallowed_ips = [\"10.200.0.{other}/32\"]\n"
    )
}

fn third(more: &str) -> String {
    format!("[interface.wg0.peer.third]\npublic_key = \"{THIRD}\"\n{more}\n")
}

/// A reload does what it says, and another one nothing.
fn reload(router: &Router, file: &str, effects: &[&str]) {
    router.configure(file).unwrap();
    let told = router.ask("reload --dry-run").unwrap();
    assert_eq!(told.lines().collect::<Vec<_>>(), effects, "{told}");
    router.ask("reload").unwrap_or_else(|wrong| panic!("{wrong}\n{told}"));
    assert_eq!(router.ask("reload --dry-run").unwrap().trim(), "nothing would change", "{told}");
}

fn two_routers() {
    let _turn = turn();
    let lab = Lab::new("wireguard").unwrap();
    let [a, b]: [Host; 2] = ["a", "b"].map(|name| lab.router(name).unwrap());
    lab.link(a.end("eth0").address("192.0.2.1/24"), b.end("eth0").address("192.0.2.2/24")).unwrap();
    let key = a.folder().join("wg.key");
    std::fs::write(&key, format!("{}\n", A[0])).unwrap();
    let of_a = file(1, 51820, &format!("{{ file = {key:?} }}"));
    let of_b = |port| file(2, port, &format!("{:?}", B[0]));
    let mut router = Router::start(&a, &of_a).unwrap();
    let other = Router::start(&b, &of_b(51820)).unwrap();
    assert_eq!(router.ask("reload --dry-run").unwrap().trim(), "nothing would change", "{}", router.log());
    wait_for("the peers to speak", Duration::from_secs(20), || {
        a.run("ping -c 1 -W 1 10.200.0.2").map(|_| ()).map_err(|error| format!("{error}{}", router.log()))
    })
    .unwrap();
    let shown = other.ask("show config").unwrap();
    assert!(!shown.contains(B[0]) && !shown.contains(SHARED) && shown.contains(A[1]), "{shown}");

    // Whoever does not change does not notice.
    let ping = Ping::start(&a, "10.200.0.2", Duration::from_millis(50)).unwrap();
    let allowed = "allowed_ips = [\"10.9.0.0/16\", \"2001:db8:9::/48\"]\nendpoint = \"192.0.2.9:9\"";
    let peer = |what: &str| format!("wg0: peer {THIRD} {what}");
    reload(&router, &(of_a.clone() + &third(allowed)), &[&peer("is added")]);
    let less = "allowed_ips = [\"10.9.0.0/16\"]\nkeepalive = 25\nendpoint = \"192.0.2.9:9\"";
    reload(&router, &(of_a.clone() + &third(less)), &[&peer("changes")]);
    let moved = less.replace("192.0.2.9:9", "192.0.2.9:10");
    reload(&router, &(of_a.clone() + &third(&moved)), &[&peer("changes")]);
    // What Linux refuses later is undone: the third one stays.
    let refused = of_a.clone() + "[[route]]\nto = \"10.0.0.0/8\"\nvia = \"172.16.9.9\"\n";
    router.configure(&refused).unwrap();
    let said = router.ask("reload").unwrap_err().to_string();
    assert!(said.contains("route 10.0.0.0/8 is added via 172.16.9.9"), "{said}");
    router.configure(&(of_a.clone() + &third(&moved))).unwrap();
    assert_eq!(router.ask("reload --dry-run").unwrap().trim(), "nothing would change");
    reload(&router, &of_a, &[&peer("is removed")]);
    let ping = ping.stop();
    assert!(ping.sent > 20 && ping.lost() == 0, "{ping:?}");

    // One that moves is followed.
    reload(&other, &of_b(51999), &["wg0: the UDP port is 51999"]);
    b.run("ping -c 3 -i 0.3 -W 2 10.200.0.1").unwrap();
    assert_eq!(router.ask("reload --dry-run").unwrap().trim(), "nothing would change");
    a.run("ping -c 3 -i 0.3 -W 2 10.200.0.2").unwrap();

    // What it has becomes a file again, and goes with the file.
    let imported = a.folder().join("imported.toml");
    router.ask(&format!("import linux --output {}", imported.display())).unwrap();
    let text = std::fs::read_to_string(&imported).unwrap();
    for what in [A[0], B[1], SHARED, "192.0.2.2:51999", "listen_port = 51820"] {
        assert!(text.contains(what), "{what}: {text}");
    }
    router.kill_nine();
    router.configure("without_ports = \"on\"\n").unwrap();
    router.restart().unwrap();
    assert!(!a.run("ip -br link").unwrap().contains("wg0"));
}

#[test]
fn on_6_12() {
    inside!("6.12", two_routers);
}
