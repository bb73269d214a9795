//! NPTv6 before real hosts (RFC 6296): a customer's own prefix is another one outside, both ways,
//! without the host part's owner being hidden. (The network of `network.rs`.)

use std::time::Duration;

use crate::network::{Line, ports};

const NAT: &str = r#"
[[nat.rule]]
name = "ours"
type = "nptv6"
out = "right"
inside = "2001:db8:1::/64"
outside = "2001:db8:ff01::/64"
fallback = "closed"
"#;

#[test]
fn both_ways() {
    let config = ports("worker", &["left", "right"]) + "[flow]\nmemory = 16\n" + NAT;
    let mut net = Line::made("nptv6", &config, 1500, 1);
    if !net.router.is_bifrost() {
        return;
    }
    net.router.restart().unwrap();
    net.customer.reaches("2001:db8:2::2", Duration::from_secs(10)).unwrap();
    let mut seen = net.server.command("sh");
    seen.args(["-c", "tcpdump -n -l -i eth0 'icmp6 and ip6[40] == 128'"]);
    let seen = net.server.spawn("tcpdump", seen).unwrap();
    lab::wait_for("a request to be seen", Duration::from_secs(10), || {
        net.customer.run("ping -6 -c 1 -W 1 2001:db8:2::2").map_err(|error| error.to_string())?;
        match seen.output().contains("2001:db8:ff01:") {
            true => Ok(()),
            false => Err(seen.output()),
        }
    })
    .unwrap();
    assert!(!seen.output().contains("2001:db8:1::2 >"), "{}", seen.output());
    // The server calls by the outside address, which it has just seen.
    let outside = seen.output();
    let at = outside.find("2001:db8:ff01:").unwrap();
    let outside: String = outside[at..].chars().take_while(|c| !c.is_whitespace()).collect();
    net.server.run(&format!("ping -6 -c 3 -i 0.2 -W 2 {outside}")).unwrap();
    let mut web = net.customer.command("python3");
    web.args(["-m", "http.server", "--bind", "2001:db8:1::2", "8000"]);
    let _web = net.customer.spawn("web", web).unwrap();
    net.customer.listens(8000).unwrap();
    net.server.run(&format!("curl -sf --max-time 5 'http://[{outside}]:8000/' >/dev/null")).unwrap();
}
