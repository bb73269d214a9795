//! An interface with `dhcp = true` has the address and the routes that a server gives it, and keeps
//! them while Bifrost is killed, started and told something else, and while its client is started
//! anew. By IPv6 another interface has part of the prefix that it is given, and hosts hear of that.
//! (The network of `network.rs`; the server is the DHCP server, and a script starts the client.)

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use lab::{Ping, Process, wait_for};

use crate::network::{Line, kea, ports};

const SOON: Duration = Duration::from_secs(20);

/// Notes what it is told, and has it done: Bifrost itself may not do so much as a client needs.
const MANAGER: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
pid=$(cat pid 2>/dev/null)
[ "$1" != is-active ] || { [ -n "$pid" ] && [ -e "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status"; exit; }
echo "$1 $2" >> orders
echo "$1" > order.new
mv order.new order
while [ -e order ]; do sleep 0.02; done
"#;

/// Does what is told, as systemd would. The client's own files are nobody else's.
const SYSTEMD: &str = r#"
mkdir -p /run/dhcpcd /var/lib/dhcpcd
while sleep 0.02; do
  [ -e order ] || continue
  [ ! -e pid ] || { kill "$(cat pid)"; wait; rm pid; }
  if grep -q restart order; then
    unshare -m sh -c 'mount -t tmpfs none /run/dhcpcd; mount --bind leases /var/lib/dhcpcd
                      exec dhcpcd --nobackground --config "$PWD/etc/bifrost/dhcpcd.conf"' >> log 2>&1 &
    echo $! > pid
  fi
  rm order
done
"#;

const SERVED: &str = "start 10.2.0.50\nend 10.2.0.50\ninterface eth0\noption subnet 255.255.255.0\n\
                      option router 10.2.0.2\noption lease 600\n";

struct Net {
    line: Line,
    _server: Process,
    _systemd: Process,
}

impl Drop for Net {
    fn drop(&mut self) {
        if let Err(error) =
            self.line.router.host().run(&format!("{} stop bifrost-dhcp", self.at("manager").display()))
        {
            eprintln!("{error}");
        }
    }
}

impl Net {
    fn new() -> Option<Net> {
        let line = Line::stopped("dhcp", "");
        if !line.router.is_bifrost() {
            return None;
        }
        let conf = line.server.folder().join("udhcpd.conf");
        let kept = line.server.folder().join("udhcpd.leases");
        fs::write(&kept, "").unwrap();
        fs::write(&conf, format!("{SERVED}lease_file {}\npidfile {}.pid\n", kept.display(), kept.display()))
            .unwrap();
        let mut udhcpd = line.server.command("busybox");
        udhcpd.args(["udhcpd", "-f"]).arg(conf);
        let _server = line.server.spawn("udhcpd", udhcpd).unwrap();
        let host = line.router.host();
        for folder in ["etc/bifrost", "leases"] {
            fs::create_dir_all(host.folder().join("root").join(folder)).unwrap();
        }
        let mut systemd = host.command("sh");
        systemd.args(["-c", SYSTEMD]).current_dir(host.folder().join("root"));
        let _systemd = host.spawn("systemd", systemd).unwrap();
        let net = Net { line, _server, _systemd };
        // Its client gives up root's rights.
        net.line.router.host().run(&format!("chown dhcpcd {}", net.at("leases").display())).unwrap();
        fs::write(net.at("manager"), MANAGER).unwrap();
        fs::set_permissions(net.at("manager"), fs::Permissions::from_mode(0o755)).unwrap();
        Some(net)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.line.router.host().folder().join("root").join(path)
    }

    fn configure(&self, sections: &str) {
        let (root, manager) = (self.at(""), self.at("manager"));
        let own = format!("[service]\nroot = {root:?}\nmanager = {manager:?}\n");
        self.line.router.configure(&(ports("auto", &["left", "right"]) + &own + sections)).unwrap();
    }

    fn reload(&self, sections: &str, effects: &[&str]) {
        self.configure(sections);
        let told = self.line.router.ask("reload --dry-run").unwrap();
        assert_eq!(told.lines().collect::<Vec<_>>(), effects, "{told}");
        self.line.router.ask("reload").unwrap();
        assert_eq!(self.line.router.ask("reload --dry-run").unwrap().trim(), "nothing would change");
    }

    /// What the script was told since it was last asked.
    fn orders(&self) -> Vec<String> {
        let orders = fs::read_to_string(self.at("orders")).unwrap_or_default();
        let _ = fs::remove_file(self.at("orders"));
        orders.lines().map(str::to_owned).collect()
    }

    fn has(&self, command: &str, text: &str) {
        wait_for(text, SOON, || {
            let said = self.line.router.host().run(command).unwrap();
            let log = || fs::read_to_string(self.at("log")).unwrap_or_default();
            if said.contains(text) { Ok(()) } else { Err(said + &log() + &self.line.router.log()) }
        })
        .unwrap();
    }
}

/// What Kea gives the router.
const PREFIXES: &str = r#"{"Dhcp6": {
  "interfaces-config": {"interfaces": ["eth0"]},
  "lease-database": {"type": "memfile", "persist": false}, "server-id": {"type": "LLT", "persist": false},
  "subnet6": [{"id": 1, "subnet": "2001:db8:2::/64", "interface": "eth0",
    "pools": [{"pool": "2001:db8:2::1000 - 2001:db8:2::10ff"}],
    "pd-pools": [{"prefix": "2001:db8:f00::", "prefix-len": 40, "delegated-len": 56}]}]
}}"#;

fn client(more: &str) -> String {
    format!("[interface.right]\ndhcp = true\n{more}")
}

#[test]
fn and_stay_whatever_is_started_anew() {
    let Some(mut net) = Net::new() else { return };
    net.configure("");
    net.line.router.restart().unwrap();
    net.line.reachable();
    net.reload(&client("dhcp_metric = 77\n"), &["bifrost-dhcp starts (dhcp of [interface])"]);
    net.has("ip -4 address show right", "inet 10.2.0.50/24");
    net.has("ip -4 route show default", "default via 10.2.0.2 dev right proto dhcp src 10.2.0.50 metric 77");
    assert_eq!(net.orders(), ["restart bifrost-dhcp"]);

    // Nobody removes it from here on.
    let host = net.line.router.host().clone();
    let mut monitor = host.command("ip");
    monitor.args(["-4", "monitor", "address", "dev", "right"]);
    let watch = host.spawn("monitor", monitor).unwrap();
    let ping = Ping::start(&net.line.server, "10.2.0.50", Duration::from_millis(20)).unwrap();
    let listed = "dhcp_metric = 77\naddresses = [\"10.2.0.1/24\", \"10.2.0.9/24\", \"2001:db8:2::1/64\"]\n";
    net.reload(&client(listed), &["right: address 10.2.0.9/24 is added"]);
    net.line.router.kill_nine();
    net.line.router.restart().unwrap();
    assert_eq!(net.line.router.ask("reload --dry-run").unwrap().trim(), "nothing would change");
    net.line.router.stop().unwrap();
    net.line.router.restart().unwrap();
    assert_eq!(net.orders(), Vec::<String>::new());
    net.reload(
        &client(&listed.replace("77", "78")),
        &["bifrost-dhcp restarts (dhcp of [interface]); addresses stay"],
    );
    net.has("ip -4 route show default", "default via 10.2.0.2 dev right proto dhcp src 10.2.0.50 metric 78");
    let ping = ping.stop();
    assert!(ping.sent > 20 && ping.lost() * 20 < ping.sent, "{ping:?}");
    let seen = watch.output();
    assert!(!seen.contains("Deleted"), "{seen}");

    net.reload(
        &client(listed).replace("dhcp = true\ndhcp_metric = 77\n", ""),
        &["bifrost-dhcp stops: there is no dhcp of [interface]"],
    );
    assert_eq!(net.orders(), ["restart bifrost-dhcp", "stop bifrost-dhcp"]);
}

#[test]
fn and_parts_of_a_prefix_reach_hosts() {
    let Some(mut net) = Net::new() else { return };
    let _server = kea(&net.line.server, "kea-dhcp6", PREFIXES);
    net.configure("");
    net.line.router.restart().unwrap();
    let sections = "[interface.right]\ndhcp6 = true\nprefix_length = 56\n\
                    [interface.left]\nprefix_of = \"right\"\nprefix_number = 3\n\
                    [discovery.left]\ninterface = \"left\"\n[discovery.left.ipv6]\ninterval = \"4s\"\n";
    net.reload(
        sections,
        &["bifrost-dhcp starts (dhcp of [interface])", "[discovery.left]: hosts are told of it at once"],
    );
    net.has("ip -6 address show right", "inet6 2001:db8:2::10");
    net.has("ip -6 address show left", "inet6 2001:db8:f00:3::1/64");
    net.has("ip -6 route show", "unreachable 2001:db8:f00::/56");
    wait_for("an advertisement", SOON, || {
        let heard = net.line.customer.run("rdisc6 -1 eth0").unwrap();
        let told = heard.split_once("2001:db8:f00:3::/64").map(|(_, rest)| rest).unwrap_or_default();
        if told.contains("5400 (0x00001518)") { Ok(()) } else { Err(heard) }
    })
    .unwrap();
}
