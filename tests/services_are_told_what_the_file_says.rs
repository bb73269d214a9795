//! Kea, unbound and chrony serve a host what the file says; a commit touches only those of which
//! something changed, and all of it or nothing. (The network of `network.rs`; the router's daemons
//! have their files in a folder of the router's, and are started and stopped by a script.)

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use lab::{Process, wait_for};

use crate::network::{Line, ports};

const SOON: Duration = Duration::from_secs(20);

/// Notes what it is told, and does it.
const MANAGER: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
pid=$(cat "$2.pid" 2>/dev/null)
runs() { [ -n "$pid" ] && [ -e "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status"; }
[ "$1" != is-active ] || { runs; exit; }
echo "$1 $2" >> orders
! runs || kill "$pid"
while runs; do sleep 0.02; done
rm -f "$2.pid"
[ "$1" != stop ] || exit 0
case $2 in
  kea-dhcp4-server)
    KEA_LOCKFILE_DIR=none KEA_PIDFILE_DIR=$PWD kea-dhcp4 -c "$PWD/etc/kea/kea-dhcp4.conf" >> log 2>&1 & ;;
  unbound) unbound -d -c "$PWD/etc/unbound/unbound.conf" >> log 2>&1 & ;;
  chrony) chronyd -d -x -u root "include $PWD/etc/chrony/chrony.conf" "pidfile $PWD/chronyd" "cmdport 0" \
    "bindcmdaddress /" >> log 2>&1 & ;;
esac
echo $! > "$2.pid"
"#;

/// What the client of DHCP got.
const CLIENT: &str = "#!/bin/sh\n[ \"$1\" != bound ] || echo \"$ip by $router, $dns, $domain\"\n";

/// A name server beyond the router, who knows a name.
const BEYOND: &str = r#"
server:
  interface: 10.2.0.2
  access-control: 0.0.0.0/0 allow
  username: ""
  chroot: ""
  directory: ""
  use-syslog: no
  pidfile: ""
  local-data: "www.corp.example. A 203.0.113.80"
  local-data: "www.example.net. A 203.0.113.81"
remote-control:
  control-enable: no
"#;

const SERVICES: &str = r#"
[service.dhcp.subnet.hosts]
prefix = "10.1.0.0/24"
interface = "left"
pools = ["10.1.0.100-10.1.0.109"]
routers = ["10.1.0.1"]
dns = ["10.1.0.1"]
domain = "home.arpa"

[service.dns]
listen = ["10.1.0.1", "2001:db8:1::1", "192.0.2.99"]
access = ["10.1.0.0/24", "2001:db8:1::/64"]
forward = ["10.2.0.2"]
[service.dns.records]
"printer.home.arpa" = ["10.1.0.9", "2001:db8:1::9"]
[service.dns.zone."corp.example"]
forward = ["10.2.0.2@53"]

[service.ntp]
local_stratum = 7
serve = ["10.1.0.0/24"]
"#;

struct Net {
    line: Line,
    _beyond: Process,
}

impl Drop for Net {
    fn drop(&mut self) {
        for unit in ["kea-dhcp4-server", "unbound", "chrony"] {
            let stop = format!("{} stop {unit}", self.at("manager").display());
            if let Err(error) = self.line.router.host().run(&stop) {
                eprintln!("{error}");
            }
        }
    }
}

impl Net {
    fn new() -> Option<Net> {
        let line = Line::stopped("served", "");
        if !line.router.is_bifrost() {
            return None;
        }
        let beyond = line.server.folder().join("unbound.conf");
        fs::write(&beyond, BEYOND).unwrap();
        let mut unbound = line.server.command("unbound");
        unbound.args(["-d", "-c"]).arg(beyond);
        let _beyond = line.server.spawn("unbound", unbound).unwrap();
        let net = Net { line, _beyond };
        for folder in ["etc/kea", "etc/unbound/unbound.conf.d", "etc/chrony", "var/lib/kea", "var/lib/chrony"]
        {
            fs::create_dir_all(net.at(folder)).unwrap();
        }
        let main = format!(
            "include-toplevel: \"{}/*.conf\"\nserver:\n username: \"\"\n chroot: \"\"\n directory: \"\"\n \
             use-syslog: no\n pidfile: \"\"\nremote-control:\n control-enable: no\n",
            net.at("etc/unbound/unbound.conf.d").display()
        );
        fs::write(net.at("etc/unbound/unbound.conf"), main).unwrap();
        for (name, text) in [("manager", MANAGER), ("client", CLIENT)] {
            fs::write(net.at(name), text).unwrap();
            fs::set_permissions(net.at(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        Some(net)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.line.router.host().folder().join("root").join(path)
    }

    fn configure(&self, sections: &str) {
        let (root, manager) = (self.at(""), self.at("manager"));
        let own = format!("[service]\nroot = {root:?}\nmanager = {manager:?}\n");
        let text = ports("auto", &["left", "right"]) + &own + sections;
        self.line.router.configure(&text).unwrap();
    }

    /// What the script was told since it was last asked.
    fn orders(&self) -> Vec<String> {
        let orders = fs::read_to_string(self.at("orders")).unwrap_or_default();
        let _ = fs::remove_file(self.at("orders"));
        orders.lines().map(str::to_owned).collect()
    }

    /// A commit that says and does this, and no more.
    fn commit(&self, sections: &str, effects: &[&str], orders: &[&str]) {
        self.configure(sections);
        let said = self.line.router.ask("commit --check").unwrap();
        assert_eq!(said.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(), effects, "{said}");
        self.line.router.ask("commit").unwrap();
        assert_eq!(self.orders(), orders);
    }

    fn state(&self) -> String {
        let log = fs::read_to_string(self.at("log")).unwrap_or_default();
        format!("{}\n{log}", self.line.router.log())
    }

    /// What the customer is answered for a name.
    fn resolves(&self, question: &str, answer: &str) {
        let dig = format!("dig +short +tries=1 +time=1 @10.1.0.1 {question}");
        wait_for(&format!("{question} is {answer}"), SOON, || match self.line.customer.run(&dig) {
            Ok(said) if said.trim() == answer => Ok(()),
            said => Err(format!("{said:?}\n{}", self.state())),
        })
        .unwrap();
    }

    /// What the customer gets by DHCP.
    fn leases(&self, lease: &str) {
        let client =
            format!("busybox udhcpc -f -q -n -t 3 -T 1 -i eth0 -s {} 2>&1", self.at("client").display());
        wait_for(&format!("the lease {lease}"), SOON, || match self.line.customer.run(&client) {
            Ok(said) if said.lines().any(|line| line == lease) => Ok(()),
            said => Err(format!("{said:?}\n{}", self.state())),
        })
        .unwrap();
    }
}

#[test]
fn hosts_are_served_and_only_what_changed_is_touched() {
    let Some(mut net) = Net::new() else { return };
    net.configure(SERVICES);
    net.line.router.restart().unwrap();
    net.resolves("printer.home.arpa", "10.1.0.9");
    net.resolves("-x 2001:db8:1::9", "printer.home.arpa.");
    net.resolves("www.corp.example", "203.0.113.80");
    net.resolves("www.example.net", "203.0.113.81");
    net.leases("10.1.0.100 by 10.1.0.1, 10.1.0.1, home.arpa");
    let ask = "python3 -c \"import socket; s = socket.socket(2, 2); s.settimeout(2)
s.sendto(b'\\x23' + bytes(47), ('10.1.0.1', 123)); print(s.recv(99)[1])\"";
    wait_for("the time", SOON, || match net.line.customer.run(ask) {
        Ok(stratum) if stratum.trim() == "7" => Ok(()),
        said => Err(format!("{said:?}\n{}", net.state())),
    })
    .unwrap();
    assert_eq!(net.orders(), ["restart kea-dhcp4-server", "restart unbound", "restart chrony"]);
    // A restart of the router touches none of them.
    net.line.router.restart().unwrap();

    let printer = "[service.dns.records]\n\"printer.home.arpa\" = \"10.1.0.8\"\n";
    let (before, rest) = SERVICES.split_once("[service.dns.records]").unwrap();
    let moved = format!("{before}{printer}{}", &rest[rest.find("[service.dns.zone").unwrap()..]);
    let effects = ["unbound restarts ([service.dns]); its cache is empty then"];
    net.commit(&moved, &effects, &["restart unbound"]);
    net.resolves("printer.home.arpa", "10.1.0.8");

    let mac = net.line.customer.mac("eth0").unwrap();
    let reserved = format!(
        "{moved}[service.dhcp.subnet.hosts.reservation.customer]\nmac = \"{mac}\"\naddress = \"10.1.0.77\"\n"
    );
    let effects = ["kea-dhcp4-server restarts ([service.dhcp]); leases stay"];
    net.commit(&reserved, &effects, &["restart kea-dhcp4-server"]);
    net.leases("10.1.0.77 by 10.1.0.1, 10.1.0.1, home.arpa");

    // What a daemon refuses, behind others that would take theirs.
    let wrong = reserved.replace("domain = ", "options = { no-such-option = \"1\" }\ndomain = ");
    net.configure(&wrong.replace("10.1.0.8", "10.1.0.7"));
    for command in ["commit --check", "commit"] {
        let said = net.line.router.client(command);
        let said = net.line.router.host().run(&format!("{said} 2>&1 || true")).unwrap();
        assert!(said.contains("[service.dhcp]: kea-dhcp4-server refuses it"), "{said}");
        assert!(said.contains("no-such-option"), "{said}");
    }
    assert_eq!(net.orders(), Vec::<String>::new());
    net.resolves("printer.home.arpa", "10.1.0.8");

    net.line.router.ask("rollback 2 --force").unwrap();
    assert_eq!(net.orders(), ["restart kea-dhcp4-server"]);
    net.leases("10.1.0.100 by 10.1.0.1, 10.1.0.1, home.arpa");

    // Without sections they have what they had before: unbound its own file.
    net.configure("");
    net.line.router.ask("commit").unwrap();
    assert_eq!(net.orders(), ["stop kea-dhcp4-server", "restart unbound", "stop chrony"]);
    let left: Vec<_> = ["etc/kea", "etc/unbound/unbound.conf.d", "etc/chrony"]
        .iter()
        .flat_map(|folder| fs::read_dir(net.at(folder)).unwrap())
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!net.line.router.log().contains("cannot be made again"), "{}", net.state());
}
