//! FTP before a real server and client: data connections pass a stateful filter because the control
//! connection has announced them, both active and passive, in both families, and through a
//! masquerade and NAT64, where the announcement has to be changed. (The network of `network.rs`.)

use std::time::Duration;

use lab::Process;

use crate::network::{Line, NAT64, SERVER, ports};

const RULES: &str = r#"
[filter.forward]
rules = '''
accept state established,related
accept icmp
accept icmpv6
accept tcp to any port 21 in left state new
drop
'''
"#;

const NAT: &str = r#"
[[nat.rule]]
name = "home"
type = "masquerade"
out = "right"
"#;

fn network(name: &str, more: &str) -> Option<Line> {
    let config = ports("worker", &["left", "right"]) + "[flow]\nmemory = 16\n" + RULES + more;
    let net = Line::stopped(name, &config);
    net.router.is_bifrost().then(|| net.started())
}

/// A server that has a file of 300 kB, and does not know a command.
fn server(net: &Line, unknown: &str) -> Vec<Process> {
    let program = format!(
        "from pyftpdlib import handlers, __main__; handlers.proto_cmds.pop(\"{unknown}\", None); __main__.main()"
    );
    let serve = format!(
        "d=$(mktemp -d); head -c 300000 /dev/urandom > $d/file; exec /usr/bin/python3 -W ignore -c '{program}' -p 21 -d $d -i"
    );
    let one = |address: &str| {
        let mut command = net.server.command("sh");
        command.args(["-c", &format!("{serve} {address}")]);
        net.server.spawn("ftpd", command).unwrap()
    };
    let servers = SERVER.map(one).into();
    lab::wait_for("both to listen", Duration::from_secs(10), || {
        let listening = net.server.run("ss -Hltn sport = :21").map_err(|error| error.to_string())?;
        if listening.lines().count() == 2 { Ok(()) } else { Err(listening) }
    })
    .unwrap();
    servers
}

fn fetch(net: &Line, options: &str, address: &str) -> Result<String, String> {
    let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let get = format!("curl -sS --max-time 10 {options} ftp://{address}/file | wc -c");
    net.customer.run(&get).map(|said| said.trim().to_owned()).map_err(|error| error.to_string())
}

#[test]
fn active_and_passive_in_both_families() {
    let Some(net) = network("ftp", "") else { return };
    let _servers = server(&net, "");
    for address in SERVER {
        for options in ["", "--disable-epsv", "-P -", "-P - --disable-eprt"] {
            if address.contains(':') && options.contains("disable") {
                continue;
            }
            assert_eq!(fetch(&net, options, address).unwrap(), "300000", "{options} {address}");
        }
    }
    // Nothing but what was announced.
    let mut other = net.server.command("python3");
    other.args(["-m", "http.server", "8000"]);
    let _other = net.server.spawn("other", other).unwrap();
    net.server.listens(8000).unwrap();
    assert!(net.customer.run("curl -sf --max-time 2 http://10.2.0.2:8000/").is_err());
}

#[test]
fn active_and_passive_behind_a_masquerade() {
    let Some(net) = network("ftp-nat", NAT) else { return };
    let _servers = server(&net, "");
    net.customer.reaches(SERVER[0], Duration::from_secs(10)).unwrap();
    for options in ["", "--disable-epsv", "-P -", "-P - --disable-eprt"] {
        assert_eq!(fetch(&net, options, SERVER[0]).unwrap(), "300000", "{options}");
    }
    assert_eq!(fetch(&net, "-P -", SERVER[1]).unwrap(), "300000");
}

#[test]
fn active_and_passive_from_ipv6_to_ipv4() {
    let Some(net) = network("ftp-64", NAT64) else { return };
    let _servers = server(&net, "EPSV");
    let far = format!("64:ff9b::{}", SERVER[0]);
    net.customer.reaches(&far, Duration::from_secs(10)).unwrap();
    for options in ["", "-P -"] {
        assert_eq!(fetch(&net, options, &far).unwrap(), "300000", "{options}");
    }
}
