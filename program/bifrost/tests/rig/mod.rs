//! A daemon that forwards nothing and always says the same, behind a real control socket.

#![allow(dead_code)] // each test binary uses its own part

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bifrost::control::status::*;
use bifrost::control::*;
use bifrost::subject::{
    Answered, ApiAddress, ApiStatus, ApiToken, BfdSession, BfdStatus, DiscoveryStatus, Entry, OtherRouter,
    RedundancyState, RepairStatus, SharingStatus, VirtualRouterStatus,
};
use flowlog::Record;
use flowlog::record::{Counts, Key};
use ipnet::{IpNet, Ipv4Net};
use sharing::Figures;

/// What the tests can set and see of the fake daemon.
#[derive(Default)]
pub struct Fake {
    /// Routes in its table.
    pub routes: u64,
    /// Items that a trace or capture sends without a pause; 0: one packet every 10 ms.
    pub flood: u64,
    /// Observers that were told to go.
    pub closed: Arc<AtomicU64>,
    /// Requests for pages of routes.
    pub pages: AtomicU64,
    /// It answers nothing sensible.
    pub broken: AtomicBool,
    /// Where it says that its flow log is.
    pub flow_files: PathBuf,
    /// The last capture that was asked for.
    pub captured: Mutex<Option<CaptureRequest>>,
}

/// The n-th route of the fake table: 10.0.0.0/32 and up.
fn route(n: u64) -> RouteEntry {
    let address = Ipv4Addr::from(0x0a00_0000 + n as u32);
    RouteEntry {
        prefix: IpNet::V4(Ipv4Net::new(address, 32).unwrap()),
        origin: "bgp".into(),
        table: 254,
        metric: 20,
        from: None,
        tos: None,
        kind: RouteKind::Forward,
        next_hops: vec![NextHop {
            via: Some("198.18.0.1".parse().unwrap()),
            dev: "eth0".into(),
            weight: 1,
            mac: Some("02:00:00:00:00:01".into()),
            resolved: true,
        }],
        selected: true,
        programmed: true,
    }
}

impl Fake {
    fn feed<T: Send + 'static>(&self, make: fn(u64) -> T) -> Feed<T> {
        let (sender, listener) = feed(1024);
        let (flood, closed) = (self.flood, self.closed.clone());
        thread::spawn(move || {
            let end = Instant::now() + Duration::from_secs(20);
            for n in 1.. {
                sender.send(make(n));
                if sender.closed() {
                    closed.fetch_add(1, Relaxed);
                }
                if sender.closed() || Instant::now() > end || (flood > 0 && n >= flood) {
                    return;
                }
                if flood == 0 {
                    thread::sleep(Duration::from_millis(10));
                }
            }
        });
        listener
    }
}

impl Fake {
    fn version(&self) -> Result<Version, String> {
        Ok(Version {
            version: "0.1.0".into(),
            pid: 4711,
            uptime_seconds: 187,
            configuration: Some("/etc/bifrost/router.toml".into()),
        })
    }

    fn ports(&self) -> Result<Vec<PortStatus>, String> {
        if self.broken.load(Relaxed) {
            return Err("the control thread does not answer".into());
        }
        let traffic = |packets| Traffic { packets, bytes: packets * 64 };
        let eth0 = PortStatus {
            name: "eth0".into(),
            index: 0,
            ifindex: 2,
            state: PortState::Up,
            mac: Some("02:00:00:00:00:10".into()),
            mtu: 1500,
            speed_mbps: Some(10_000),
            driver: Some("veth".into()),
            xdp_mode: Some(XdpMode::Native),
            mode_reason: Some("copies: veth has no zero-copy".into()),
            lane: Some(Lane::Express),
            lane_reason: Some("auto: no zero-copy".into()),
            redirect_target: true,
            queues: vec![QueueStatus {
                queue: 0,
                worker: Some(0),
                received: 12_000,
                ..QueueStatus::default()
            }],
            received: Lanes { express: traffic(1_000_000), worker: traffic(12_000), linux: traffic(345) },
            sent: Lanes { express: traffic(900_000), worker: traffic(11_000), linux: traffic(300) },
            drops: 42,
            rates: PortRates::default(),
        };
        Ok(vec![eth0, PortStatus { name: "eth1".into(), index: 1, ..PortStatus::default() }])
    }

    fn interfaces(&self) -> Result<Vec<InterfaceStatus>, String> {
        let traffic = |packets| Traffic { packets, bytes: packets * 68 };
        let eth0 = InterfaceStatus {
            name: "eth0".into(),
            ifindex: 2,
            kind: "veth".into(),
            port: "eth0".into(),
            mac: "02:00:00:00:00:10".into(),
            mtu: 1500,
            up: true,
            addresses: vec!["192.0.2.1/24".into(), "2001:db8::1/64".into()],
            adopted: true,
            received: traffic(1_012_345),
            sent: traffic(911_000),
            ..InterfaceStatus::default()
        };
        let vlan = InterfaceStatus {
            name: "eth0.300".into(),
            ifindex: 7,
            kind: "vlan".into(),
            vlans: vec![300, 7],
            service: true,
            vrf: "blue".into(),
            addresses: Vec::new(),
            received: traffic(12_345),
            sent: traffic(11_000),
            ..eth0.clone()
        };
        let bridge = InterfaceStatus {
            name: "br0".into(),
            ifindex: 9,
            kind: "bridge".into(),
            mtu: 1500,
            why: "a bridge is Linux's".into(),
            ..InterfaceStatus::default()
        };
        Ok(vec![eth0, vlan, bridge])
    }

    fn neighbours(&self) -> Result<Vec<Neighbour>, String> {
        Ok(vec![Neighbour {
            address: "198.18.0.1".parse().unwrap(),
            dev: "eth0".into(),
            mac: Some("02:00:00:00:00:01".into()),
            state: "reachable".into(),
            programmed: true,
        }])
    }

    fn drops(&self) -> Result<Vec<DropCount>, String> {
        let count = |lane, port: Option<&str>, element: Option<&str>, reason: &str, packets| DropCount {
            port: port.map(str::to_owned),
            lane,
            element: element.map(str::to_owned),
            reason: reason.into(),
            packets,
            per_second: 0.0,
        };
        Ok(vec![
            count(Lane::Worker, None, Some("check4"), "bad_checksum", 2),
            count(Lane::Express, Some("eth0"), None, "no_route", 40),
        ])
    }

    fn workers(&self) -> Result<Vec<WorkerStatus>, String> {
        Ok(vec![WorkerStatus {
            index: 0,
            core: 1,
            state: WorkerState::Polling,
            queues: vec!["eth0/0".into(), "eth1/0".into()],
            packets: 12_000,
            batches: 1_000,
            polls: 50_000,
            wakeups: 7,
            restarts: 0,
            busy_ns: 1_500_000_000,
            ..WorkerStatus::default()
        }])
    }

    fn graph(&self) -> Result<Vec<GraphNode>, String> {
        let edge = |output: &str, to: &str| GraphEdge {
            output: output.into(),
            to: to.into(),
            packets: 11_998,
            ..GraphEdge::default()
        };
        Ok(vec![
            GraphNode {
                name: "check4".into(),
                class: "CheckIpHeader4".into(),
                outputs: vec![GraphPort::default()],
                packets: 12_000,
                batches: 1_000,
                cycles_per_packet: Some(11.25),
                drops: 2,
                edges: vec![edge("ok", "lookup4")],
                ..GraphNode::default()
            },
            GraphNode {
                name: "lookup4".into(),
                class: "Lookup4".into(),
                configuration: "TABLE main".into(),
                inputs: vec![GraphPort::default()],
                packets: 11_998,
                ..GraphNode::default()
            },
        ])
    }

    fn classifier(&self) -> Result<ClassifierStatus, String> {
        let class = |class: &str, rate, passed, dropped| ClassStatus {
            class: class.into(),
            rate,
            burst: rate / 5,
            passed,
            dropped,
        };
        Ok(ClassifierStatus {
            local_addresses: 6,
            classes: vec![class("routing", 20_000, 345, 0), class("icmp", 5_000, 10_000, 1_234)],
        })
    }

    fn config(&self) -> Result<Config, String> {
        let file = Some("/etc/bifrost/router.toml".into());
        Ok(Config { file, text: "# two ports\n[[port]]\nname = \"eth*\"\n".into(), ..Config::default() })
    }

    fn mirror(&self) -> Result<MirrorStatus, String> {
        Ok(MirrorStatus {
            source: "netlink+fpm".into(),
            synced: true,
            links: 4,
            addresses: 6,
            neighbours: 2,
            next_hop_objects: 1,
            routes: vec![
                OriginCount { origin: "bgp".into(), ipv4: 200_000, ipv6: 50_000 },
                OriginCount { origin: "kernel".into(), ipv4: 4, ipv6: 6 },
            ],
            unused_tables: vec![UnusedTable { table: 100, routes: 3 }],
            rules_ipv4: 40,
            rules_ipv6: 0,
            rules: vec![
                "ipv4 100: from 10.0.0.0/8 lookup 77".into(),
                "ipv4 200: from all lookup 78 suppress_ifgroup 5".into(),
            ],
            rules_left: vec!["ipv4 200: from all lookup 78 suppress_ifgroup 5 (suppress_ifgroup)".into()],
            filters: vec!["inet filter forward".into()],
            shapers: vec!["tbf on eth1".into()],
            restricted_routes: 0,
            filters_respected: true,
            filters_adopted: vec!["ipv6".into()],
            filters_not_adopted: vec!["inet filter forward handle 7: it asks for ct mark".into()],
            rules_respected: true,
            filter_refused: Some("cannot run nft: No such file or directory; install nftables".into()),
            filter_restored: 2,
            messages: 250_123,
            overruns: 1,
            not_programmed: 0,
            audit: AuditStatus { passes: 12, differences: 1, repaired: 1, last_pass_seconds_ago: Some(4) },
            fpm: Some(FpmStatus {
                listen: "127.0.0.1:2620".into(),
                connected: true,
                connections: 1,
                frames: 900,
            }),
        })
    }

    fn nat(&self) -> Result<Translation, String> {
        let rule = NatRule {
            name: "home".into(),
            action: "masquerade".into(),
            flows: 7,
            host_limit: Some(8192),
            ..NatRule::default()
        };
        let mapping = NatMapping {
            rule: Some("home".into()),
            protocol: 6,
            inside: Some([192, 168, 1, 7].into()),
            inside_port: 40000,
            outside: Some([203, 0, 113, 1].into()),
            outside_port: 40000,
            flows: 2,
        };
        let pool = NatPool {
            address: Some([203, 0, 113, 1].into()),
            taken: vec![NatTaken { protocol: 6, ports: 1 }],
        };
        Ok(Translation {
            rules: vec![rule],
            pools: vec![pool],
            mappings: 1,
            repaired: 0,
            shown: vec![mapping],
        })
    }

    fn filter(&self) -> Result<Vec<FilterChain>, String> {
        let rule = |rule: &str, line: u32, packets, last_hit_seconds| FilterRule {
            rule: rule.into(),
            name: None,
            place: format!("router.toml:{line}"),
            packets,
            bytes: packets * 100,
            last_hit_seconds,
        };
        Ok(vec![
            FilterChain { chain: "input".into(), policy: "accept".into(), rules: vec![] },
            FilterChain {
                chain: "forward".into(),
                policy: "drop".into(),
                rules: vec![
                    rule("accept state established,related", 9, 123_456, Some(0.0)),
                    FilterRule {
                        name: Some("web".into()),
                        ..rule("accept tcp to 203.0.113.0/24 port 443", 10, 0, None)
                    },
                ],
            },
            FilterChain { chain: "output".into(), policy: "accept".into(), rules: vec![] },
        ])
    }

    fn flow_log(&self) -> Result<Option<FlowLogStatus>, String> {
        let output = |name: &str, lost: &[(&str, u64)]| FlowLogOutput {
            name: name.into(),
            given: 4_700,
            records: 4_700 - lost.iter().map(|(_, lost)| lost).sum::<u64>(),
            units: 160,
            bytes: 700_000,
            lost: lost.iter().map(|(reason, lost)| (reason.to_string(), *lost)).collect(),
            faults: lost.len() as u64,
            last_fault: (!lost.is_empty()).then(|| "Connection refused".into()),
        };
        Ok(Some(FlowLogStatus {
            directory: Some(self.flow_files.clone()),
            sample: 1,
            missed: 3,
            offered: 4_711,
            lost: 11,
            taken: 4_700,
            remembered: 2,
            outputs: vec![output("ipfix udp 192.0.2.9:4739", &[("send", 20)]), output("files", &[])],
            ..FlowLogStatus::default()
        }))
    }

    fn sflow(&self) -> Result<Option<SflowStatus>, String> {
        Ok(Some(SflowStatus { sample: 1000, seen: 5_000_000, lost: 2, collectors: Vec::new() }))
    }

    fn mirror_port(&self) -> Result<Option<MirrorPortStatus>, String> {
        Ok(Some(MirrorPortStatus {
            to: "eth9".into(),
            up: true,
            sent: 7,
            slow: 3,
            ..MirrorPortStatus::default()
        }))
    }
}

fn repairs() -> Vec<RepairStatus> {
    let one = |gateway: &str, backup: &str, by: Option<&str>, lost, repaired| RepairStatus {
        gateway: gateway.to_owned(),
        backup: backup.to_owned(),
        by: by.map(str::to_owned),
        lost,
        next_hops: 3,
        repaired,
    };
    vec![
        one("192.0.2.1", "198.51.100.1", Some("eth1"), true, 3),
        one("192.0.2.5", "198.51.100.1", Some("eth1"), false, 0),
        one("fe80::1%eth0", "fe80::1%eth9", None, false, 0),
    ]
}

/// One of two addresses is not there.
fn api() -> ApiStatus {
    let token = |name: &str, role: &str, requests| ApiToken {
        name: name.into(),
        role: role.into(),
        requests,
        last: None,
    };
    let address = |address: &str, trouble: Option<&str>| ApiAddress {
        address: address.into(),
        listens: trouble.is_none(),
        trouble: trouble.map(str::to_owned),
    };
    ApiStatus {
        listen: vec![
            address("192.0.2.1:8443", None),
            address("[2001:db8::1]:8443", Some("Cannot assign requested address (os error 99)")),
        ],
        fingerprint: Some("5C:".repeat(31) + "5C"),
        certificate: Some("/var/lib/bifrost/api/certificate.pem".into()),
        trouble: None,
        tokens: vec![token("ansible", "admin", 1_234), token("wall", "viewer", 0)],
        connections: 2,
        requests: 1_234,
        refused_tokens: 7,
        refused_connections: 0,
    }
}

/// Most flows are shared.
fn sharing() -> SharingStatus {
    SharingStatus {
        listen: "192.0.2.1:3781".into(),
        peer: "192.0.2.2:3781".into(),
        state: "differs".into(),
        ready: true,
        trouble: None,
        heard_ms: Some(12),
        lag_ms: 3,
        figures: Figures {
            waiting: 40,
            told: 123_456,
            held: 789,
            joined: 256,
            differing: 1,
            missing: 2,
            sessions: 1,
            compared: 25_600,
            repaired: 3,
            refused: 2,
            sent: 40_000,
            received: 39_000,
            resent: 7,
        },
        unsent: 0,
        dropped: [("seal".into(), 5), ("stranger".into(), 0)].into(),
    }
}

/// One session is up, the other has lost its neighbour.
fn sessions() -> BfdStatus {
    let up = BfdSession {
        peer: [192, 0, 2, 2].into(),
        local: Some([192, 0, 2, 1].into()),
        interface: Some("eth1".into()),
        multihop: false,
        state: "up".into(),
        diagnostic: "none".into(),
        sends_every_us: Some(10_000),
        detects_after_us: 30_000,
        id: 7,
        other_id: 9,
        received: 1200,
        sent: 1190,
        discarded: 0,
        authentication: Some("meticulous-sha1".into()),
        key_id: Some(1),
        refused: 0,
        refused_why: None,
        changes: 2,
        since_seconds: 90,
        stuck: None,
    };
    let down = BfdSession {
        peer: "2001:db8::9".parse().unwrap(),
        local: None,
        interface: None,
        multihop: true,
        state: "down".into(),
        diagnostic: "detection time expired".into(),
        sends_every_us: Some(1_000_000),
        detects_after_us: 0,
        discarded: 3,
        authentication: None,
        key_id: None,
        refused: 12,
        refused_why: Some("it is authenticated, and this end has no key for the session".into()),
        stuck: Some("it has no socket: No such device".into()),
        ..up.clone()
    };
    let (frr, sessions) = ("127.0.0.1:50700".into(), vec![up, down]);
    BfdStatus { frr, connected: true, trouble: None, strays: 4, sessions }
}

fn discovery() -> Vec<DiscoveryStatus> {
    let of = |family: &str, from: IpAddr, preference: &str, others| DiscoveryStatus {
        name: "lan".into(),
        interface: "eth1".into(),
        family: family.into(),
        silent: None,
        from: Some(from),
        preference: preference.into(),
        lifetime: 1800,
        lacks: Vec::new(),
        sent: 12,
        asked: 3,
        answered: 3,
        refused: 1,
        others,
    };
    let other = OtherRouter {
        address: [192, 0, 2, 3].into(),
        preference: "10".into(),
        lifetime: 1700,
        otherwise: None,
    };
    let mut six = of("ipv6", "fe80::2".parse().unwrap(), "none", Vec::new());
    (six.lifetime, six.lacks) = (0, vec!["route ::/0 from bgp".into()]);
    vec![of("ipv4", [192, 0, 2, 2].into(), "-40", vec![other]), six]
}

fn virtual_routers() -> Vec<VirtualRouterStatus> {
    let of = |name: &str, state, own: [u8; 4], priority| VirtualRouterStatus {
        name: name.to_owned(),
        interface: "eth1".to_owned(),
        id: 10,
        state,
        since: 187,
        why: "nothing was heard of an active router".to_owned(),
        priority,
        lacks: Vec::new(),
        addresses: vec![[192, 0, 2, 1].into()],
        mac: wire::Mac([0, 0, 0x5e, 0, 1, 10]),
        active: Some(own.into()),
        active_priority: Some(200),
        sync: None,
        released: false,
        changes: 2,
        sent: 187,
        received: 0,
        refused: [("checksum".to_owned(), 3)].into(),
    };
    let backup = VirtualRouterStatus {
        lacks: vec!["route 0.0.0.0/0".to_owned()],
        released: true,
        ..of("wan", RedundancyState::Backup, [192, 0, 2, 3], 50)
    };
    vec![of("lan", RedundancyState::Active, [192, 0, 2, 2], 200), backup]
}

/// An answer of a type that only its subject knows.
fn boxed<T: Send + 'static>(answer: Result<T, String>) -> Result<Answered, String> {
    Ok(Box::new(answer?))
}

impl Answer for Fake {
    fn subject(&self, subject: &'static Entry) -> Result<Answered, String> {
        match subject.ask().as_str() {
            "version" => boxed(self.version()),
            "ports" => boxed(self.ports()),
            "interfaces" => boxed(self.interfaces()),
            "neighbours" => boxed(self.neighbours()),
            "drops" => boxed(self.drops()),
            "workers" => boxed(self.workers()),
            "graph" => boxed(self.graph()),
            "classifier" => boxed(self.classifier()),
            "config" => boxed(self.config()),
            "mirror" => boxed(self.mirror()),
            "nat" => boxed(self.nat()),
            "filter" => boxed(self.filter()),
            "flow_log" => boxed(self.flow_log()),
            "sflow" => boxed(self.sflow()),
            "mirror_port" => boxed(self.mirror_port()),
            "redundancy" => boxed(Ok(virtual_routers())),
            "discovery" => boxed(Ok(discovery())),
            "sharing" => boxed(Ok(Some(sharing()))),
            "bfd" => boxed(Ok(Some(sessions()))),
            "repairs" => boxed(Ok(repairs())),
            "api" => boxed(Ok(Some(api()))),
            other => Err(format!("no {other} here")),
        }
    }

    fn routes(
        &self,
        query: &RouteQuery,
        after: Option<&RouteEntry>,
        limit: usize,
    ) -> Result<Vec<RouteEntry>, String> {
        assert!(limit <= PAGE);
        self.pages.fetch_add(1, Relaxed);
        if let Some(address) = query.address {
            let number = |address: IpAddr| match address {
                IpAddr::V4(v4) => u64::from(u32::from(v4)).checked_sub(0x0a00_0000),
                IpAddr::V6(_) => None,
            };
            let found = number(address).filter(|n| *n < self.routes).map(route);
            return Ok(found.into_iter().filter(|_| after.is_none()).collect());
        }
        let start = after.map_or(0, |entry| match entry.prefix {
            IpNet::V4(net) => u64::from(u32::from(net.addr())) - 0x0a00_0000 + 1,
            IpNet::V6(_) => unreachable!("it has none"),
        });
        let within = |entry: &RouteEntry| query.within.is_none_or(|net| net.contains(&entry.prefix));
        Ok((start..self.routes).map(route).filter(within).take(limit).collect())
    }

    fn change_set(&self, name: &str, come: &[IpNet], go: &[IpNet]) -> Result<u64, String> {
        match name {
            "bogons" => Ok(10 + come.len() as u64 - go.len() as u64),
            _ => Err(format!("the filter has no set {name:?}; those there are: bogons")),
        }
    }

    fn redundancy(&self, name: &str, release: bool) -> Result<String, String> {
        match name {
            "lan" if release => Ok("router 192.0.2.3 has taken over".to_owned()),
            "lan" => Ok("lan takes part as before".to_owned()),
            _ => Err(format!("there is no [vrrp.{name}]; those there are: lan")),
        }
    }

    fn restart(&self, name: &str) -> Result<String, String> {
        match name {
            "dns" => Ok("unbound has restarted; its cache is empty then".to_owned()),
            _ => Err(format!("the file has no service {name:?}; what can restart: dns, frr")),
        }
    }

    fn clear_flows(&self, query: &FlowQuery) -> Result<u64, String> {
        // As many as what was asked for has letters: that tells whether it came.
        Ok(serde_json::to_string(query).map_or(0, |asked| asked.len() as u64))
    }

    fn commit(&self, commit: &CommitRequest, who: &Who) -> Result<Committed, Refusal> {
        assert!(who.user.is_some(), "the kernel says who asks");
        let effects = vec!["[police]: other limits".to_owned()];
        let running = "0123456789abcdef".to_owned();
        match (commit.check, &commit.running) {
            (true, _) => Ok(Committed { effects, running, ..Committed::default() }),
            (false, Some(told)) if *told == running => {
                let done = format!("revision 8 is in force: {:?} {:?}", commit.what, commit.confirmed);
                Ok(Committed { effects, running, revision: Some(8), done })
            }
            _ => Err("the configuration stays as it is: something else was put in force meanwhile"
                .to_owned()
                .into()),
        }
    }

    fn upgrade(&self) -> Result<String, String> {
        Ok("0.3.0 has taken over".to_owned())
    }

    fn confirm(&self, _: &Who) -> Result<String, String> {
        Ok("revision 8 stays".into())
    }

    fn lock(&self, wish: LockWish, _: Option<&str>, _: &Who) -> Result<LockStatus, String> {
        let holder =
            Holder { user: Some("root".into()), login: Some("alice".into()), from: None, seconds: 90 };
        match wish {
            LockWish::Hold => Err("alice has locked the configuration".into()),
            LockWish::Show => Ok(LockStatus { holder: Some(holder), yours: false }),
            _ => Ok(LockStatus { holder: Some(holder), yours: true }),
        }
    }

    fn history(&self) -> Result<History, String> {
        let of = |number, how, comment: &str| revisions::Revision {
            number,
            time: 1_700_000_000 + number,
            how,
            of: None,
            user: Some("root".into()),
            login: Some("alice".into()),
            from: Some("192.0.2.7".into()),
            comment: comment.into(),
            release: "0.2.0".into(),
            breaks: Vec::new(),
        };
        let start =
            revisions::Revision { user: None, login: None, from: None, ..of(7, revisions::How::Start, "") };
        Ok(History {
            file: "/etc/bifrost/router.toml".into(),
            running: Some(8),
            disk_differs: true,
            waits: Some(Waits { revision: 8, seconds: 90 }),
            revisions: vec![of(8, revisions::How::Commit, "ICMP is limited"), start],
        })
    }

    fn expect(&self) -> Result<Vec<Expectation>, String> {
        let of = |sentence: &str, line, holds| Expectation {
            sentence: sentence.into(),
            place: format!("router.toml:{line}"),
            holds,
            ..Expectation::default()
        };
        Ok(vec![
            of("ssh from 192.0.2.0/24 reaches me", 12, Some(true)),
            Expectation {
                packet: Some("10.9.0.1 > 198.51.100.7 tcp 40000:25 in eth1".into()),
                why: Some("dropped by rule (router.toml:7) of chain forward: drop tcp to any port 25".into()),
                ..of("nothing of 10.9.0.0/16 is dropped", 13, Some(false))
            },
            Expectation {
                why: Some("NPTv6 by rule site is not followed".into()),
                ..of("2001:db8::7 tcp 443 is forwarded", 14, None)
            },
        ])
    }

    fn compare(&self, texts: &[Text; 2]) -> Result<Compared, String> {
        let text =
            |rate| format!("[[port]]\nname = \"eth0\"\n[police]\nicmp = {{ rate = {rate}, burst = 10 }}\n");
        let names = texts.clone().map(|text| format!("{text:?}"));
        Ok(Compared { names, texts: [text(100), text(200)] })
    }

    fn reload(&self, _: bool, _: &Who) -> Result<String, String> {
        match self.broken.load(Relaxed) {
            true => {
                Err("the configuration stays as it is: router.toml:1:1: there is no section \"x\"".into())
            }
            false => Ok("configuration read again: 1 of 2 port(s)".into()),
        }
    }

    fn handle(&self, handler: &str, value: Option<&str>) -> Result<Vec<String>, String> {
        match (handler, value) {
            ("forward4/c.count", None) => Ok(vec!["4711".into(), "815".into()]),
            ("forward4/c.reset", Some(_)) => Ok(vec![String::new(), String::new()]),
            _ => Err("No element named 'x'".into()),
        }
    }

    fn flows(&self, query: &FlowQuery) -> Result<Flows, String> {
        let flow = FlowEntry {
            protocol: 6,
            source: Some([198, 18, 0, 9].into()),
            source_port: 40000,
            destination: Some([203, 0, 113, 7].into()),
            destination_port: 443,
            phase: "open".into(),
            age_seconds: 61.5,
            idle_seconds: 0.25,
            packets: [1200, 2400],
            bytes: [96_000, 3_200_000],
            bits_per_second: 428_000.0,
            ports: [Some("eth0".into()), Some("eth1".into())],
            mark: 0,
            translated: Some(FlowEnds {
                source: Some([192, 0, 2, 1].into()),
                source_port: 40001,
                destination: Some([203, 0, 113, 7].into()),
                destination_port: 443,
            }),
        };
        let flows = if query.port.is_none_or(|port| port == 443) { vec![flow] } else { Vec::new() };
        Ok(Flows { table: self.flow_table()?, matching: flows.len() as u64, flows })
    }

    fn flow_table(&self) -> Result<Option<FlowTable>, String> {
        let capacity = 1_048_576;
        Ok(Some(FlowTable { capacity, size: 1, lookups: 3600, hits: 3599, new: 1, ..FlowTable::default() }))
    }

    fn living(&self, query: &FlowQuery, from: u32) -> Result<(Vec<Record>, Option<u32>), String> {
        // Two pages, a flow on each.
        let record = |port: u16| Record {
            flow: u64::from(port),
            start: 1_700_000_000_000_000_000,
            end: 1_700_000_001_000_000_000,
            forward: Counts { packets: 10, bytes: 1000, tcp_flags: 0x1b },
            reply: Counts { packets: 20, bytes: 20_000, tcp_flags: 0x1b },
            ..Record::of(Key {
                source: [198, 18, 0, 9].into(),
                destination: [203, 0, 113, 7].into(),
                source_port: 40_000 + port,
                destination_port: port,
                protocol: 6,
                icmp_type: 0,
                icmp_code: 0,
                table: 0,
            })
        };
        let (port, next) = if from == 0 { (443, Some(65_536)) } else { (80, None) };
        let wanted = query.port.is_none_or(|wanted| wanted == port);
        Ok((if wanted { vec![record(port)] } else { Vec::new() }, next))
    }

    fn summary(&self) -> Result<Summary, String> {
        let lanes = self.ports().map(|ports| ports[0].received).unwrap_or_default();
        Ok(Summary { lanes, routes: self.mirror()?.routes, synced: true })
    }

    fn explain(&self, question: &Question) -> Result<Vec<Step>, String> {
        if question.input.as_deref() == Some("eth9") {
            return Err("eth9 is not a port of Bifrost: ports are eth0, eth1".into());
        }
        let step = |step: &str, decision: &str, detail: &str| Step {
            step: step.into(),
            decision: decision.into(),
            detail: detail.into(),
        };
        Ok(vec![
            step("port", "arrives by eth0", "express lane: auto, no zero-copy"),
            step("lookup4", "203.0.113.0/24", "bgp, metric 20\nvia 198.18.0.1 dev eth1"),
            step("transmit", "sent by eth1", ""),
        ])
    }

    fn trace(&self, request: &TraceRequest) -> Result<Feed<TraceStep>, String> {
        if request.filter.input.as_deref() == Some("eth9") {
            return Err("eth9 is not a port of Bifrost: ports are eth0, eth1".into());
        }
        // Two steps a packet.
        Ok(self.feed(|n| TraceStep {
            packet: n.div_ceil(2),
            time_ns: 1_700_000_000_000_001_000,
            worker: 0,
            input: "eth0".into(),
            element: if n % 2 == 1 { "lookup4".into() } else { "transmit".into() },
            packet_summary: "198.18.0.9 > 203.0.113.7 udp 4000:53 ttl 64 len 60".into(),
            fate: (n % 2 == 0).then(|| "sent by eth1".into()),
        }))
    }

    fn copy(&self, _request: &CopyRequest) -> Result<Feed<SeenPacket>, String> {
        Ok(self.feed(|n| SeenPacket {
            time_ns: n,
            port: "eth0".into(),
            outgoing: n.is_multiple_of(2),
            length: 60,
            frame: vec![0; 60],
        }))
    }

    fn capture(&self, request: &CaptureRequest) -> Result<Feed<CapturedPacket>, String> {
        if request.at.as_deref() == Some("nowhere") {
            return Err("there is no element \"nowhere\"; see `bifrost show graph`".into());
        }
        *self.captured.lock().unwrap() = Some(request.clone());
        Ok(self.feed(|n| {
            // Ethernet, IPv4, UDP 4000 > 53, with a right header checksum.
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
            frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0x00, 0x00, 198, 18, 0, 9, 203, 0, 113, 7]);
            frame.extend([0x0f, 0xa0, 0, 53, 0, 8, 0, 0]);
            let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
            let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
            frame[24..26].copy_from_slice(&checksum.to_be_bytes());
            CapturedPacket {
                time_ns: 1_700_000_000_000_000_000 + n,
                input: if n % 2 == 0 { "eth0".into() } else { "eth1".into() },
                element: "lookup4".into(),
                length: frame.len() as u32,
                frame,
            }
        }))
    }
}

/// The fake behind a socket in a directory of its own.
pub struct Rig {
    pub fake: Arc<Fake>,
    pub server: Option<Server>,
    pub directory: PathBuf,
}

impl Rig {
    pub fn start(name: &str, fake: Fake) -> Rig {
        let directory = directory(name);
        let fake = Arc::new(fake);
        let server = Server::start(&access(directory.join("control.sock")), fake.clone()).unwrap();
        Rig { fake, server: Some(server), directory }
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.join("control.sock")
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.socket()).unwrap()
    }

    /// Runs the program against this daemon.
    pub fn run(&self, args: &[&str]) -> Output {
        bifrost(&[&["--socket", self.socket().to_str().unwrap()], args].concat())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.server.take());
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

pub fn access(socket: PathBuf) -> Access {
    Access { socket, mode: 0o660, group: None, operate_group: None, read_group: None }
}

/// A fresh directory.
pub fn directory(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("bifrost-test-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Runs the program.
pub fn bifrost(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bifrost")).args(args).output().unwrap()
}

/// What a program printed.
pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Waits until a condition holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(15);
    while !condition() {
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
