//! `linux_filter = "adopt"` where Linux translates addresses: the plane does so by the same rules,
//! in its own lanes; connections live on when rules change, when they become Linux's, and when the
//! daemon is killed. (The network of `network.rs`.)

use std::time::Duration;

use lab::{Ping, wait_for};

use crate::a_firewall_of_linux_is_respected::{lanes, nft};
use crate::network::{Line, flow_of_iperf, overheard, ports};

/// A router at home, as many write it.
const HOME: &str = "\
table inet home {
  chain forward {
    type filter hook forward priority filter; policy drop;
    counter
    ct state vmap { established : accept, related : accept, invalid : drop }
    iifname \"left\" oifname \"right\" accept
    iifname \"right\" ct status dnat accept
  }
  chain sizes {
    type filter hook forward priority mangle;
    oifname \"right\" tcp flags syn / fin,syn,rst tcp option maxseg size set 1200
  }
  chain before {
    type nat hook prerouting priority dstnat;
    iifname \"right\" jump forwarded
  }
  chain forwarded {
    ip saddr 10.2.0.99 return
    ip daddr 10.2.0.1 dnat ip addr . port to tcp dport map { 8080 : 10.1.0.2 . 8000 }
  }
  chain behind {
    type nat hook postrouting priority srcnat;
    ip saddr 10.1.0.0/24 ip daddr 192.0.2.0/24 accept
    ip saddr 10.1.0.0/24 oifname != \"left\" masquerade
  }
}
";

fn network(name: &str) -> Option<Line> {
    let config = format!("linux_filter = \"adopt\"\n{}", ports("auto", &["left", "right"]));
    let mut net = Line::stopped(name, &config);
    if !net.router.is_bifrost() {
        return None;
    }
    net.server.run("ip route del default; ip route add 10.2.0.0/24 dev eth0 2>/dev/null || true").unwrap();
    net.router.host().run(&format!("nft -f - <<'END'\n{HOME}END")).unwrap();
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    Some(net)
}

/// How many packets Linux itself has judged at `forward`.
fn judged_by_linux(net: &Line) -> u64 {
    let counted = "nft list chain inet home forward | sed -n 's/.*packets \\([0-9]*\\).*/\\1/p'";
    net.router.host().run(counted).unwrap().trim().parse().unwrap()
}

fn is_linuxs(net: &Line, linuxs: bool) {
    wait_for("the change to be taken in", Duration::from_secs(10), || match lanes(net) {
        lanes if lanes.iter().all(|(_, why)| why.contains("Linux") == linuxs) => Ok(()),
        lanes => Err(format!("{lanes:?}")),
    })
    .unwrap();
}

#[test]
fn hosts_behind_it_reach_the_world_and_are_reached() {
    let Some(net) = network("adopted-nat") else { return };
    is_linuxs(&net, false);
    let seen = overheard(&net.server, "src host 10.1.0.2");
    let mut inside = net.customer.command("python3");
    inside.args(["-m", "http.server", "--bind", "10.1.0.2", "8000"]);
    let inside = net.customer.spawn("inside", inside).unwrap();
    net.customer.listens(8000).unwrap();
    let mut web = net.server.command("python3");
    web.args(["-m", "http.server", "--bind", "10.2.0.2", "8000"]);
    let web = net.server.spawn("web", web).unwrap();
    net.server.listens(8000).unwrap();
    net.customer.run("ping -c 2 -i 0.2 -W 1 10.2.0.2").unwrap();
    let before = judged_by_linux(&net);

    let opened = overheard(&net.server, "src host 10.2.0.1 and tcp[tcpflags] & tcp-syn != 0");
    let ping = Ping::start(&net.customer, "10.2.0.2", Duration::from_millis(10)).unwrap();
    for _ in 0..10 {
        net.customer.run("curl -sf --max-time 5 http://10.2.0.2:8000/ >/dev/null").unwrap();
        net.server.run("curl -sf --max-time 5 http://10.2.0.1:8080/ >/dev/null").unwrap();
    }
    assert!(web.output().contains("10.2.0.1 - -") && inside.output().contains("10.2.0.2 - -"));
    // Exempt, and forbidden: from an address that the chain for forwards returns, and to the port
    // behind the forward itself.
    net.server.run("ip address add 10.2.0.99/24 dev eth0").unwrap();
    assert!(net.server.run("curl -sf --interface 10.2.0.99 --max-time 1 http://10.2.0.1:8080/").is_err());
    assert!(net.server.run("curl -sf --max-time 1 http://10.2.0.1:8000/").is_err());
    let ping = ping.stop();
    assert_eq!(ping.lost(), 0, "{ping:?}");
    assert!(!seen.output().contains("10.1.0.2"), "an inside address was outside: {}", seen.output());
    let opened = opened.output();
    assert!(opened.matches("mss 1200").count() >= 10 && !opened.contains("mss 1460"), "{opened}");
    // It was the plane: of some hundred packets Linux judged hardly one.
    let by_linux = judged_by_linux(&net) - before;
    assert!(by_linux < 10, "Linux judged {by_linux}");

    let nat = net.router.subject("nat").unwrap();
    let flows = |name: &str| -> u64 {
        let rules = nat["rules"].as_array().unwrap().iter();
        let of = rules.filter(|rule| rule["name"].as_str().unwrap().starts_with(name));
        of.map(|rule| rule["flows"].as_u64().unwrap()).sum()
    };
    assert!(flows("inet home behind handle") > 10 && flows("inet home forwarded handle") == 10, "{nat}");
    let explained = net.router.ask("explain '10.1.0.2 > 10.2.0.2 udp 5000:53 in left'").unwrap();
    assert!(explained.contains("rule inet home behind handle") && explained.contains("10.2.0.1:5000"));
    let log = net.router.log();
    assert!(log.contains("for translation"), "{log}");
}

#[test]
fn connections_live_on_whatever_comes() {
    let Some(mut net) = network("adopted-nat-on") else { return };
    is_linuxs(&net, false);
    let mut server = net.server.command("iperf3");
    server.args(["-s", "--forceflush"]);
    let _server = net.server.spawn("iperf3", server).unwrap();
    net.server.listens(5201).unwrap();
    net.server.run("sysctl -qw net.ipv4.tcp_rto_max_ms=1000").unwrap();
    // The server sends: what comes from outside has nobody inside who speaks first.
    let mut client = net.customer.command("iperf3");
    client.args(["-c", "10.2.0.2", "-R", "-t", "300", "-b", "20M"]);
    let mut client = net.customer.spawn("iperf3", client).unwrap();
    wait_for("the transfer", Duration::from_secs(5), || flow_of_iperf(&net.router)).unwrap();
    let (translated, _) = flow_of_iperf(&net.router).unwrap();
    let received = |net: &Line| net.customer.interface_number("eth0", "statistics/rx_bytes").unwrap();
    let goes_on = |net: &Line, what: &str| {
        let before = received(net);
        wait_for(what, Duration::from_secs(20), || match received(net) - before {
            1_000_000.. => Ok(()),
            few => Err(format!("{few} bytes")),
        })
        .unwrap_or_else(|error| panic!("{what}: {error}\n{}", net.state()));
    };
    // Without an answer the server sends again: what comes then was for Linux to judge.
    let tries = |net: &Line| {
        let sent = || net.server.interface_number("eth0", "statistics/tx_packets").unwrap();
        let before = sent();
        wait_for("the server to try again", Duration::from_secs(10), || match sent() - before {
            3.. => Ok(()),
            few => Err(format!("{few} packets")),
        })
        .unwrap();
    };
    goes_on(&net, "a transfer");

    // Another rule, of the filter and of translation.
    nft(net.router.host(), &["insert rule inet home forward udp dport 9 drop"]);
    nft(
        net.router.host(),
        &["insert rule inet home behind ip saddr 10.1.0.77 oifname \"right\" snat ip to 10.2.0.1"],
    );
    wait_for("it to be taken in", Duration::from_secs(10), || {
        let shown = net.router.ask("show nat").unwrap();
        if shown.contains("source") { Ok(()) } else { Err(shown) }
    })
    .unwrap();
    goes_on(&net, "a transfer while rules change");
    assert_eq!(flow_of_iperf(&net.router).unwrap().0, translated);

    // What the plane does not understand makes it Linux's, and what is gone again the plane's.
    nft(net.router.host(), &["insert rule inet home behind meta mark 5 masquerade random"]);
    is_linuxs(&net, true);
    tries(&net);
    let shown = net.router.ask("show mirror").unwrap();
    assert!(shown.contains("not adopted: inet home behind handle"), "{shown}");
    let handle = "nft -a list chain inet home behind | sed -n 's/.*random.*# handle //p'";
    let handle = net.router.host().run(handle).unwrap();
    nft(net.router.host(), &[&format!("delete rule inet home behind handle {}", handle.trim())]);
    is_linuxs(&net, false);
    goes_on(&net, "a transfer that is the plane's again");
    assert_eq!(flow_of_iperf(&net.router).unwrap().0, translated);

    // A restart, and a kill. What Linux sees meanwhile it does not reset.
    net.router.stop().unwrap();
    tries(&net);
    net.router.restart().unwrap();
    assert!(net.router.log().contains("flows go on"), "{}", net.router.log());
    goes_on(&net, "a transfer after a restart");
    net.router.kill_nine();
    tries(&net);
    net.router.restart().unwrap();
    is_linuxs(&net, false);
    goes_on(&net, "a transfer after both");
    assert_eq!(flow_of_iperf(&net.router).unwrap().0, translated);
    assert!(client.ended().is_none(), "{}", client.output());
}
