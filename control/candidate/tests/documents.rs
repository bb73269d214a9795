//! Documents of every kind: their set-lines make them again, the changes between two lead from one
//! to the other, and comments stay.

use candidate::{Document, Tree, changes, lines};
use chance::Random;
use config::schema::{Key, ROOT, Shape};

const NAMES: [&str; 12] =
    ["eth0", "lan", "a b", "=", "x#2", "é", "#1", "192.0.2.0/24", "to", "\"", "before", "0"];
const TEXTS: [&str; 14] = [
    "",
    "eth*",
    "a b",
    "=",
    "[]",
    "192.0.2.1",
    "it's \"so\"",
    "\\",
    "tab\there",
    "two\nlines\n",
    "é\u{7}",
    "#1",
    "]",
    "10s",
];
const LINES: [&str; 5] =
    ["accept state established\n", "drop\n\n# why\naccept\n", "accept\naccept\n", "\n\nlast\n", "no end"];

fn one<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len())]
}

/// Some value, whatever is expected.
fn any(random: &mut Random, depth: usize) -> Tree {
    match random.below(if depth > 2 { 5 } else { 7 }) {
        0 => Tree::Number(random.below(5000) as i64 - 9),
        1 => Tree::Flag(random.below(2) == 0),
        2 => Tree::Other(one(random, &["1979-05-27", "1.5", "inf"]).to_owned()),
        3 | 4 => Tree::Text(one(random, &TEXTS).to_owned()),
        5 => Tree::List((0..random.below(4)).map(|_| any(random, depth + 1)).collect()),
        _ => Tree::Table(pairs(random, 3, |random| any(random, depth + 1))),
    }
}

fn pairs(
    random: &mut Random,
    most: usize,
    mut value: impl FnMut(&mut Random) -> Tree,
) -> Vec<(String, Tree)> {
    let mut all: Vec<(String, Tree)> = Vec::new();
    for _ in 0..random.below(most + 1) {
        let name = one(random, &NAMES).to_owned();
        if all.iter().all(|(other, _)| *other != name) {
            all.push((name, value(random)));
        }
    }
    all
}

fn table(random: &mut Random, keys: &'static [Key], depth: usize) -> Tree {
    let mut all = Vec::new();
    let share = 2 + keys.len() / 4;
    for key in keys {
        if random.below(share) == 0 {
            let value =
                if random.below(12) == 0 { any(random, depth) } else { value(random, &key.shape, depth) };
            all.push((key.name.to_owned(), value));
        }
    }
    if random.below(15) == 0 {
        all.push(("nobodys".to_owned(), any(random, depth)));
    }
    Tree::Table(all)
}

fn value(random: &mut Random, shape: &'static Shape, depth: usize) -> Tree {
    let text = |random: &mut Random| Tree::Text(one(random, &TEXTS).to_owned());
    match shape {
        Shape::Table(keys) | Shape::Inline(keys) => table(random, keys, depth + 1),
        Shape::Named { keys, .. } => Tree::Table(pairs(random, 3, |random| table(random, keys, depth + 1))),
        Shape::Map { value: each, .. } => {
            Tree::Table(pairs(random, 3, |random| value(random, each, depth + 1)))
        }
        Shape::Listed { by, keys, .. } => {
            let count = random.below(4);
            let mut list = Vec::new();
            for _ in 0..count {
                let Tree::Table(mut all) = table(random, keys, depth + 1) else { continue };
                if !by.is_empty() && random.below(8) != 0 {
                    all.retain(|(key, _)| key != by);
                    all.insert(0, ((*by).to_owned(), Tree::Text(one(random, &NAMES).to_owned())));
                }
                list.push(Tree::Table(all));
            }
            Tree::List(list)
        }
        Shape::Word(words) => Tree::Text(one(random, words).to_owned()),
        Shape::NumberOr(words) if random.below(2) == 0 => Tree::Text(one(random, words).to_owned()),
        Shape::NumberOr(_) => Tree::Number(random.below(2000) as i64 - 1000),
        Shape::Number { least, most } => Tree::Number(one(random, &[*least, *most, (least + most) / 2])),
        Shape::Flag => Tree::Flag(random.below(2) == 0),
        Shape::FlagOr(_) if random.below(2) == 0 => Tree::Flag(random.below(2) == 0),
        Shape::NumberOrText(_) if random.below(2) == 0 => Tree::Number(random.below(99) as i64),
        Shape::FlagOr(_) | Shape::NumberOrText(_) => text(random),
        Shape::Lines(_) => Tree::Text(one(random, &LINES).to_owned()),
        Shape::OneOrMore(_) if random.below(2) == 0 => text(random),
        Shape::Text(_) => text(random),
        Shape::List(_) | Shape::OneOrMore(_) => {
            Tree::List((0..random.below(4)).map(|_| text(random)).collect())
        }
    }
}

/// A document as a person writes it: with headers, and comments that stand apart, each another.
fn written(random: &mut Random, tree: &Tree, comments: &mut usize) -> String {
    let mut text = String::new();
    section(random, &mut text, "", tree, comments);
    text
}

fn quoted(key: &str) -> String {
    Tree::Text(key.to_owned()).literal()
}

fn comment(random: &mut Random, text: &mut String, comments: &mut usize) {
    if random.below(3) == 0 {
        *comments += 1;
        *text += &format!("\n# comment {comments} apart\n\n");
    }
}

fn section(random: &mut Random, text: &mut String, path: &str, tree: &Tree, comments: &mut usize) {
    let Tree::Table(pairs) = tree else { return };
    let mut below = Vec::new();
    for (key, value) in pairs {
        let name = quoted(key);
        let tables = |list: &[Tree]| !list.is_empty() && list.iter().all(|one| matches!(one, Tree::Table(_)));
        match value {
            Tree::Table(_) if random.below(4) != 0 => below.push((name, value)),
            Tree::List(list) if tables(list) && random.below(4) != 0 => below.push((name, value)),
            _ => {
                comment(random, text, comments);
                *text += &format!("{name} = {}\n", value.literal());
            }
        }
    }
    for (name, value) in below {
        let path = if path.is_empty() { name } else { format!("{path}.{name}") };
        match value {
            Tree::List(list) => {
                for one in list {
                    comment(random, text, comments);
                    *text += &format!("[[{path}]]\n");
                    section(random, text, &path, one, comments);
                }
            }
            value => {
                comment(random, text, comments);
                *text += &format!("[{path}]\n");
                section(random, text, &path, value, comments);
            }
        }
    }
}

fn document(random: &mut Random) -> (Document, usize) {
    let tree = table(random, ROOT, 0);
    let mut comments = 0;
    let text = written(random, &tree, &mut comments);
    let document = Document::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(document.tree().same(&tree), "{text}");
    (document, comments)
}

fn run(document: &mut Document, lines: &[String]) {
    for line in lines {
        document.run(&[], line).unwrap_or_else(|error| panic!("{line}: {error}\n{}", document.text()));
    }
}

#[test]
fn set_lines_make_the_document_again() {
    for seed in 0..1_500 {
        let mut random = Random(seed);
        let (document, _) = document(&mut random);
        let mut again = Document::default();
        let lines = lines(&document.tree());
        run(&mut again, &lines);
        assert!(
            again.tree().same(&document.tree()),
            "{seed}: {lines:#?}\n{}\n--\n{}",
            document.text(),
            again.text()
        );
        // Once more they change nothing, but for lines that may stand there many times.
        if !document.text().contains("why") && !document.text().contains("last") {
            run(&mut again, &lines);
            assert!(again.tree().same(&document.tree()), "{seed}: twice: {lines:#?}");
        }
    }
}

#[test]
fn changes_lead_from_one_document_to_the_other() {
    for seed in 0..1_500 {
        let mut random = Random(seed);
        let (before, _) = document(&mut random);
        let after = match random.below(2) {
            0 => document(&mut random).0,
            _ => {
                // One that was edited.
                let mut after = before.clone();
                let (other, _) = document(&mut random);
                for line in lines(&other.tree()).iter().filter(|_| random.below(3) == 0) {
                    let _ = after.run(&[], line);
                }
                for line in lines(&before.tree()).iter().filter(|_| random.below(3) == 0) {
                    let _ = after.run(&[], &line.replacen("set", "delete", 1));
                }
                after
            }
        };
        let changes = changes(&before.tree(), &after.tree());
        let mut changed = before.clone();
        run(&mut changed, &changes);
        assert!(
            changed.tree().same(&after.tree()),
            "{seed}: {changes:#?}\n{}\n-- became\n{}\n-- and not\n{}",
            before.text(),
            changed.text(),
            after.text()
        );
        assert_eq!(changes.is_empty(), before.tree().same(&after.tree()), "{seed}");
        // The same lines on what the document says.
        let mut tree = before.tree();
        for line in &changes {
            tree.run(line).unwrap_or_else(|error| panic!("{seed}: {line}: {error}"));
        }
        let mut made = before.clone();
        let told = |error| panic!("{seed}: {error}\n{}\n--\n{:?}", before.text(), tree);
        made.be(&tree).unwrap_or_else(told);
        assert!(tree.same(&after.tree()), "{seed}: {changes:#?}\n{tree:?}\n{:?}", after.tree());
    }
}

/// Whether what is a table in one is a table in the other.
fn has_sections_of(after: &Tree, before: &Tree) -> bool {
    let Tree::Table(pairs) = before else { return true };
    let has =
        |(name, value): &(String, Tree)| after.get(name).is_some_and(|after| has_sections_of(after, value));
    matches!(after, Tree::Table(_)) && pairs.iter().all(has)
}

#[test]
fn a_document_that_says_something_else_keeps_its_comments() {
    for seed in 0..1_500 {
        let mut random = Random(seed);
        let (before, comments) = document(&mut random);
        let (other, _) = document(&mut random);
        let mut after = other.tree();
        let stays = random.below(3) != 0;
        if stays {
            after = before.tree();
            // What stands in a line of another section is replaced with it.
            for line in lines(&other.tree()).iter().filter(|line| !line.contains(" = ")) {
                let mut next = after.clone();
                let set = next.run(line).is_ok();
                // So is one that becomes a value.
                if set && has_sections_of(&next, &after) {
                    after = next;
                }
            }
        }
        let mut made = before.clone();
        made.be(&after).unwrap_or_else(|error| panic!("{seed}: {error}\n{}\n--\n{after:?}", before.text()));
        assert!(made.tree().same(&after), "{seed}");
        // A section takes along what stands inside of it.
        for number in (1..=comments).filter(|_| stays) {
            let comment = format!("# comment {number} apart\n");
            let found = made.text().matches(&comment).count();
            assert_eq!(found, 1, "{seed}: {comment}{}\n--\n{}", before.text(), made.text());
        }
        // What says the same already is not touched.
        let text = made.text().to_owned();
        made.be(&after).unwrap();
        assert_eq!(made.text(), text);
    }
}

#[test]
fn what_stays_is_not_touched_by_what_comes() {
    let text = "# ours\n[[port]]\nname = \"eth0\"   # up\n\n# to the lab\n[[route]]\nto = \"10.0.0.0/8\"\nvia = \"192.0.2.1\" # gw\n\n\
                # a section\n[police.icmp]\nrate = 10\nburst = 20 # both\n\n[filter]\nforward.rules = \"\"\"\n# why\naccept\n\"\"\"\n";
    let mut document = Document::parse(text).unwrap();
    let mut tree = document.tree();
    for line in [
        "set route 10.1.0.0/16 via 192.0.2.2",
        "set police icmp rate 11",
        "set port eth1 lane worker",
        "delete route 10.0.0.0/8 via",
        "set filter forward rules drop",
        "set paths key 0123456789",
    ] {
        tree.run(line).unwrap();
    }
    document.be(&tree).unwrap();
    assert_eq!(
        document.text(),
        "# ours\n[[port]]\nname = \"eth0\"   # up\n\n[[port]]\nname = \"eth1\"\nlane = \"worker\"\n\n# to the lab\n[[route]]\nto = \"10.0.0.0/8\"\n\n\
         [[route]]\nto = \"10.1.0.0/16\"\nvia = \"192.0.2.2\"\n\n# a section\n[police.icmp]\nrate = 11\nburst = 20 # both\n\n\
         [filter]\nforward.rules = \"\"\"\n# why\naccept\ndrop\n\"\"\"\n\n[paths]\nkey = \"0123456789\"\n"
    );
}

#[test]
fn comments_that_stand_apart_survive_every_edit() {
    let mut edits = 0;
    for seed in 0..1_500 {
        let mut random = Random(seed);
        let (before, comments) = document(&mut random);
        let (other, _) = document(&mut random);
        let mut edited = before.clone();
        let mut said = lines(&other.tree());
        // What stands in a line of another section is replaced with it.
        said.retain(|line| !line.contains(" = "));
        said.extend(lines(&before.tree()).iter().map(|line| line.replacen("set", "delete", 1)));
        for line in said.iter().filter(|_| random.below(2) == 0) {
            // A section takes along what stands inside of it.
            let words = candidate::split(line).unwrap();
            let whole = matches!(edited.at(&words[1..]), Ok(Some(Tree::Table(_))));
            if words[0].text == "delete" && whole {
                continue;
            }
            edits += usize::from(edited.run(&[], line).is_ok());
        }
        for number in 1..=comments {
            let comment = format!("# comment {number} apart\n");
            assert_eq!(
                edited.text().matches(&comment).count(),
                1,
                "{seed}: {number}\n{}\n--\n{}",
                before.text(),
                edited.text()
            );
        }
    }
    assert!(edits > 2_000, "{edits}");
}

#[test]
fn no_line_does_harm() {
    let words = [
        "set",
        "delete",
        "insert",
        "copy",
        "rename",
        "annotate",
        "port",
        "eth0",
        "route",
        "#1",
        "#2",
        "=",
        "{",
        "}",
        "[]",
        "\"",
        "'",
        "first",
        "before",
        "to",
        "filter",
        "forward",
        "rules",
        "nat",
        "rule",
        "lane",
        "worker",
        "x",
        "1",
        "vrrp",
        "track",
        "interface",
        "= {}",
        "= [{}, 1]",
        "description",
        "\"a b\"",
        "\\",
        "é",
    ];
    for seed in 0..10_000 {
        let mut random = Random(seed);
        let mut text = String::from("[[port]]\nname = \"eth0\"\n\u{0}");
        for _ in 0..random.below(6) {
            for _ in 0..random.below(9) {
                text += one(&mut random, &words);
                text.push(' ');
            }
            text.push('\n');
        }
        candidate::fuzz(text.as_bytes());
    }
}

const FILE: &str = include_str!("../../../docs/router.toml");

#[test]
fn the_sample_keeps_its_looks() {
    let mut document = Document::parse(FILE).unwrap();
    for (line, from, to) in [
        ("set tables ipv4 2_000", "ipv4 = 1_500_000\n", "ipv4 = 2000\n"),
        (
            "set police icmp rate 7",
            "icmp = { rate = 5_000, burst = 1_000 }          # ICMP",
            "icmp = { rate = 7, burst = 1_000 }          # ICMP",
        ),
        (
            "set log level debug",
            "level = \"info\"              # \"error\"",
            "level = \"debug\"              # \"error\"",
        ),
        (
            "set workers cores 1-3",
            "busy_poll = \"auto\"          # poll the driver from the socket: \"on\", \"off\", or \"auto\": where the kernel has it\n",
            "busy_poll = \"auto\"          # poll the driver from the socket: \"on\", \"off\", or \"auto\": where the kernel has it\ncores = \"1-3\"\n",
        ),
    ] {
        let expected = document.text().replacen(from, to, 1);
        assert_ne!(expected, document.text(), "{line}");
        document.run(&[], line).unwrap();
        assert_eq!(document.text(), expected, "{line}");
    }
    // What is removed takes nothing of the prose along that stands apart.
    let prose = document.text().matches('#').count();
    document.run(&[], "delete memory hugepages").unwrap();
    document.run(&[], "delete audit").unwrap();
    assert!(prose - document.text().matches('#').count() <= 5);
}

/// What lines make of an empty document.
fn made(lines: &[&str]) -> String {
    let mut document = Document::default();
    for line in lines {
        document.run(&[], line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    document.text().to_owned()
}

#[test]
fn what_is_written_looks_as_a_person_writes() {
    let text = made(&[
        "set port eth0",
        "set port eth1 lane worker",
        "set interface eth0 addresses 192.0.2.2/30",
        "set interface eth0 addresses 2001:db8::2/64",
        "set interface eth0 description to the world",
        "set route default via 192.0.2.1",
        "set route 10.0.0.0/8 kind blackhole",
        "set filter forward policy drop",
        "set filter forward rules accept state established,related",
        "set filter forward rules accept tcp to any port 443",
        "set police icmp rate 100",
        "set police icmp burst 7",
        "set vrrp lan track #1 interface wan0",
    ]);
    let expected = r#"[[port]]
name = "eth0"

[[port]]
name = "eth1"
lane = "worker"

[interface.eth0]
addresses = ["192.0.2.2/30", "2001:db8::2/64"]
description = "to the world"

[[route]]
to = "default"
via = "192.0.2.1"

[[route]]
to = "10.0.0.0/8"
kind = "blackhole"

[filter.forward]
policy = "drop"
rules = """
accept state established,related
accept tcp to any port 443
"""

[police]
icmp = { rate = 100, burst = 7 }

[vrrp.lan]
track = [{ interface = "wan0" }]
"#;
    assert_eq!(text, expected);
}

#[test]
fn things_are_moved_copied_renamed_and_annotated() {
    let mut document = Document::parse(
        "# head\n\n[[port]]\nname = \"a\"\n[port.memif]\nsocket = \"/a\"\n\n# second\n[[port]]\nname = \"b\"\n\n\
         [filter.input]\nrules = \"\"\"\none\n# two\nthree\n\"\"\"\n[interface.x]\nmtu = 1500\n[interface.x2]\naddresses = [\"192.0.2.1/24\"]\n",
    )
    .unwrap();
    let mut run = |line: &str| {
        document.run(&[], line).map(|()| document.text().to_owned()).map_err(|error| error.to_string())
    };
    let text = run("insert port b first").unwrap();
    assert!(
        text.find("# second\n[[port]]\nname = \"b\"").unwrap()
            < text.find("name = \"a\"\n[port.memif]").unwrap(),
        "{text}"
    );
    let text = run("insert filter input rules three before one").unwrap();
    assert!(text.contains("three\none\n# two\n"), "{text}");
    assert!(run("insert filter input rules new after #1").unwrap().contains("three\nnew\none\n"));
    assert!(
        run("insert interface x2 addresses 192.0.2.9/24 first")
            .unwrap()
            .contains("[\"192.0.2.9/24\", \"192.0.2.1/24\"]")
    );
    let text = run("copy interface x to y").unwrap();
    assert!(
        text.contains("[interface.x]\nmtu = 1500\n") && text.contains("[interface.y]\nmtu = 1500\n"),
        "{text}"
    );
    assert!(run("copy interface x to y").unwrap_err().contains("is there already"));
    let text = run("rename interface y to z").unwrap();
    assert!(!text.contains("interface.y]") && text.contains("[interface.z]\nmtu = 1500\n"), "{text}");
    let text = run("copy port a to c").unwrap();
    assert_eq!(text.matches("socket = \"/a\"").count(), 2, "{text}");
    assert!(
        text.contains("name = \"c\"\n[port.memif]") || text.contains("name = \"c\"\n\n[port.memif]"),
        "{text}"
    );
    let text = run("rename port c to d").unwrap();
    assert!(!text.contains("\"c\"") && text.contains("\"a\""), "{text}");
    let text = run("annotate interface x \"to the east\"").unwrap();
    assert!(text.contains("# to the east\n[interface.x]\n"), "{text}");
    let text = run("annotate interface x mtu why").unwrap();
    assert!(text.contains("# why\nmtu = 1500\n"), "{text}");
    let text = run("annotate interface x \"\"").unwrap();
    assert!(!text.contains("to the east"), "{text}");
    let text = run("delete port a memif").unwrap();
    assert_eq!(text.matches("memif").count(), 1, "{text}");
}

#[test]
fn what_cannot_be_said_is_refused_with_a_cure() {
    let mut document = Document::parse("[[port]]\nname = \"a\"\n[interface.x]\nmtu = 1500\n").unwrap();
    for (line, words) in [
        ("set prot a", "did you mean \"port\"?"),
        ("set port a lane fast", "expected auto, express, worker"),
        ("set interface x mtu 1", "from 68 to 65535"),
        ("set interface x mtu", "a whole number"),
        ("set interface x mtu 1500 9000", "did not expect \"9000\""),
        ("set interface", "its name"),
        ("set interface x enabled perhaps", "true or false"),
        ("set route 10.0.0.0/8#3 via 192.0.2.1", "the next one is 10.0.0.0/8, not 10.0.0.0/8#3"),
        ("delete interface y", "there is no interface y"),
        ("delete interface x mtu 9000", "there is no interface x mtu 9000"),
        ("delete", "say what"),
        ("sit x", "did you mean \"set\"?"),
        ("set interface x description \"a", "a quote is not closed"),
        ("set tables ipv4 = [", "no TOML"),
        ("copy interface x mtu to y", "no name of yours"),
    ] {
        let before = document.clone();
        let said = document.run(&[], line).unwrap_err().to_string();
        assert!(said.contains(words), "{line}: {said}");
        assert_eq!(document, before, "{line}");
    }
}

#[test]
fn a_part_is_shown_as_it_is_written() {
    let document = Document::parse("# head\n\n[[port]]\nname = \"a\" # one\n\n# about b\n[[port]]\nname = \"b\"\n[log]\nlevel = \"info\"\n").unwrap();
    let only =
        |line: &str| document.only(&candidate::split(line).unwrap()).map(|only| only.text().to_owned());
    assert_eq!(only("port b").unwrap(), "# about b\n[[port]]\nname = \"b\"\n");
    assert_eq!(only("log level").unwrap(), "[log]\nlevel = \"info\"\n");
    assert!(only("nat").is_err());
}
