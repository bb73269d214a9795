//! Random filters and packets from small pools, so that rules overlap and packets hit.

pub use chance::Random;
use rules::{Context, Examples, FlowState, Hook, Manual, Match};
use wire::{Fragment, Headers};

/// One to three of a pool, between commas, sometimes turned round.
fn list(random: &mut Random, pool: &[&str], turned: usize) -> String {
    let items: Vec<&str> = (0..1 + random.below(3)).map(|_| random.pick(pool)).collect();
    format!("{}{}", if random.chance(turned) { "!" } else { "" }, items.join(","))
}

const V4: &[&str] = &[
    "0.0.0.0/0",
    "0.0.0.0/1",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.0/24",
    "10.1.2.3",
    "10.1.2.4/30",
    "10.1.2.0-10.1.3.7",
    "192.0.2.0/25",
    "192.0.2.77",
    "255.255.255.255",
    "@few",
    "@more",
];
const V6: &[&str] = &[
    "::/0",
    "2001:db8::/32",
    "2001:db8:1::/48",
    "2001:db8:1:2::/64",
    "2001:db8:1:2::3",
    "2001:db8:1:2::-2001:db8:1:2::ff",
    "fe80::/10",
    "8000::/1",
    "@few",
    "@more",
];
const PORTS: &[&str] =
    &["0", "22", "80", "443", "53", "1024-65535", "0-1023", "79-81", "8080", "65535", "0-65535"];

/// The sets of all random filters.
pub const SETS: &str = "set few 10.1.2.3,192.0.2.64/26,2001:db8:1:2::3\n\
    set more 10.0.0.0/9,10.1.2.0/24,2001:db8::/33,255.255.255.255\n";

/// A random rule for a chain; `jumps`: the chains it may jump to; `hooks`: where packets come to it
/// from.
pub fn rule(random: &mut Random, jumps: &[String], hooks: &[Hook]) -> String {
    let mut words = Vec::new();
    for (percent, text) in [(8, "count"), (5, "mark 1"), (5, "mark 0x12"), (8, "set-dscp ef"), (3, "log")] {
        if random.chance(percent)
            && !(text.starts_with("mark") && words.iter().any(|w: &String| w.starts_with("mark")))
        {
            words.push(text.to_owned());
        }
    }
    if random.chance(3) {
        words.push("police 8kbit burst 300".to_owned());
    }
    let tcp = random.chance(40);
    match random.below(10) {
        0..3 => words.push("accept".into()),
        3..6 => words.push("drop".into()),
        6 => words.push(if tcp { "reject with tcp-reset" } else { "reject with prohibited" }.into()),
        7 => words.push("return".into()),
        _ if !jumps.is_empty() => words.push(format!("jump {}", jumps[random.below(jumps.len())])),
        _ => words.push(if words.is_empty() { "count".into() } else { "reject".into() }),
    }
    let kind = random.below(12);
    let v6 = random.chance(40);
    if tcp {
        words.push("tcp".into());
        if random.chance(25) {
            let flags = ["syn", "syn/syn+ack", "ack", "fin+syn", "none/fin+syn+rst+ack"];
            words.push(format!("flags {}", list(random, &flags, 20)));
        }
    } else if kind == 0 {
        words.push(if v6 { "icmpv6" } else { "icmp" }.into());
        if random.chance(70) {
            let types = [
                "echo-request",
                "echo-reply",
                "3/1",
                "unreachable",
                "time-exceeded",
                "1",
                "1-3",
                "3-11/0-1",
                "128-255",
            ];
            words.push(format!("type {}", list(random, &types, 20)));
        }
    } else if kind < 4 {
        words.push(
            random.pick(&["udp", "proto tcp,udp", "proto !tcp", "proto !tcp,udp", "gre", "proto 89"]).into(),
        );
    } else if random.chance(15) {
        words.push(random.pick(&["ip", "ip6"]).into());
    }
    let has_ports = tcp || kind >= 4 || words.iter().any(|word| word == "udp" || word == "proto tcp,udp");
    let family = words.iter().find_map(|word| match word.as_str() {
        "ip" | "icmp" => Some(false),
        "ip6" | "icmpv6" => Some(true),
        _ => None,
    });
    let pool = if family.unwrap_or(v6) { V6 } else { V4 };
    for side in ["from", "to"] {
        if random.chance(55) {
            words.push(format!("{side} {}", list(random, pool, 12)));
        } else {
            words.push(format!("{side} any"));
        }
        if has_ports && random.chance(35) {
            words.push(format!("port {}", list(random, PORTS, 15)));
        }
    }
    // Whatever else there is, each as its own file says.
    for Manual { examples, unknown, .. } in Match::manual() {
        let elsewhere = unknown.iter().any(|hook| hooks.contains(hook));
        if elsewhere || !random.chance(8) {
            continue;
        }
        match examples {
            Examples::Items(word, pool) => words.push(format!("{word} {}", list(random, pool, 15))),
            Examples::Whole(pool) => words.push(random.pick(pool).into()),
            Examples::BesideOthers => {}
        }
    }
    words.join(" ")
}

/// A random rule list with all hooks and some chains, each jumping to later ones only.
pub fn filter(random: &mut Random, most_rules: usize) -> String {
    let others: Vec<String> = (0..random.below(4)).map(|n| format!("c{n}")).collect();
    let mut text = SETS.to_owned();
    for hook in Hook::ALL {
        text += &format!("chain {} policy {}\n", hook.name(), random.pick(&["accept", "drop"]));
        for _ in 0..random.below(most_rules + 1) {
            text += &format!("  {}\n", rule(random, &others, &[hook]));
        }
    }
    for (n, name) in others.iter().enumerate() {
        text += &format!("chain {name}\n");
        for _ in 0..random.below(6) {
            text += &format!("  {}\n", rule(random, &others[n + 1..], &Hook::ALL));
        }
    }
    text
}

/// The ports that names stand for.
pub fn ports(name: &str) -> Vec<u16> {
    match name {
        "eth0" => vec![0],
        "eth1" => vec![1],
        "wlan*" => vec![2, 3],
        _ => vec![],
    }
}

/// A random packet that the pools' rules know something of.
pub fn packet(random: &mut Random, version: Option<u8>) -> (Headers, Context) {
    let version = version.unwrap_or_else(|| random.pick(&[4, 6]));
    let address = |random: &mut Random| -> [u8; 16] {
        if version == 4 {
            let pool = [
                0x0a01_0203u32,
                0x0a01_0204,
                0x0a01_0207,
                0x0a01_0300,
                0x0a02_0000,
                0x0a80_0000,
                0xc000_024d,
                0xc000_0201,
                u32::MAX,
                0,
                0x0808_0808,
            ];
            let address = if random.chance(10) { random.next() as u32 } else { random.pick(&pool) };
            wire::headers::mapped(address.to_be_bytes())
        } else {
            let base = 0x2001_0db8_0001_0002u128 << 64;
            let pool = [
                base | 3,
                base | 0xff,
                base | 0x100,
                (base >> 64 ^ 1) << 64,
                0x2001_0db8u128 << 96,
                0xfe80u128 << 112,
                u128::MAX,
                0x2001_0db8_8000u128 << 80,
            ];
            let random_address = u128::from(random.next()) << 64 | u128::from(random.next());
            (if random.chance(10) { random_address } else { random.pick(&pool) }).to_be_bytes()
        }
    };
    let icmp = if version == 4 { 1 } else { 58 };
    let protocol = random.pick(&[6, 6, 6, 17, 17, icmp, 47, 89, 132, 1, 58]);
    let fragment = match random.below(12) {
        0 => Fragment::First,
        1 => Fragment::Later,
        _ => Fragment::Whole,
    };
    let shown = fragment != Fragment::Later;
    let port = |random: &mut Random| {
        if !shown { 0 } else { random.pick(&[0u16, 22, 80, 81, 443, 53, 1023, 1024, 8080, 40_000, 65_535]) }
    };
    let is_icmp = shown && (protocol == 1 || protocol == 58);
    let headers = Headers {
        source: address(random),
        destination: address(random),
        version,
        protocol,
        source_port: port(random),
        destination_port: port(random),
        tcp_flags: if shown && protocol == 6 { random.pick(&[2, 18, 16, 1, 4, 0, 255]) } else { 0 },
        icmp_type: if is_icmp { random.pick(&[0, 1, 3, 8, 11, 128, 129]) } else { 0 },
        icmp_code: if is_icmp { random.pick(&[0, 1, 4]) } else { 0 },
        dscp: random.pick(&[0, 46, 10, 48, 1]),
        ttl: random.pick(&[2, 5, 63, 64, 255]),
        length: random.pick(&[40, 64, 63, 100, 1399, 1400, 1500, 65_535]),
        fragment,
        fragment_id: 7,
        transport: 20,
    };
    let state = random.pick(&[
        FlowState::New,
        FlowState::Established,
        FlowState::Related,
        FlowState::Invalid,
        FlowState::Untracked,
    ]);
    let out_port = random.chance(80).then(|| random.below(5) as u16);
    let mark = random.pick(&[0, 0, 1, 0x12]);
    (headers, Context { in_port: random.below(5) as u16, out_port, state, dnat: random.one_in(3), mark })
}
