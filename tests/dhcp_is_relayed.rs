//! A host gets its addresses of both families from servers beyond the router, which know on which
//! link it is; what must not pass does not, and is counted. (The network of `network.rs`; the
//! servers are Kea at the server, the clients BusyBox's and dhcpcd.)

use std::fs;
use std::time::Duration;

use lab::{Capture, Host, Process, wait_for};
use serde_json::Value;

use crate::network::{LANES, Line, kea, ports};

const SOON: Duration = Duration::from_secs(20);

/// Hosts get an address only where the server is told the link and the router.
const KEA4: &str = r#"{"Dhcp4": {
  "interfaces-config": {"interfaces": ["eth0"], "dhcp-socket-type": "udp"},
  "lease-database": {"type": "memfile", "persist": false},
  "client-classes": [{"name": "left", "test": "relay4[1].hex == 'left' and relay4[2].hex == 'north'"}],
  "subnet4": [{"id": 1, "subnet": "10.1.0.0/24", "option-data": [{"name": "routers", "data": "10.1.0.1"}],
               "pools": [{"pool": "10.1.0.50 - 10.1.0.59", "client-class": "left"}]}]
}}"#;
const KEA6: &str = r#"{"Dhcp6": {
  "interfaces-config": {"interfaces": ["eth0/2001:db8:2::2"]},
  "lease-database": {"type": "memfile", "persist": false}, "server-id": {"type": "LLT", "persist": false},
  "subnet6": [{"id": 1, "subnet": "2001:db8:1::/64", "pools": [{"pool": "2001:db8:1::1000 - 2001:db8:1::10ff"}]}]
}}"#;

const RELAY: &str = "[dhcp_relay.hosts]\ninterfaces = [\"left\", \"nowhere\"]\n\
                     servers = [\"10.2.0.2\", \"2001:db8:2::2\"]\nremote_id = \"north\"\n";

/// Asks once, and says what it gets.
const CLIENT4: &str = "busybox udhcpc -f -q -n -t 5 -T 2 -i eth0 -s ./client";
const CLIENT6: &str = "unshare -m sh -c 'mount -t tmpfs none /run/dhcpcd; mount -t tmpfs none /var/lib/dhcpcd
                       exec timeout 20 dhcpcd --nobackground --oneshot -6 --config $PWD/dhcpcd.conf eth0'";

struct Net {
    line: Line,
    _servers: [Process; 2],
}

impl Net {
    fn new(lane: &str) -> Option<Net> {
        let line = Line::stopped("relay", "");
        if !line.router.is_bifrost() {
            return None;
        }
        line.router.configure(&(ports(lane, &["left", "right"]) + RELAY)).unwrap();
        let line = line.started();
        let _servers = [kea(&line.server, "kea-dhcp4", KEA4), kea(&line.server, "kea-dhcp6", KEA6)];
        let files = [
            ("client", "#!/bin/sh\n[ \"$1\" != bound ] || echo \"got $ip by $router\"\n"),
            ("dhcpcd.conf", "noipv6rs\nia_na 1\nscript /bin/true\n"),
        ];
        for (name, text) in files {
            fs::write(line.customer.folder().join(name), text).unwrap();
        }
        line.customer.run(&format!("chmod +x {}", line.customer.folder().join("client").display())).unwrap();
        Some(Net { line, _servers })
    }

    fn at_customer(&self, script: &str) -> String {
        let folder = self.line.customer.folder().display().to_string();
        self.line
            .customer
            .run(&format!("cd {folder}; mkdir -p /run/dhcpcd /var/lib/dhcpcd; {script} 2>&1 || true"))
            .unwrap()
    }

    /// A host is given what it asks for.
    fn serves(&self) {
        let log = || self.line.router.log();
        wait_for("an address of IPv4", SOON, || match self.at_customer(CLIENT4) {
            said if said.contains("got 10.1.0.5") && said.contains("by 10.1.0.1") => Ok(()),
            said => Err(said + &log()),
        })
        .unwrap();
        wait_for("an address of IPv6", 2 * SOON, || {
            let said = self.at_customer(CLIENT6);
            let shown = self.line.customer.run("ip -6 address show eth0").unwrap();
            if said.contains("adding address 2001:db8:1::10") { Ok(()) } else { Err(said + &shown + &log()) }
        })
        .unwrap();
    }

    fn shown(&self, interface: &str, family: &str) -> Value {
        let all = self.line.router.show("dhcp-relay").unwrap();
        let is = |one: &&Value| one["interface"] == interface && one["family"] == family;
        all.as_array().unwrap().iter().find(is).cloned().unwrap_or_default()
    }

    fn count(&self, family: &str, what: &str) -> u64 {
        self.shown("left", family)[what].as_u64().unwrap()
    }

    fn refuses(&self, family: &str, from: &Host, script: &str) {
        let before = self.count(family, "refused");
        from.scapy(script).unwrap();
        wait_for("a refusal", SOON, || match self.shown("left", family) {
            shown if shown["refused"].as_u64() > Some(before) => Ok(()),
            shown => Err(shown.to_string()),
        })
        .unwrap();
    }
}

#[test]
fn in_each_lane() {
    for lane in LANES {
        let Some(mut net) = Net::new(lane) else { return };
        net.serves();
        for family in ["ipv4", "ipv6"] {
            assert!(net.count(family, "asked") >= 2 && net.count(family, "answered") >= 2, "{family}");
            assert_eq!(net.count(family, "lost"), 0, "{family}");
            let missing = net.shown("nowhere", family);
            assert_eq!(missing["silent"], "there is no interface nowhere");
        }
        net.line.router.kill_nine();
        net.line.router.restart().unwrap();
        net.serves();

        // A host that says itself on which link it is, and servers that nobody asked.
        let discover = "BOOTP(chaddr=b'\\x02\\0\\0\\0\\0\\x09', xid=7) \
                        / DHCP(options=[('message-type', 'discover'), b'\\x52\\x03\\x01\\x01x', 'end'])";
        net.refuses(
            "ipv4",
            &net.line.customer,
            &format!(
                "sendp(Ether(dst='ff:ff:ff:ff:ff:ff') / IP(src='0.0.0.0', dst='255.255.255.255') \
                 / UDP(sport=68, dport=67) / {discover}, iface='eth0', verbose=False)"
            ),
        );
        net.line
            .server
            .run("ip address add 10.2.0.3/24 dev eth0; ip address add 2001:db8:2::3/64 dev eth0 nodad")
            .unwrap();
        let mut heard = Capture::start(&net.line.customer, "eth0", "udp port 68 or udp port 546").unwrap();
        net.refuses(
            "ipv4",
            &net.line.server,
            "send(IP(src='10.2.0.3', dst='10.1.0.1') / UDP(sport=67, dport=67) \
             / BOOTP(op=2, giaddr='10.1.0.1', yiaddr='10.1.0.66', chaddr=b'\\x02\\0\\0\\0\\0\\x09') \
             / DHCP(options=[('message-type', 'offer'), 'end']), verbose=False)",
        );
        net.refuses(
            "ipv6",
            &net.line.server,
            "send(IPv6(src='2001:db8:2::3', dst='2001:db8:1::1') / UDP(sport=547, dport=547) \
             / DHCP6_RelayReply(linkaddr='2001:db8:1::1', peeraddr='fe80::9') \
             / DHCP6OptIfaceId(ifaceid=b'left') / DHCP6OptRelayMsg(message=DHCP6_Advertise(trid=7)), verbose=False)",
        );
        let caught = fs::read(heard.stop().unwrap()).unwrap();
        assert_eq!(caught.len(), 24, "a forged answer has come to hosts");

        // Without the section nothing is relayed.
        net.line.router.configure(&ports(lane, &["left", "right"])).unwrap();
        let told = net.line.router.ask("reload --dry-run").unwrap();
        assert_eq!(told.trim(), "[dhcp_relay.hosts]: nothing is relayed any more");
        net.line.router.ask("reload").unwrap();
        wait_for("the end of the relay", SOON, || {
            match net.at_customer("busybox udhcpc -f -q -n -t 2 -T 1 -i eth0 -s ./client") {
                said if said.contains("got ") => Err(said),
                _ => Ok(()),
            }
        })
        .unwrap();
    }
}
