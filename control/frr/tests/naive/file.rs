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
const KEYS: [&[&str]; 17] = [
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
    &["", "", "advertisement_interval = \"5s\""],
    &["", "", "connected_check = false"],
    &["", "", "enforce_first_as = true"],
    &["", "", "extended_next_hop = true"],
    &["", "", "graceful_restart = \"helper\"", "graceful_restart = \"off\"", "graceful_restart = \"on\""],
    &["", "", "local_as = { as = 65099 }", "local_as = { as = 65098, prepend = false, replace = true }"],
    &[
        "",
        "",
        "evpn = true",
        "vpnv4 = { allowas_in = 2 }",
        "ipv4_multicast = true",
        "vpnv6 = { next_hop_self = true }",
        "evpn = { route_map_in = \"a\", allowas_in = 2 }",
    ],
];
const FAMILY: [&[&str]; 19] = [
    &["", "route_map_in = \"a\"", "route_map_in = \"b\""],
    &["", "route_map_out = \"a\"", "route_map_out = \"b\""],
    &["", "prefix_list_in = \"p\"", "prefix_list_in = \"q\""],
    &["", "prefix_list_out = \"p\""],
    &["", "as_path_list_in = \"x\""],
    &["", "next_hop_self = true", "next_hop_self = \"force\""],
    &["", "soft_reconfiguration = true"],
    &[
        "",
        "maximum_prefix = 100",
        "maximum_prefix = 200\nmaximum_prefix_warning_only = true\nmaximum_prefix_threshold = 80",
        "maximum_prefix = 200\nmaximum_prefix_restart = \"5m\"",
    ],
    &["", "default_originate = true", "default_originate = \"a\""],
    &["", "allowas_in = 3", "allowas_in = 5", "allowas_in = \"origin\""],
    &[
        "",
        "send_community = []",
        "send_community = [\"large\"]",
        "send_community = [\"standard\", \"extended\"]",
    ],
    &["", "add_path = \"all\"", "add_path = \"best-per-as\""],
    &["", "", "add_path_receive = false"],
    &["", "", "route_server_client = true"],
    &["", "", "weight = 5", "weight = 7"],
    &["", "", "unsuppress_map = \"a\"", "unsuppress_map = \"b\""],
    &["", "", "unchanged = [\"med\"]", "unchanged = [\"as-path\", \"next-hop\", \"med\"]"],
    &["", "", "maximum_prefix_out = 10", "maximum_prefix_out = 20"],
    // For neighbours of other systems.
    &["", "remove_private_as = true", "remove_private_as = \"all-replace\"", "as_override = true"],
];
const ADVERTISED: [&[&str]; 6] = [
    &["", "distance = { external = 30 }", "distance = { local = 99, internal = 150 }"],
    &["", "dampening = {}", "dampening = { half_life = \"10m\" }", "dampening = { reuse = 500 }"],
    &["", "maximum_paths_ibgp = 4", "maximum_paths_ibgp = 2"],
    &[
        "",
        "aggregates = [\"10.0.0.0/8\", { prefix = \"10.1.0.0/16\", summary_only = true }]",
        "aggregates = [{ prefix = \"10.0.0.0/8\", as_set = true, route_map = \"a\" }]",
    ],
    &[
        "",
        "networks = [\"198.51.100.0/24\", { prefix = \"192.0.2.0/24\", route_map = \"a\" }]",
        "networks = [\"192.0.2.0/24\"]",
    ],
    &["", "maximum_paths = 4", "maximum_paths = 8"],
];
const BMP: [&str; 3] = [
    "",
    "bmp.one = { connect = [\"192.0.2.9:5000\"], monitor = [\"ipv4-pre-policy\"] }\n",
    "bmp.one = { connect = [\"192.0.2.8:5000\"], stats = \"60s\", mirror = true }\nbmp.two = { listen = \"127.0.0.1:7001\" }\n",
];
const BFD: [&str; 4] = [
    "",
    "[routing.bfd]\nprofile.fast = { multiplier = 4, transmit = \"50ms\" }\n",
    "[routing.bfd]\nprofile.fast = { receive = \"50ms\", passive = true }\nprofile.slow = {}\n\
     peer = [{ address = \"192.0.2.7\", profile = \"fast\" }, { address = \"192.0.2.8\", multiplier = 7 }]\n",
    "[routing.bfd]\nprofile.slow = { minimum_ttl = 100 }\n\
     peer = [{ address = \"192.0.2.7\", local = \"192.0.2.1\", multihop = true, minimum_ttl = 9, enabled = false }]\n",
];
const OTHERS: [&[&str]; 4] = [
    &[
        "",
        "[isis]\nnet = \"49.0001.1921.6800.1001.00\"\nlevel = \"2\"\narea_password = \"geheim\"\n\
         ipv4 = { redistribute = [\"connected\", { from = \"static\", metric = 5, route_map = \"a\" }] }\n\
         [isis.interface.eth0]\nmetric = 7\npassword = \"geheim\"\npoint_to_point = true\n",
        "[isis]\nnet = \"49.0001.1921.6800.1001.00\"\noverload = true\nlsp_mtu = 1400\n\
         ipv4 = { redistribute = [{ from = \"static\", metric = 6 }], default = { metric = 5, route_map = \"a\" } }\n\
         [isis.interface.eth0]\nlevel = \"1\"\nhello = \"5s\"\npassword = \"anders\"\n\
         [isis.interface.eth1]\npassive = true\nipv6 = false\n",
        "[isis]\nnet = \"49.0002.1921.6800.1001.00\"\nlevel = \"1\"\nipv6 = { default = { always = true } }\n\
         [isis.interface.eth1]\nbfd = true\npriority = 7\nhello_multiplier = 4\n",
    ],
    &[
        "",
        "[rip]\nredistribute = [\"connected\"]\nupdate = \"10s\"\nneighbours = [\"192.0.2.9\"]\n\
         [rip.interface.eth0]\nkey = \"geheim\"\n[rip.interface.eth1]\npassive = true\n",
        "[rip]\ndefault = true\ndefault_metric = 5\nnetworks = [\"10.0.0.0/8\"]\n\
         redistribute = [{ from = \"connected\", metric = 5 }]\n[rip.interface.eth0]\nkey = \"anders\"\nmd5 = false\n",
    ],
    &[
        "",
        "[ripng]\nredistribute = [\"connected\"]\n[ripng.interface.eth0]\n",
        "[ripng]\ndefault = true\ntimeout = \"60s\"\n[ripng.interface.eth1]\npassive = true\n",
    ],
    &[
        "",
        "[pim]\nssm_list = \"p\"\nrendezvous_point.\"192.0.2.1\".groups = [\"239.0.0.0/8\"]\n\
         [pim.interface.eth0]\nhello = \"10s\"\nigmp = { version = 2, join = [\"239.1.1.1\"] }\n",
        "[pim]\necmp = true\nrendezvous_point.\"192.0.2.2\" = {}\n\
         [pim.interface.eth0]\npassive = true\nigmp = { query_interval = \"60s\" }\n\
         [pim.interface.eth1]\npriority = 7\nhello = \"20s\"\n",
    ],
];
const VPN: [&str; 4] = [
    "import_vrfs = [\"default\"]",
    "vpn = { rd = \"65001:7\", export = [\"65001:1\"], import = [\"65001:1\"] }",
    "vpn = { rd = \"192.0.2.1:7\", label = \"auto\", export = [\"65001:2\", \"65001:1\"], route_map_export = \"a\" }",
    "vpn = { import = [\"4200000000:1\", \"65001:9\"], route_map_import = \"b\" }",
];
const EVPN: [&str; 3] =
    ["", "advertise_all_vni = true\nadvertise_svi_ip = true\n", "flooding = false\nadvertise = [\"ipv4\"]\n"];
const EVPN_VRF: [&str; 3] = [
    "",
    "rd = \"65001:8\"\nimport = [\"65001:1\"]\nexport = [\"65001:1\", \"65001:2\"]\n",
    "advertise = [\"ipv6\"]\n",
];
const ENTRY: [&[&str]; 11] = [
    &[
        "",
        "",
        "match.next_hop_list = \"p\"",
        "match.next_hop = \"192.0.2.7\"",
        "match.next_hop_list = \"six\"",
    ],
    &["", "", "match.extended_community_list = \"e\""],
    &["", "", "match.large_community_list = \"l\""],
    &["", "", "match.source_protocol = \"static\"", "match.source_protocol = \"bgp\""],
    &[
        "",
        "",
        "match.neighbour = \"local\"\nmatch.origin = \"igp\"",
        "match.local_preference = 7\nmatch.probability = 30",
    ],
    &["", "", "set.distance = 7\nset.table = 5", "set.table = 6"],
    &["", "", "set.delete_communities = \"c\"", "set.delete_large_communities = \"l\""],
    &["", "", "set.route_targets = [\"65001:2\", \"65001:1\"]", "set.site_of_origin = [\"65001:7\"]"],
    &[
        "",
        "",
        "set.atomic_aggregate = true\nset.originator_id = \"192.0.2.1\"",
        "set.as_path_exclude = [65007]",
    ],
    &[
        "",
        "",
        "set.next_hop_ipv6 = \"peer-address\"",
        "set.next_hop_ipv6 = \"prefer-global\"\nset.next_hop_local = \"fe80::1\"",
    ],
    &["", "", "on_match = \"next\"", "on_match = 900"],
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
    text += one(random, &BFD);
    for sections in OTHERS {
        text += one(random, sections);
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
        *text += one(
            random,
            &[
                "",
                "graceful_restart = true\ngraceful_restart_time = \"100s\"\n",
                "graceful_restart_time = \"90s\"\ngraceful_restart_stale_time = \"300s\"\n",
            ],
        );
        if vrf.is_empty() {
            *text += one(random, &BMP);
        }
        *text += one(random, &["", "listen_limit = 50\n", "listen_limit = 70\n"]);
        *text += &format!("[bgp{vrf}.ipv4]\n{}\n", one(random, &REDISTRIBUTE));
        for keys in ADVERTISED {
            let key = one(random, keys);
            if vrf.is_empty() || !key.starts_with("dampening") {
                *text += &format!("{key}\n");
            }
        }
        if !vrf.is_empty() && random.below(2) == 0 {
            *text += &format!("{}\n", one(random, &VPN));
        }
        let evpn = if vrf.is_empty() { EVPN } else { EVPN_VRF };
        *text += &format!("[bgp{vrf}.evpn]\n{}", one(random, &evpn));
        *text += &format!(
            "[bgp{vrf}.ipv4_multicast]\n{}\n",
            one(random, ADVERTISED[if vrf.is_empty() { 1 } else { 0 }])
        );
        let dynamic = [
            ("listen.dyn", "ranges = [\"203.0.113.0/25\"]"),
            ("listen.dyn2", "ranges = [\"203.0.113.128/25\", \"2001:db8:7::/48\"]"),
        ];
        let others = dynamic.into_iter().chain([("neighbour.up", "interface = \"eth0\"")]);
        let addresses = NEIGHBOURS.map(|address| (format!("neighbour.\"{address}\""), ""));
        let named = others.map(|(name, key)| (name.to_owned(), key));
        for (name, key) in addresses.into_iter().chain(named) {
            if random.below(3) == 0 {
                continue;
            }
            *text += &format!("[bgp{vrf}.{name}]\n{key}\n");
            let system = one(random, &["65002", "\"external\"", "\"internal\""]);
            let external = !system.contains("internal");
            *text += &format!("remote_as = {system}\n");
            for keys in KEYS {
                let key = one(random, keys);
                // For neighbours of other systems.
                let others = ["ebgp", "local_as", "connected_check"].iter().any(|it| key.starts_with(it));
                let beside = ["update_source", "ebgp", "ttl", "connected_check"];
                let lacks = name == "neighbour.up" && beside.iter().any(|it| key.starts_with(it));
                let main = !vrf.is_empty() && ["evpn", "vpnv"].iter().any(|it| key.starts_with(it));
                let group = name.starts_with("listen") && key.starts_with("graceful_restart");
                if !(others && !external || lacks || main || group) {
                    *text += &format!("{key}\n");
                }
            }
            family(random, &format!("bgp{vrf}.{name}"), external, text);
        }
        if random.below(2) == 0 {
            let families = if vrf.is_empty() { 3 } else { 1 };
            let families = one(
                random,
                &["ipv4 = true", "ipv4_labeled = { next_hop_self = true }", "ipv4 = false\nvpnv6 = true"]
                    [..families],
            );
            *text += &format!("[bgp{vrf}.neighbour.\"192.0.2.9\"]\nremote_as = 65002\n{families}\n");
        }
    }
    for group in ["one", "two"] {
        *text += &format!("[bgp.group.{group}]\n");
        for keys in [KEYS[0], KEYS[4], KEYS[5]] {
            *text += &format!("{}\n", one(random, keys));
        }
        family(random, &format!("bgp.group.{group}"), false, text);
    }
}

fn family(random: &mut Random, section: &str, external: bool, text: &mut String) {
    if random.below(2) == 0 {
        *text += &format!("[{section}.ipv4]\n");
        for keys in &FAMILY[..FAMILY.len() - usize::from(!external)] {
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
    if random.below(3) == 0 {
        *text += &format!("[{name}.vrf.red]\n{}\n", one(random, &REDISTRIBUTE));
        *text += one(random, &["", "router_id = \"192.0.2.7\"\n", "area.1.kind = \"nssa\"\n"]);
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
    *text += "]\n[policy.extended_community_list]\ne = [";
    *text += one(
        random,
        &["\"permit rt 65001:1 soo 192.0.2.1:7\"", "\"permit rt 65001:2\", \"deny soo 4200000000:3\""],
    );
    *text += "]\n";
    *text += one(
        random,
        &[
            "[policy.large_community_list]\nl = [\"permit 65001:1:1\"]\n",
            "[policy.large_community_pattern]\nl = [\"permit ^65001:\"]\n",
        ],
    );
    for name in ["a", "b"] {
        for _ in 0..=random.below(2) {
            *text += &format!("[[policy.route_map.{name}]]\n");
            let action = one(random, &["", "action = \"deny\"\n", "description = \"some of them\"\n"]);
            *text += action;
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
                &[
                    "",
                    "set.as_path_prepend = [65001, 65001]\n",
                    "set.as_path_prepend_last = 3\n",
                    "set.next_hop = \"192.0.2.1\"\n",
                ],
            );
            for keys in ENTRY {
                let key = one(random, keys);
                let key = if action.starts_with("action") && key.starts_with("on_match") { "" } else { key };
                *text += key;
                *text += if key.is_empty() { "" } else { "\n" };
            }
        }
    }
}
