//! A router whose workers keep flows, filter and translate, with a network behind an interface that
//! is none of their ports: connections to and from there, of which workers see one direction only,
//! and the router's own, live by Linux's copy of the rules. (The network of `network.rs`, with an
//! annex.)

use std::time::Duration;

use lab::Host;

use crate::network::{Line, ports};

const POLICY: &str = r#"
[flow]
memory = 16

[filter.input]
policy = "drop"
rules = '''
accept state established,related
drop state invalid
accept icmp
accept in left
accept tcp in right to any port 8000,8080
'''

[filter.forward]
policy = "drop"
rules = '''
accept state established,related
drop state invalid
accept in left state new
accept tcp to 10.3.0.2 port 8000 state new
'''

[[nat.rule]]
name = "home"
type = "masquerade"
out = "right"

[[nat.rule]]
name = "web"
type = "destination"
in = "right"
protocol = "tcp"
destination = "10.2.0.1/32"
ports = "8080"
to = "10.3.0.2:8000"
"#;

/// Whether a page can be fetched from there.
fn fetches(from: &Host, address: &str) -> bool {
    from.run(&format!("curl -sf --max-time 3 http://{address}/ >/dev/null")).is_ok()
}

#[test]
fn and_the_routers_own_connections() {
    let mut net = Line::stopped("annex", &(ports("worker", &["left", "right"]) + POLICY));
    if !net.router.is_bifrost() {
        return;
    }
    let annex = net.lab.host("annex").unwrap();
    net.lab
        .link(annex.end("eth0").address("10.3.0.2/24"), net.router.host().end("annex").address("10.3.0.1/24"))
        .unwrap();
    annex.run("ip route add default via 10.3.0.1").unwrap();
    net.server.run("ip route del default; ip route add 10.3.0.0/24 via 10.2.0.1").unwrap();
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    let router = net.router.host();
    let webs = [(&annex, 8000), (&annex, 9000), (&net.customer, 8000), (&net.server, 8000), (router, 9000)];
    let _webs = webs.map(|(host, port)| {
        let mut web = host.command("python3");
        web.args(["-m", "http.server", &port.to_string()]);
        let web = host.spawn(&format!("web{port}"), web).unwrap();
        host.listens(port).unwrap();
        web
    });
    for (way, from, to) in [
        ("by ports alone", &net.customer, "10.2.0.2:8000"),
        ("out by no port", &net.customer, "10.3.0.2:8000"),
        ("in by no port", &annex, "10.1.0.2:8000"),
        ("in by no port, masqueraded", &annex, "10.2.0.2:8000"),
        ("to a forwarded port, and out by no port", &net.server, "10.2.0.1:8080"),
        ("out by no port, from outside", &net.server, "10.3.0.2:8000"),
        ("from the router", router, "10.2.0.2:8000"),
        ("to the router", &net.customer, "10.1.0.1:9000"),
    ] {
        assert!(fetches(from, to), "{way}: {}\n{}", net.router.subject("drops").unwrap(), net.router.log());
    }
    net.server.run("ip route add 10.1.0.0/24 via 10.2.0.1").unwrap();
    for (way, from, to) in [
        ("from outside", &net.server, "10.1.0.2:8000"),
        ("to the router from outside", &net.server, "10.2.0.1:9000"),
        ("to another port of the annex", &net.server, "10.3.0.2:9000"),
    ] {
        assert!(!fetches(from, to), "{way}");
    }
    for (question, said) in [
        (
            "10.1.0.2 > 10.3.0.2 tcp 5000:8000 in left",
            &[
                "Linux  ",
                "judges and translates it",
                "of chain input: accept in left",
                "of chain forward: accept in left state new",
            ][..],
        ),
        ("10.2.0.2 > 10.3.0.2 tcp 5000:9000 in right", &["dropped by the policy of chain input"]),
        (
            "10.2.0.2 > 10.2.0.1 tcp 5000:9000 in right",
            &["handed to Linux", "dropped by the policy of chain input"],
        ),
        ("10.3.0.2 > 10.2.0.2 tcp 5000:80 in annex", &["no port of Bifrost's", "translates it, or not"]),
        ("10.2.0.1 > 10.2.0.2 tcp 5000:80", &["from this machine", "translates it, or not"]),
        ("10.1.0.2 > 10.2.0.2 tcp 5000:80 in left", &["comes from 10.2.0.1:5000", "sent by right"]),
    ] {
        let explained = net.router.ask(&format!("explain '{question}'")).unwrap();
        assert!(said.iter().all(|said| explained.contains(said)), "{explained}");
        assert_eq!(explained.contains(" Linux  "), !explained.contains("sent by"), "{explained}");
    }
}
