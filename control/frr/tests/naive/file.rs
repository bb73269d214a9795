//! Random files about routing.

use chance::Random;
use config::{Machine, Router, Routing};

const LISTS: [&str; 6] = [
    "permit 192.0.2.0/24",
    "deny 10.0.0.0/8 ge 9 le 24",
    "permit 0.0.0.0/0 le 32",
    "permit 198.51.100.0/24",
    "deny 203.0.113.0/24",
    "permit 0.0.0.0/0",
];
const NEIGHBOURS: [&str; 4] = ["192.0.2.2", "192.0.2.3", "192.0.2.4", "2001:db8::2"];
const KEYS: [&[&str]; 10] = [
    &["", "description = \"one\"", "description = \"another one\""],
    &["", "password = \"geheim\"", "password = \"anders\""],
    &["", "update_source = \"192.0.2.1\"", "update_source = \"lo\""],
    &["", "ebgp_multihop = 3", "ttl_security = 2", "ebgp_multihop = 255"],
    &["", "keepalive = \"3s\"\nhold = \"9s\"", "keepalive = \"5s\"\nhold = \"15s\""],
    &["", "passive = true"],
    &["", "", "enabled = false"],
    &["", "bfd = true", "bfd = \"fast\""],
    &["", "connect_retry = \"10s\""],
    &["", "group = \"one\"", "group = \"two\""],
];
const FAMILY: [&[&str]; 9] = [
    &["", "route_map_in = \"a\"", "route_map_in = \"b\""],
    &["", "route_map_out = \"a\"", "route_map_out = \"b\""],
    &["", "prefix_list_in = \"p\"", "prefix_list_in = \"q\""],
    &["", "prefix_list_out = \"p\""],
    &["", "as_path_list_in = \"x\""],
    &["", "next_hop_self = true"],
    &["", "soft_reconfiguration = true"],
    &["", "maximum_prefix = 100", "maximum_prefix = 200"],
    &["", "default_originate = true", "default_originate = \"a\""],
];
const REDISTRIBUTE: [&str; 5] = [
    "",
    "redistribute = [\"connected\"]",
    "redistribute = [{ from = \"connected\", metric = 5 }, \"static\"]",
    "redistribute = [{ from = \"connected\", route_map = \"a\" }]",
    "redistribute = [{ from = \"connected\", metric = 6, route_map = \"b\" }]",
];

fn one<'a>(random: &mut Random, of: &[&'a str]) -> &'a str {
    of[random.below(of.len())]
}

/// What a random file tells FRR.
pub fn random(random: &mut Random) -> Routing {
    let text = text(random);
    match Router::read("router.toml", &text, &Machine::this()) {
        Ok(router) => router.routing,
        Err(mistakes) => panic!("{text}\n{mistakes}"),
    }
}

/// A random file.
pub fn text(random: &mut Random) -> String {
    let mut text = "without_ports = \"on\"\n".to_owned();
    if random.below(8) > 0 {
        bgp(random, &mut text);
    }
    for name in ["ospf", "ospf6"] {
        if random.below(4) > 0 {
            ospf(random, name, &mut text);
        }
    }
    if random.below(3) == 0 {
        text += "[routing]\nfrr = '''\n";
        text += one(random, &["ip route 203.0.113.0/24 Null0\n", "ip route 203.0.113.0/24 192.0.2.7\n"]);
        text += one(
            random,
            &["", "interface eth0\n ipv6 nd prefix 2001:db8::/64\n", "interface eth1\n multicast\n"],
        );
        text += "'''\n";
    }
    policy(random, &mut text);
    text
}

fn bgp(random: &mut Random, text: &mut String) {
    for vrf in ["", ".vrf.red"] {
        if !vrf.is_empty() && random.below(3) > 0 {
            continue;
        }
        *text += &format!("[bgp{vrf}]\n");
        *text += one(
            random,
            if vrf.is_empty() { &["as = 65001\n", "as = 65001\n", "as = 65009\n"] } else { &[""] },
        );
        *text += one(random, &["", "router_id = \"192.0.2.1\"\n", "router_id = \"192.0.2.9\"\n"]);
        *text += one(random, &["", "ebgp_requires_policy = false\n"]);
        *text += one(random, &["", "keepalive = \"3s\"\nhold = \"9s\"\n"]);
        *text += &format!("[bgp{vrf}.ipv4]\n{}\n", one(random, &REDISTRIBUTE));
        *text += one(
            random,
            &[
                "",
                "networks = [\"198.51.100.0/24\", { prefix = \"192.0.2.0/24\", route_map = \"a\" }]\n",
                "networks = [\"192.0.2.0/24\"]\n",
            ],
        );
        *text += one(random, &["", "maximum_paths = 4\n", "maximum_paths = 8\n"]);
        for address in NEIGHBOURS {
            if random.below(3) == 0 {
                continue;
            }
            *text += &format!("[bgp{vrf}.neighbour.\"{address}\"]\n");
            let system = one(random, &["65002", "\"external\"", "\"internal\""]);
            *text += &format!("remote_as = {system}\n");
            for keys in KEYS {
                let key = one(random, keys);
                // For neighbours of other systems.
                if !(key.starts_with("ebgp") && system.contains("internal")) {
                    *text += &format!("{key}\n");
                }
            }
            family(random, &format!("bgp{vrf}.neighbour.\"{address}\""), text);
        }
    }
    for group in ["one", "two"] {
        *text += &format!("[bgp.group.{group}]\n");
        for keys in [KEYS[0], KEYS[4], KEYS[5]] {
            *text += &format!("{}\n", one(random, keys));
        }
        family(random, &format!("bgp.group.{group}"), text);
    }
}

fn family(random: &mut Random, section: &str, text: &mut String) {
    if random.below(2) == 0 {
        *text += &format!("[{section}.ipv4]\n");
        for keys in FAMILY {
            *text += &format!("{}\n", one(random, keys));
        }
    }
    if random.below(3) == 0 {
        *text += &format!("[{section}.ipv6]\n{}\n", one(random, FAMILY[5]));
    }
}

fn ospf(random: &mut Random, name: &str, text: &mut String) {
    *text += &format!("[{name}]\n");
    *text += one(random, &["", "router_id = \"192.0.2.1\"\n", "router_id = \"192.0.2.9\"\n"]);
    *text += &format!("{}\n", one(random, &REDISTRIBUTE));
    *text += one(
        random,
        &[
            "",
            "default = {}\n",
            "default = { always = true, metric = 5 }\n",
            "default = { route_map = \"a\" }\n",
        ],
    );
    *text += one(
        random,
        &["", "area.1.kind = \"stub\"\n", "area.1.kind = \"totally-stub\"\n", "area.1.kind = \"nssa\"\n"],
    );
    for interface in ["eth0", "eth1"] {
        if random.below(3) == 0 {
            continue;
        }
        *text += &format!(
            "[{name}.interface.{interface}]\n{}\n",
            one(random, &["area = 0", "area = \"0.0.0.1\""])
        );
        *text += one(random, &["", "cost = 5\n", "cost = 7\n"]);
        *text += one(random, &["", "passive = true\n"]);
        *text += one(random, &["", "hello = \"5s\"\ndead = \"20s\"\n"]);
        *text += one(random, &["", "network = \"point-to-point\"\n"]);
        if name == "ospf" {
            *text += one(
                random,
                &[
                    "",
                    "authentication = { key = \"abc\" }\n",
                    "authentication = { key_id = 1, key = \"def\" }\n",
                    "authentication = { key_id = 1, key = \"ghi\" }\n",
                ],
            );
        }
    }
}

fn policy(random: &mut Random, text: &mut String) {
    *text += "[policy.prefix_list]\n";
    for name in ["p", "q"] {
        let mut left: Vec<&str> = LISTS.to_vec();
        let count = 1 + random.below(5);
        let entries: Vec<String> =
            (0..count).map(|_| format!("{:?}", left.remove(random.below(left.len())))).collect();
        *text += &format!("{name} = [{}]\n", entries.join(", "));
    }
    *text += "six = [\"permit 2001:db8::/32 le 48\"]\n";
    *text += "[policy.as_path_list]\nx = [";
    *text += one(random, &["\"permit ^65002_\"", "\"deny _65003_\", \"permit .*\""]);
    *text += "]\n[policy.community_list]\nc = [";
    *text += one(random, &["\"permit 65001:1 no-export\"", "\"permit 65001:2\", \"deny 65001:3\""]);
    *text += "]\n";
    for name in ["a", "b"] {
        for _ in 0..=random.below(2) {
            *text += &format!("[[policy.route_map.{name}]]\n");
            *text += one(random, &["", "action = \"deny\"\n", "description = \"some of them\"\n"]);
            *text += one(random, &["", "match.prefix_list = \"p\"\n", "match.prefix_list = \"six\"\n"]);
            *text += one(random, &["", "match.community_list = \"c\"\n", "match.tag = 7\n"]);
            *text += one(
                random,
                &["", "set.local_preference = 200\n", "set.local_preference = 300\nset.metric = 5\n"],
            );
            *text += one(
                random,
                &[
                    "",
                    "set.community = [\"65001:1\"]\n",
                    "set.add_community = [\"65001:2\", \"no-export\"]\n",
                ],
            );
            *text += one(
                random,
                &["", "set.as_path_prepend = [65001, 65001]\n", "set.next_hop = \"192.0.2.1\"\n"],
            );
        }
    }
}
