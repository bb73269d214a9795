//! What `bifrost check` accepts, a reload puts in force; what it refuses, a reload refuses, and
//! leaves the router as it was: its configuration, graph, rules and Linux's copy of them, byte by
//! byte. For random configurations, sound and not.
//!
//! A hundred of them are tried; `CONFIGURATIONS=10000` tries more.

use std::fs;
use std::process::Output;

use chance::Random;
use lab::{Lab, Router};

use crate::network::turn;

/// What a section can say: first what is sound, then what is not. A configuration takes one of each
/// section, or none.
const SECTIONS: [(&[&str], &[&str]); 10] = [
    (
        &[
            "[[port]]\nname = \"p0\"\n",
            "[[port]]\nname = \"p*\"\n",
            "[[port]]\nname = \"p0\"\nlane = \"worker\"\n[[port]]\nname = \"p1\"\nqueues = 1\n",
            "[[port]]\nname = \"p1\"\nreverse_path = \"strict\"\n[[port]]\nname = \"absent7\"\n",
        ],
        &[
            "[[port]]\nname = \"p0\"\nlane = \"fast\"\n",
            "[[port]]\nlane = \"worker\"\n",
            "[[port]]\nname = \"p0\"\nqueues = 0\n",
            "",
        ],
    ),
    (
        &[
            "[filter.forward]\npolicy = \"drop\"\nrules = \"\"\"\naccept state established,related\naccept tcp to 198.51.100.0/24 port 80,443\n\"\"\"\n",
            "[filter.forward]\nrules = \"\"\"\nreject tcp to any port 25\n\"\"\"\n",
            "[filter.input]\nrules = \"\"\"\naccept proto icmp limit 5/s\n\"\"\"\n",
        ],
        &[
            "[filter.forward]\nrules = \"\"\"\nacept tcp\n\"\"\"\n",
            "[filter.sideways]\npolicy = \"drop\"\n",
            "[filter.forward]\nrules = \"\"\"\naccept from set nobody\n\"\"\"\n",
        ],
    ),
    (
        &[
            "[[nat.rule]]\nname = \"home\"\ntype = \"masquerade\"\nout = \"p1\"\nsource = \"192.168.0.0/16\"\n",
            "[nat]\nmappings = 4096\n[[nat.rule]]\nname = \"two\"\ntype = \"masquerade\"\nout = \"p0\"\nsource = \"10.0.0.0/8\"\n",
        ],
        &[
            "[[nat.rule]]\nname = \"home\"\ntype = \"masquerde\"\nout = \"p1\"\n",
            "[[nat.rule]]\ntype = \"masquerade\"\nout = 7\n",
        ],
    ),
    (
        &[
            "[graph]\nforward = \"input -> c :: Counter -> output\"\n",
            "[graph]\nprerouting = \"input -> Paint(3) -> output\"\n",
        ],
        &[
            "[graph]\nforward = \"input -> Countr -> output\"\n",
            "[graph]\nforward = \"input -> c :: Counter\"\n",
            "[graph]\nsideways = \"input -> output\"\n",
        ],
    ),
    (
        &["[flow]\n", "[flow]\npickup = \"off\"\n", "[flow.timeouts]\ntcp_established = \"1h\"\n"],
        &["[flow]\npickup = \"perhaps\"\n", "[flow.timeouts]\ntcp_established = \"soon\"\n"],
    ),
    (
        &["[flow_log]\nsample = 2\n[[flow_log.collector]]\naddress = \"127.0.0.1:4739\"\n"],
        &["[flow_log]\nsample = 0\n", "[[flow_log.collector]]\naddress = \"nowhere\"\n"],
    ),
    (
        &["[sflow]\nsample = 512\n[[sflow.collector]]\naddress = \"127.0.0.1:6343\"\n"],
        &["[sflow]\nsample = \"often\"\n", "[sflow]\ncolector = 1\n"],
    ),
    (
        &["[mirror]\nto = \"p1\"\nfilter = \"tcp port 80\"\n", "[mirror]\nto = \"p0\"\n"],
        &["[mirror]\nto = \"p1\"\nfilter = \"tcp prt 80\"\n", "[mirror]\nfilter = \"tcp\"\n"],
    ),
    (
        &[
            "[police]\nrouting = { rate = 1000, burst = 100 }\n",
            "[police]\nicmp = { rate = 10, burst = 10 }\n",
        ],
        &["[police]\nrouting = { rate = -1, burst = 1 }\n", "[police]\nroutin = { rate = 1, burst = 1 }\n"],
    ),
    (
        &[
            "[interface.p1]\nmtu = 1400\n",
            "[interface.br0]\nkind = \"bridge\"\naddresses = [\"192.0.2.1/24\"]\n[[route]]\nto = \"198.51.100.0/24\"\nvia = \"192.0.2.2\"\n",
        ],
        &["[interface.p1]\nmtu = 14\n", "[[route]]\nto = \"default\"\n"],
    ),
];

/// Every second one is sound in each of its sections; in the others one section is not, or the text
/// is cut off.
fn configuration(random: &mut Random) -> String {
    let wrong = random.one_in(2).then(|| random.below(SECTIONS.len() + 1));
    let mut text = String::new();
    for (number, (sound, unsound)) in SECTIONS.iter().enumerate() {
        if wrong == Some(number) {
            text += random.pick(unsound);
        } else if number == 0 || random.one_in(3) {
            text += random.pick(sound);
        }
    }
    if wrong == Some(SECTIONS.len()) {
        text.truncate(random.below(text.len()));
    }
    text
}

/// All that a reload could have changed, without counters of packets.
fn state(router: &Router) -> String {
    // Without the word that the file is another one by now.
    let config = router.show("config").unwrap()["text"].to_string();
    let filter = router.ask("show filter --json").unwrap();
    let filter: serde_json::Value = serde_json::from_str(&filter).unwrap();
    let rules = |chain: &serde_json::Value| {
        let rules = chain["rules"].as_array().into_iter().flatten();
        format!(
            "{} {} {:?}\n",
            chain["name"],
            chain["policy"],
            rules.map(|rule| &rule["text"]).collect::<Vec<_>>()
        )
    };
    let filter: String = filter.as_array().unwrap().iter().map(rules).collect();
    let graph = router.show("graph").unwrap();
    let graph: String = graph
        .as_array()
        .unwrap()
        .iter()
        .map(|node| format!("{} {}\n", node["name"], node["class"]))
        .collect();
    let linux = router.host().run("nft -s list table inet bifrost 2>&1 || true").unwrap();
    let outputs = ["flowlog", "sflow", "mirror-port"]
        .map(|subject| router.ask(&format!("show {subject} --json")).unwrap())
        .map(|text| if text.trim() == "null" { "none" } else { "there" });
    [config, filter, graph, linux, outputs.join(" ")].join("\n--\n")
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

#[test]
fn on_random_configurations() {
    let _turn = turn();
    let lab = Lab::new("agree").unwrap();
    let host = lab.router("router").unwrap();
    host.run("ip link add p0 type veth peer name p1; ip link set p0 up; ip link set p1 up").unwrap();
    let tables = "[tables]\nipv4 = 1024\nipv6 = 1024\nnext_hops = 1024\n";
    let router = Router::start(&host, &format!("[[port]]\nname = \"p0\"\n{tables}")).unwrap();
    if !router.is_bifrost() {
        return;
    }
    let wanted = std::env::var("CONFIGURATIONS").ok().and_then(|number| number.parse().ok()).unwrap_or(100);
    let file = host.folder().join("router.toml");
    let (mut random, mut accepted, mut before) = (Random(0x1357_9bdf_0246_8ace), 0, state(&router));
    for number in 0..wanted {
        let text = configuration(&mut random);
        router.configure(&(text.clone() + tables)).unwrap();
        // An editor's work of long ago: else each would wait until it is at rest.
        let check = router.command().arg("check").arg(&file).output().unwrap();
        let reload = router.command().arg("reload").output().unwrap();
        let told = format!("number {number}:\n{text}\ncheck: {}reload: {}", said(&check), said(&reload));
        assert_eq!(check.status.success(), reload.status.success(), "{told}");
        let after = state(&router);
        if reload.status.success() {
            accepted += 1;
            let config = router.ask("show config").unwrap();
            assert_eq!(config, fs::read_to_string(&file).unwrap(), "{told}");
        } else {
            assert_eq!(before, after, "{told}");
        }
        before = after;
    }
    // Else it proves nothing of one of the two.
    assert!(accepted * 4 > wanted && accepted * 4 < wanted * 3, "{accepted} of {wanted} were accepted");
}
