//! `[[nat.clamp]]` before real hosts: TCP connections over a narrow way hold their segments down
//! from the start, without an ICMP error that would tell them. (The network of `network.rs`, with
//! 1,300 bytes to the server.)

use crate::network::{Line, NAT64, SERVER, overheard, ports};

#[test]
fn in_both_families() {
    let nat = "[nat]\n[[nat.clamp]]\nmss = \"path\"\n";
    let config = ports("worker", &["left", "right"]) + "[flow]\nmemory = 16\n" + nat;
    let net = Line::made("clamp", &config, 1300, 1);
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    let mut web = net.server.command("python3");
    web.args(["-m", "http.server", "--bind", "::", "8000"]);
    let _web = net.server.spawn("web", web).unwrap();
    net.server.listens(8000).unwrap();
    let seen = overheard(&net.server, "tcp[tcpflags] & tcp-syn != 0 or (ip6 and ip6[53] & 2 != 0)");
    let back = overheard(&net.customer, "tcp[tcpflags] & tcp-syn != 0 or (ip6 and ip6[53] & 2 != 0)");
    for (address, mss) in SERVER.into_iter().zip(["mss 1260", "mss 1240"]) {
        let url = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        lab::wait_for("the option", std::time::Duration::from_secs(10), || {
            net.customer
                .run(&format!("curl -sf --max-time 5 http://{url}:8000/ >/dev/null"))
                .map_err(|error| error.to_string())?;
            let (there, here) = (seen.output(), back.output());
            match there.contains(mss) && here.contains(mss) {
                true => Ok(()),
                false => Err(format!("{mss}: {there}\n{here}")),
            }
        })
        .unwrap();
    }
    assert!(!seen.output().contains("mss 1460"), "{}", seen.output());
}

/// The way is IPv4's, whose headers are shorter: the customer is told what fits it, and the server
/// what fits both.
#[test]
fn from_ipv6_to_ipv4() {
    let clamp = "[[nat.clamp]]\nmss = \"path\"\n";
    let config = ports("worker", &["left", "right"]) + "[flow]\nmemory = 16\n" + NAT64 + clamp;
    let net = Line::made("clamp64", &config, 1300, 1);
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    let mut web = net.server.command("python3");
    web.args(["-m", "http.server", "8000"]);
    let _web = net.server.spawn("web", web).unwrap();
    net.server.listens(8000).unwrap();
    let seen = overheard(&net.server, "tcp[tcpflags] & tcp-syn != 0");
    let back = overheard(&net.customer, "ip6[53] & 2 != 0");
    lab::wait_for("the option", std::time::Duration::from_secs(10), || {
        let get = "curl -sf --max-time 5 http://[64:ff9b::10.2.0.2]:8000/ >/dev/null";
        net.customer.run(get).map_err(|error| error.to_string())?;
        let (there, here) = (seen.output(), back.output());
        match there.contains("mss 1260") && here.contains("[S.]") {
            true => Ok(()),
            false => Err(format!("{there}\n{here}")),
        }
    })
    .unwrap();
    let answers = back.output();
    // Its own 1,260 fits the customer's way as well.
    assert!(
        answers.lines().filter(|line| line.contains("[S.]")).all(|line| line.contains("mss 1260")),
        "{answers}"
    );
}
