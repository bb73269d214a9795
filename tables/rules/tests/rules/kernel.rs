//! Linux judges packets by what is rendered for it as the rules themselves do: random filters and
//! packets, through nftables in a namespace. Needs root, nft and python3.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::nftables::nft_is_there;
use crate::pools::{self, Random};
use rules::{Context, Filter, FlowState, Hook, Now, Outcome, Step};
use wire::{Fragment, Headers, checksum, headers::unmapped};

/// Loads what stands in the first argument's file, sends the frames of its standard input, each a
/// line with the interface that it comes in by, and says what became of them.
const LINUX: &str = r#"
import json, re, socket, subprocess, sys, time
def run(*words): return subprocess.run(words, check=True, capture_output=True, text=True).stdout
names = ["eth0", "eth1", "wlan2", "wlan3"]
def sysctl(key, value):
    try: open("/proc/sys/" + key, "w").write(str(value))
    except FileNotFoundError: pass
sysctl("net/ipv4/ip_forward", 1)
sysctl("net/ipv6/conf/all/forwarding", 1)
sysctl("net/ipv4/conf/all/rp_filter", 0)
sysctl("net/ipv4/conf/default/rp_filter", 0)
run("ip", "link", "set", "lo", "up")
sockets = {}
for n, name in enumerate(names):
    run("ip", "link", "add", name, "address", "02:00:00:00:ff:ff", "mtu", "9000", "type", "veth", "peer", "name", "p" + name, "mtu", "9000")
    sysctl(f"net/ipv6/conf/p{name}/disable_ipv6", 1)
    sysctl(f"net/ipv4/conf/{name}/rp_filter", 0)
    run("ip", "link", "set", name, "up"); run("ip", "link", "set", "p" + name, "up")
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(("p" + name, 0)); sockets[name] = s
for six, net, gateway in [("-4", "172.31.0.1/24", "172.31.0.2"), ("-6", "fd00::1/64", "fd00::2")]:
    run("ip", six, "addr", "add", net, "dev", "eth1", *(["nodad"] if six == "-6" else []))
    run("ip", six, "neigh", "add", gateway, "lladdr", "02:00:00:00:ee:ee", "dev", "eth1", "nud", "permanent")
    run("ip", six, "route", "add", "default", "via", gateway, "dev", "eth1")
run("nft", "-f", sys.argv[1])
sysctl("net/netfilter/nf_conntrack_checksum", 0)
sent = 0
for line in sys.stdin:
    name, frame = line.split()
    sockets[name].send(bytes.fromhex(frame)); sent += 1
    if sent % 50 == 0: time.sleep(0.001)
def arrived(): return sum(int(line.split()[2]) for line in open("/proc/net/dev") if line.split(":")[0].strip() in names)
deadline = time.time() + 10
while arrived() < sent and time.time() < deadline: time.sleep(0.01)
time.sleep(0.05)
def elements(name):
    for item in json.loads(run("nft", "-j", "list", "set", "inet", "probe", name))["nftables"]:
        for element in item.get("set", {}).get("elem", []):
            element = element["elem"]["val"] if isinstance(element, dict) and "elem" in element else element
            yield element["concat"] if isinstance(element, dict) else [element]
for name in ["came", "passed"]:
    for words in elements(name): print(name, *words)
for line in run("nft", "list", "table", "inet", "bifrost").splitlines():
    found = re.search(r'counter packets (\d+) bytes (\d+).*comment "random:(\d+)', line)
    if found: print("rule", found[3], found[1], found[2])
"#;

const INTERFACES: [&str; 4] = ["eth0", "eth1", "wlan2", "wlan3"];
/// Packets that each filter judges.
const PACKETS: usize = 2000;
/// Seconds: the times that random rules ask for begin and end at noon and midnight.
const HALF_A_DAY: i64 = 43_200;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// What stands behind the fixed header, up to the transport header, and the protocol that the fixed
/// header then names.
fn between(random: &mut Random, headers: &Headers) -> (u8, Vec<u8>) {
    let Headers { version, protocol, fragment, .. } = *headers;
    let mut bytes = Vec::new();
    if version == 4 {
        let options = if random.chance(10) { 4 * (1 + random.below(10)) } else { 0 };
        return (protocol, vec![1; options]);
    }
    let mut next = protocol;
    // From the last header to the first, each in front of what is there.
    let mut put = |kind: u8, mut header: Vec<u8>| {
        header[0] = next;
        header.append(&mut bytes);
        bytes = header;
        next = kind;
    };
    if fragment != Fragment::Later {
        if random.chance(8) {
            put(60, vec![0, 0, 1, 4, 0, 0, 0, 0]);
        }
        if random.chance(5) {
            put(51, vec![0, 2, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0]);
        }
    }
    if fragment != Fragment::Whole {
        let offset = if fragment == Fragment::Later { 64u8 } else { 0 };
        put(44, vec![0, 0, 0, offset | 1, 0, 0, 0, 9]);
    }
    if random.chance(5) {
        put(43, vec![0, 2, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
    if random.chance(8) {
        put(0, vec![0, 0, 1, 4, 0, 0, 0, 0]);
    }
    (next, bytes)
}

/// A packet with such headers.
fn packet(random: &mut Random, headers: &Headers, quoted: &[u8]) -> Vec<u8> {
    let mut transport = match headers.protocol {
        _ if headers.fragment == Fragment::Later => vec![0x55; 24],
        6 => {
            let mut tcp = vec![0; 20];
            tcp[12] = 0x50;
            tcp[13] = headers.tcp_flags;
            tcp
        }
        1 | 58 => vec![headers.icmp_type, headers.icmp_code, 0, 0, 0, 7, 0, 1],
        132 => vec![0; 12 + 4],
        17 => vec![0; 8],
        _ => vec![0; 16],
    };
    if headers.fragment != Fragment::Later && wire::protocol::has_ports(headers.protocol) {
        transport[..2].copy_from_slice(&headers.source_port.to_be_bytes());
        transport[2..4].copy_from_slice(&headers.destination_port.to_be_bytes());
    }
    transport.extend(quoted);
    let (next, between) = between(random, headers);
    let fixed = if headers.version == 4 { 20 } else { 40 };
    let length = usize::from(headers.length).min(3000);
    let mut wanted = length.max(fixed + between.len() + transport.len());
    if headers.fragment == Fragment::First {
        wanted = fixed + between.len() + (wanted - fixed - between.len()).next_multiple_of(8);
    }
    transport.resize(wanted - fixed - between.len(), 0);
    if headers.protocol == 17 && headers.fragment != Fragment::Later {
        let length = transport.len() as u16;
        transport[4..6].copy_from_slice(&length.to_be_bytes());
    }
    let mut packet = Vec::new();
    let tos = headers.dscp << 2;
    if let (Some(source), Some(destination)) = (unmapped(&headers.source), unmapped(&headers.destination)) {
        let fragment: u16 = match headers.fragment {
            Fragment::Whole => 0,
            Fragment::First => 0x2000,
            Fragment::Later => 0x2008,
        };
        packet.extend([0x45 + (between.len() / 4) as u8, tos]);
        packet.extend((wanted as u16).to_be_bytes());
        packet.extend([0, 9]);
        packet.extend(fragment.to_be_bytes());
        packet.extend([headers.ttl, next, 0, 0]);
        packet.extend(source);
        packet.extend(destination);
        packet.extend(between);
        let sum = checksum::of(&packet).to_be_bytes();
        packet[10..12].copy_from_slice(&sum);
    } else {
        packet.extend([0x60 | tos >> 4, tos << 4, 0, 0]);
        packet.extend(((wanted - 40) as u16).to_be_bytes());
        packet.extend([next, headers.ttl]);
        packet.extend(headers.source);
        packet.extend(headers.destination);
        packet.extend(between);
    }
    packet.extend(transport);
    packet
}

/// A filter for one hook whose every rule says the same to Linux. `tracked`: rules may ask for
/// states.
fn filter(random: &mut Random, hook: Hook, tracked: bool) -> String {
    let others = ["c0".to_owned(), "c1".to_owned()];
    let mut text = pools::SETS.to_owned();
    let mut chain = |random: &mut Random, head: String, rules: usize, jumps: &[String]| {
        text += &head;
        for _ in 0..rules {
            let rule = pools::rule(random, jumps, &[hook]);
            // What depends on the packets before, or errs.
            let apart = ["rate", "police", "fragment", "local"].iter().any(|word| rule.contains(word));
            if !apart && (tracked || !rule.contains("state")) {
                let _ = writeln!(text, "  {rule}");
            }
        }
    };
    let policy = random.pick(&["accept", "drop"]);
    chain(random, format!("chain {} policy {policy}\n", hook.name()), 60, &others);
    chain(random, "chain c0\n".into(), 6, &others[1..]);
    chain(random, "chain c1\n".into(), 6, &[]);
    text
}

fn linux(tables: &str, frames: &str) -> String {
    let file = std::env::temp_dir().join(format!(
        "bifrost-judged-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::write(&file, tables).expect("a file");
    let mut child = Command::new("unshare")
        .args(["-n", "timeout", "100", "python3", "-c", LINUX])
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    child.stdin.take().expect("piped").write_all(frames.as_bytes()).expect("frames");
    let output = child.wait_with_output().expect("it ends");
    let _gone = std::fs::remove_file(&file);
    assert!(output.status.success(), "{tables}");
    String::from_utf8(output.stdout).expect("text")
}

/// What Linux made of packets.
#[derive(Default)]
struct Told {
    /// Those that came before the filter, with the states of their flows.
    came: HashMap<usize, FlowState>,
    /// Those that got behind it, with their marks.
    passed: HashMap<usize, u32>,
    /// What each line's rule counted: packets and bytes.
    counted: BTreeMap<usize, (u64, u64)>,
}

impl Told {
    fn read(text: &str) -> Told {
        let mut told = Told::default();
        let sent = |mac: &str| {
            let number = mac.strip_prefix("02:01:")?.replace(':', "");
            usize::from_str_radix(&number, 16).ok()
        };
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["came", mac, ref rest @ ..] => {
                    let state = match rest {
                        ["new"] => FlowState::New,
                        ["established"] => FlowState::Established,
                        ["related"] => FlowState::Related,
                        ["invalid"] => FlowState::Invalid,
                        _ => FlowState::Untracked,
                    };
                    told.came.extend(sent(mac).map(|number| (number, state)));
                }
                ["passed", mac, mark] => {
                    let mark = mark.parse().expect("a mark");
                    told.passed.extend(sent(mac).map(|number| (number, mark)));
                }
                ["rule", line, packets, bytes] => {
                    let number = |text: &str| text.parse::<u64>().expect("a number");
                    add(&mut told.counted, number(line) as usize, (number(packets), number(bytes)));
                }
                _ => panic!("{line}"),
            }
        }
        told
    }
}

fn add(counts: &mut BTreeMap<usize, (u64, u64)>, line: usize, more: (u64, u64)) {
    let count = counts.entry(line).or_default();
    *count = (count.0 + more.0, count.1 + more.1);
}

/// The filter's table, and one that notes what comes before it and what gets behind it.
fn tables(filter: &Filter, hook: Hook, tracked: bool) -> String {
    let ports = ["eth0".to_owned(), "eth1".to_owned(), "wlan*".to_owned()];
    let table = filter.nftables(&ports, None, true).expect("it can all be said");
    let (at, priority) = if hook == Hook::Input { ("prerouting", -150) } else { ("forward", 0) };
    let (state, kind) = if tracked { (" . ct state", " . ct_state") } else { ("", "") };
    let untracked = if tracked { "ether saddr & 00:00:00:00:00:07 == 00:00:00:00:00:00 notrack" } else { "" };
    format!(
        "{table}
        table inet probe {{
            set came {{ type ether_addr{kind}; size 65535; flags dynamic; }}
            set passed {{ type ether_addr . mark; size 65535; flags dynamic; }}
            chain raw {{
                type filter hook prerouting priority -300;
                {untracked}
            }}
            chain before {{
                type filter hook {at} priority {};
                update @came {{ ether saddr{state} }}
            }}
            chain behind {{
                type filter hook {at} priority {};
                update @passed {{ ether saddr . meta mark }}
            }}
        }}
        ",
        priority - 1,
        priority + 1
    )
}

/// A packet of its own, or one that has to do with one before: its answer, another of its flow, an
/// error about it.
fn next_packet(
    random: &mut Random,
    sent: &[(Headers, u16, Vec<u8>)],
    hook: Hook,
    tracked: bool,
) -> (Headers, u16, Vec<u8>) {
    let (mut headers, context) = pools::packet(random, None);
    let mut quoted = &[][..];
    if !sent.is_empty() && random.chance(40) {
        let (before, _, bytes) = &sent[random.below(sent.len())];
        let Headers { dscp, length, tcp_flags, .. } = headers;
        let answer = Headers {
            source: before.destination,
            destination: before.source,
            source_port: before.destination_port,
            destination_port: before.source_port,
            dscp,
            length,
            tcp_flags,
            ..*before
        };
        let (protocol, icmp_type) = if before.version == 4 { (1, 3) } else { (58, 1) };
        headers = match random.below(10) {
            0..6 => answer,
            6..8 => *before,
            _ => {
                quoted = &bytes[..bytes.len().min(128)];
                Headers { protocol, icmp_type, icmp_code: 1, fragment: Fragment::Whole, ..answer }
            }
        };
    }
    if tracked {
        // Linux puts them together where it tracks flows.
        headers.fragment = Fragment::Whole;
    }
    if hook == Hook::Forward && headers.version == 6 && headers.destination[0] == 0xfe {
        // Linux forwards these by where they came from.
        headers.destination[0] = 0x20;
    }
    (headers, context.in_port % 4, packet(random, &headers, quoted))
}

fn seconds() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}

/// Sends packets through both. Says how many were compared.
fn compare(random: &mut Random, hook: Hook, tracked: bool) -> usize {
    let text = filter(random, hook, tracked);
    let mut filter = Filter::read("random", &text, &mut |_| Err(std::io::ErrorKind::NotFound.into()))
        .unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
    filter.resolve(pools::ports);
    let mut sent = Vec::new();
    let mut frames = String::new();
    for number in 0..PACKETS {
        let (headers, port, packet) = next_packet(random, &sent, hook, tracked);
        let kind = if headers.version == 4 { "0800" } else { "86dd" };
        let interface = INTERFACES[usize::from(port)];
        let _ = writeln!(frames, "{interface} 02000000ffff0201{number:08x}{kind}{}", hex(&packet));
        sent.push((headers, port, packet));
    }
    let now = Now { utc: seconds(), ..Now::default() };
    let told = Told::read(&linux(&tables(&filter, hook, tracked), &frames));
    if now.utc / HALF_A_DAY != seconds() / HALF_A_DAY {
        // A rule's time has begun or ended meanwhile.
        return 0;
    }
    let mut expected = BTreeMap::new();
    let mut wrong = Vec::new();
    for (number, (_, port, packet)) in sent.iter().enumerate() {
        let Some(state) = told.came.get(&number) else { continue };
        let headers = Headers::parse(packet).unwrap_or_else(|reason| panic!("{reason:?}: {}", hex(packet)));
        let out_port = (hook == Hook::Forward).then_some(1);
        let context = Context { in_port: *port, out_port, state: *state, ..Context::default() };
        let mut lines = Vec::new();
        let decision = filter.walk(hook, &headers, &context, &now, None, &mut |step| {
            if let Step::Matched(rule) = step {
                let line = filter.rule(rule).expect("it is there").1.place.line;
                add(&mut expected, line, (1, headers.length.into()));
                lines.push(line);
            }
        });
        let wanted = (decision.outcome == Outcome::Accept).then_some(decision.mark);
        let linux = told.passed.get(&number).copied();
        if linux != wanted {
            let what = hex(&packet[..packet.len().min(96)]);
            wrong.push(format!("{state:?} {what}: by lines {lines:?} {wanted:?}, by Linux {linux:?}"));
        }
    }
    for line in 1..=text.lines().count() {
        let [rules, linux] =
            [&expected, &told.counted].map(|counts| counts.get(&line).copied().unwrap_or_default());
        if rules != linux {
            wrong.push(format!("line {line} counts {rules:?}, in Linux {linux:?}"));
        }
    }
    assert!(wrong.is_empty(), "{hook:?}: {} differ\n{}\n{text}", wrong.len(), wrong.join("\n"));
    told.came.len()
}

#[test]
fn judges_as_the_rules_do() {
    if !nft_is_there() {
        return;
    }
    let mut random = Random(13);
    for (hook, tracked) in
        [(Hook::Input, true), (Hook::Input, false), (Hook::Forward, true), (Hook::Forward, false)]
    {
        let compared: usize = (0..2).map(|_| compare(&mut random, hook, tracked)).sum();
        println!("{hook:?}: {compared} packets");
    }
}
