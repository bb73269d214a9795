//! The description of the keys and the readers of the file have the same keys, words and defaults.

use std::collections::BTreeSet;

use config::schema::{Key, ROOT, Shape};
use config::{Cores, Machine, Router};

/// What a key is called that nobody has.
const NOBODYS: &str = "zzzzzzzz";

fn read(text: &str) -> Result<Router, String> {
    let machine = Machine { cores: Cores(vec![0, 1, 2, 3]) };
    let read = Router::read("router.toml", &format!("without_ports = \"on\"\n{text}"), &machine);
    read.map_err(|mistakes| mistakes.to_string())
}

fn read_with_ports(text: &str) -> Result<Router, String> {
    let machine = Machine { cores: Cores(vec![0, 1, 2, 3]) };
    let ports = if text.contains("[[port]]") { "" } else { "without_ports = \"on\"\n" };
    let read = Router::read("router.toml", &format!("{ports}{text}"), &machine);
    read.map_err(|mistakes| mistakes.to_string())
}

/// A table of the file: how it is told in a text, and the keys that it has.
struct Place {
    /// What comes before a line with a key, and after it.
    around: [String; 2],
    keys: &'static [Key],
    title: String,
}

impl Place {
    fn with(&self, line: &str) -> String {
        format!("{}{line}{}", self.around[0], self.around[1])
    }
}

/// Every table that the description has.
fn places() -> Vec<Place> {
    let mut found = vec![Place { around: Default::default(), keys: ROOT, title: String::new() }];
    below(ROOT, "", "", &mut found);
    found
}

const WIREGUARD: &str =
    "kind = \"wireguard\"\nprivate_key = \"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"\n";

/// Keys that must be there for others to be read at all: each kind of interface has its own.
fn needed(title: &str) -> Vec<String> {
    let kinds = [
        "kind = \"vlan\"\nparent = \"p\"\nid = 1\n",
        "kind = \"bond\"\nmode = \"802.3ad\"\n",
        "kind = \"vrf\"\ntable = 7\n",
        "kind = \"gre\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n",
        "kind = \"macvlan\"\nparent = \"p\"\n",
        "kind = \"vxlan\"\nvni = 7\n",
        WIREGUARD,
    ];
    match title {
        "interface.x" => kinds.map(str::to_owned).to_vec(),
        _ => vec![String::new()],
    }
}

/// `before` is what has to stand in front of tables inside of `above`.
fn below(keys: &'static [Key], above: &str, before: &str, found: &mut Vec<Place>) {
    for key in keys {
        let mut inside = before.to_owned();
        let title = if above.is_empty() { key.name.to_owned() } else { format!("{above}.{}", key.name) };
        let (title, header, keys) = match &key.shape {
            Shape::Table(keys) => (title.clone(), format!("[{title}]\n"), *keys),
            Shape::Map { value: Shape::Listed { keys, .. }, .. } => {
                let title = format!("{title}.x");
                let header = format!("[[{title}]]\n");
                inside += &header;
                (title, header, *keys)
            }
            Shape::Named { keys, .. } => {
                let header = format!("[{title}.x]\n");
                if title == "interface" {
                    // What only this kind has.
                    inside += &format!("{header}{WIREGUARD}");
                }
                (format!("{title}.x"), header, *keys)
            }
            Shape::Listed { by, keys, inline: false } => {
                let header = format!("[[{title}]]\n");
                inside += &header;
                if !by.is_empty() {
                    inside += &format!("{by} = \"m0\"\n");
                }
                (title.clone(), header, *keys)
            }
            Shape::Listed { keys, inline: true, .. } => {
                let around = [format!("[{above}]\n{} = [{{ ", key.name), " }]\n".to_owned()];
                found.push(Place { around, keys, title });
                continue;
            }
            Shape::Inline(keys) => {
                let around = [format!("[{above}]\n{} = {{ ", key.name), " }\n".to_owned()];
                found.push(Place { around, keys, title });
                continue;
            }
            _ => continue,
        };
        for more in needed(&title) {
            let around = [format!("{before}{header}{more}"), "\n".to_owned()];
            found.push(Place { around, keys, title: title.clone() });
        }
        below(keys, &title, &inside, found);
    }
}

/// The names of keys that a refusal lists, if it is one of an unknown key.
fn listed(said: &str) -> Option<BTreeSet<String>> {
    let names = |text: &str, quote: char| -> BTreeSet<String> {
        text.split(quote).skip(1).step_by(2).map(str::to_owned).collect()
    };
    // serde's words.
    if let Some((_, rest)) = said.split_once(&format!("unknown field `{NOBODYS}`, expected ")) {
        return Some(names(rest.lines().next()?, '`'));
    }
    let (_, rest) = said.split_once(&format!("{NOBODYS:?}"))?;
    let (_, rest) = rest.split_once("expected: ")?;
    Some(rest.lines().next()?.split(", ").map(|name| name.trim().to_owned()).collect())
}

#[test]
fn the_readers_know_the_same_keys() {
    let mut tables = std::collections::BTreeMap::<String, (BTreeSet<String>, &'static [Key])>::new();
    for place in places() {
        let said = read(&place.with(&format!("{NOBODYS} = 1"))).unwrap_err();
        let listed = listed(&said).unwrap_or_else(|| panic!("[{}] lists no keys: {said}", place.title));
        tables.entry(place.title).or_insert((BTreeSet::new(), place.keys)).0.extend(listed);
    }
    assert!(tables.len() > 30, "{}", tables.len());
    for (title, (known, keys)) in tables {
        let described: BTreeSet<String> = keys.iter().map(|key| key.name.to_owned()).collect();
        assert_eq!(known, described, "[{title}]: what its reader knows, and what is described");
    }
}

#[test]
fn the_readers_know_the_same_ranges() {
    let (mut asked, mut others) = (0, Vec::new());
    for place in places() {
        for key in place.keys {
            let Shape::Number { least, most } = key.shape else { continue };
            let refused = |number: i64| {
                let said = read(&place.with(&format!("{} = {number}", key.name)));
                said.is_err_and(|said| {
                    said.lines().any(|line| line.contains(key.name) && line.contains("range"))
                })
            };
            // Of readers that say so.
            if refused(i64::MAX) {
                // Some read no negative numbers at all.
                let ends =
                    [least == 0 || refused(least - 1), refused(least), refused(most), refused(most + 1)];
                if ends != [true, false, false, true] {
                    others.push(format!("[{}] {}: {ends:?}", place.title, key.name));
                }
                asked += 1;
            }
        }
    }
    assert!(others.is_empty(), "{others:#?}");
    assert!(asked > 40, "{asked}");
}

#[test]
fn the_readers_know_the_same_words() {
    // What a key may have can depend on others of its table.
    let mut asked = std::collections::BTreeMap::<_, (BTreeSet<String>, &[&str])>::new();
    let mut all = places();
    // One that lacks the key whose words are asked for.
    let keys = all.iter().find(|place| place.title == "interface.x").unwrap().keys;
    let around = ["[interface.x]\nkind = \"bond\"\n".to_owned(), "\n".to_owned()];
    all.push(Place { around, keys, title: "interface.x".to_owned() });
    for place in all {
        for key in place.keys {
            let Shape::Word(words) = key.shape else { continue };
            let said = read(&place.with(&format!("{} = \"{NOBODYS}\"", key.name))).unwrap_err();
            // Of readers that list them.
            let (before, rest) = said.split_once(NOBODYS).unwrap_or((&said, ""));
            let Some((_, rest)) = rest.split_once("expected") else { continue };
            let quote =
                if rest.trim_start_matches([':', ' ']).starts_with("one of `") || before.ends_with('`') {
                    '`'
                } else {
                    '"'
                };
            let listed: BTreeSet<&str> =
                rest.lines().next().unwrap_or_default().split(quote).skip(1).step_by(2).collect();
            if !listed.is_empty() {
                let of = asked.entry((place.title.clone(), key.name)).or_insert((BTreeSet::new(), words));
                of.0.extend(listed.into_iter().map(str::to_owned));
            }
        }
    }
    assert!(asked.len() > 15, "{}", asked.len());
    for ((title, key), (listed, words)) in asked {
        assert_eq!(listed, words.iter().map(|word| (*word).to_owned()).collect(), "[{title}] {key}");
    }
}

/// Sections that are there with as little as they need.
const LEAST: [&str; 7] = [
    "[fpm]\nlisten = \"127.0.0.1:2620\"\n",
    "[bfd]\n",
    "[flow_log.files]\n[[flow_log.collector]]\naddress = \"192.0.2.9:4739\"\n",
    "[sflow]\nagent = \"192.0.2.1\"\ncollectors = [\"192.0.2.9:6343\"]\n",
    "[mirror]\nto = \"eth9\"\n",
    "[flow]\n[flow.timeouts]\n",
    "[nat]\n[[nat.rule]]\nname = \"a\"\ntype = \"masquerade\"\nout = \"wan0\"\n",
];

const MORE: [&str; 15] = [
    "[interface.x]\n",
    "[interface.x]\nkind = \"vlan\"\nparent = \"p\"\nid = 1\n",
    "[interface.x]\nkind = \"bond\"\nmode = \"802.3ad\"\n",
    "[interface.x]\nkind = \"gre\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n",
    "[interface.x]\nkind = \"vxlan\"\nvni = 7\n",
    "[[port]]\nname = \"m0\"\n[port.memif]\nsocket = \"/run/m\"\n",
    "[[route]]\nto = \"192.0.2.0/24\"\nvia = \"198.51.100.1\"\n",
    "[vrrp.x]\ninterface = \"eth1\"\nid = 1\naddresses = [\"192.0.2.1\"]\n",
    "[discovery.x]\ninterface = \"eth1\"\n[discovery.x.ipv4]\n[discovery.x.ipv6]\n",
    "[control]\ngroup = \"adm\"\n[system]\n[system.user.ann]\nrole = \"admin\"\n[system.ssh]\n",
    "[system]\n[system.syslog]\nservers = [\"192.0.2.1\"]\n",
    "[service]\n[service.dhcp]\ninterfaces = [\"eth1\"]\n",
    "[service.dhcp6]\ninterfaces = [\"eth1\"]\n[dhcp_relay.x]\ninterfaces = [\"eth2\"]\nservers = [\"192.0.2.5\"]\n",
    "[service.lldp]\n[service.ntp]\nservers = [\"192.0.2.1\"]\n",
    "[log]\n[control]\n[audit]\n[tables]\n[workers]\n[memory]\n",
];

#[test]
fn defaults_are_those_of_the_readers() {
    let mut compared = 0;
    for least in LEAST.iter().chain(&MORE) {
        let bare = read_with_ports(least).unwrap_or_else(|said| panic!("{least}: {said}"));
        let strip =
            |router: Router| format!("{:?}", Router { text: String::new(), raw: "".into(), ..router });
        let bare = strip(bare);
        for place in places() {
            let header = place.around[0].lines().rfind(|line| line.starts_with('[')).unwrap_or_default();
            let header = format!("{header}\n");
            let in_line = place.around[1].contains('}');
            if !least.contains(&header) || header.len() < 3 || in_line {
                continue;
            }
            for key in place.keys.iter().filter(|key| !key.default.is_empty()) {
                let line = format!("{header}{} = {}\n", key.name, key.default);
                let said = match read_with_ports(&least.replacen(&header, &line, 1)) {
                    Ok(said) => said,
                    // What another kind of interface has, and what is said already.
                    Err(said) if said.contains("has no key") || said.contains("duplicate key") => continue,
                    Err(said) => panic!("{line}: {said}"),
                };
                assert_eq!(strip(said), bare, "{line}");
                compared += 1;
            }
        }
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn what_is_required_is_asked_for() {
    for place in places() {
        for key in place.keys.iter().filter(|key| key.required && !place.title.is_empty()) {
            let said = read(&place.with("")).unwrap_err();
            // A wrong rule is told with another mistake before.
            if !place.title.starts_with("nat") {
                assert!(
                    place.keys.iter().any(|key| said.contains(key.name)),
                    "[{}] {}: {said}",
                    place.title,
                    key.name
                );
            }
        }
    }
}

#[test]
fn every_key_has_a_line_of_help() {
    for place in places() {
        let mut names = BTreeSet::new();
        for key in place.keys {
            assert!(names.insert(key.name), "[{}] has {} twice", place.title, key.name);
            assert!(!key.about.is_empty() && key.about.len() <= 100, "[{}] {}", place.title, key.name);
            assert!(!key.about.ends_with('.'), "[{}] {}", place.title, key.name);
        }
    }
}

#[test]
fn the_json_schema_has_every_key() {
    let schema = config::schema::json_schema();
    assert_eq!(schema["properties"]["port"]["items"]["properties"]["lane"]["enum"][0], "auto");
    assert_eq!(schema["properties"]["port"]["items"]["required"][0], "name");
    assert_eq!(schema["properties"]["tables"]["properties"]["ipv4"]["default"], 1_500_000);
    let at = &schema["properties"]["interface"]["additionalProperties"]["properties"];
    assert_eq!(at["mtu"]["maximum"], 65_535);
}
