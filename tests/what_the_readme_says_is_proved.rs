//! README.md, and the pages of docs/ that make promises, against `readme.toml`: each sentence is
//! listed there with the tests, or the figures, that prove it; each of those exists; and nothing is
//! listed that no page says any more.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

const LISTED: &str = include_str!("readme.toml");
const README: &str = include_str!("../README.md");

/// The pages whose every sentence is proved. What two of them say is listed once.
const PAGES: [(&str, &str); 4] = [
    ("README.md", README),
    ("docs/lanes.md", include_str!("../docs/lanes.md")),
    ("docs/limits.md", include_str!("../docs/limits.md")),
    ("docs/measured.md", include_str!("../docs/measured.md")),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What a page says, with single spaces: its prose and the rows of its tables, but not what is
/// typed, drawn or a heading.
fn said(page: &str) -> String {
    let mut typed = false;
    let lines = page.lines().map(str::trim).filter(|line| {
        typed ^= line.starts_with("```");
        let row_that_says_nothing = line.starts_with('|') && !line.contains('`');
        !(typed || row_that_says_nothing || ["```", "#", "!["].iter().any(|mark| line.starts_with(mark)))
    });
    let words = lines.map(|line| line.strip_prefix("- ").unwrap_or(line)).flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}

fn sentences() -> Vec<Table> {
    let list: Table = LISTED.parse().unwrap();
    list["sentence"].as_array().unwrap().iter().map(|one| one.as_table().unwrap().clone()).collect()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn every_sentence_is_listed_and_stands_there() {
    let mut left = PAGES.map(|(_, page)| said(page));
    // The longest first: a short one may be part of it.
    let mut sentences = sentences();
    sentences.sort_by_key(|one| std::cmp::Reverse(one["says"].as_str().unwrap().len()));
    for one in &sentences {
        let says = one["says"].as_str().unwrap();
        let stands = left.iter().any(|page| page.contains(says));
        assert!(stands, "no page says this, or readme.toml has it twice: {says}");
        left = left.map(|page| page.replacen(says, "\n", 1));
        let proofs = ["tests", "bench", "word"].iter().filter(|kind| one.contains_key(**kind)).count();
        assert_eq!(proofs, 1, "tests, bench or word, one of them: {says}");
    }
    for ((name, _), left) in PAGES.iter().zip(&left) {
        let unlisted = left.lines().map(str::trim).filter(|rest| rest.chars().any(char::is_alphanumeric));
        let unlisted: Vec<&str> = unlisted.collect();
        assert!(unlisted.is_empty(), "sentences of {name} that are not in tests/readme.toml: {unlisted:#?}");
    }
}

#[test]
fn every_test_that_is_named_is_one() {
    let mut files: HashMap<String, String> = HashMap::new();
    for one in sentences().iter().filter(|one| one.contains_key("tests")) {
        let tests = texts(&one["tests"]);
        assert!(!tests.is_empty(), "{:?}", one["says"]);
        for test in tests {
            let (file, function) = test.split_once("::").unwrap();
            let text = files.entry(file.to_owned()).or_insert_with(|| read(file));
            let before = text.split_once(&format!("fn {function}(")).map(|(before, _)| before);
            let marked = before.is_some_and(|before| before.trim_end().ends_with("#[test]"));
            assert!(marked, "{file} has no test {function}");
        }
    }
}

#[test]
fn every_figure_is_one_of_the_benches() {
    type Kept = HashMap<String, HashMap<String, f64>>;
    let kept: Kept = serde_json::from_str(&read("measure/bench/baseline.json")).unwrap();
    let mut named = 0;
    for one in sentences().iter().filter(|one| one.contains_key("bench")) {
        for name in texts(&one["bench"]) {
            assert!(
                kept.values().any(|kept| kept.contains_key(name)),
                "no bench is called {name}: {:?}",
                one["says"]
            );
            named += 1;
        }
    }
    assert!(named > 40, "{named}");
}

#[test]
fn what_it_links_to_is_there() {
    for link in README.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
        assert!(link.starts_with("https://") || root().join(link).exists(), "{link}");
    }
}

#[test]
fn the_demo_has_the_routes_that_it_is_said_to_have() {
    assert!(read("demo/src/stage.rs").contains("ANNOUNCED: (usize, usize) = (200_000, 50_000)"));
    let daemons = read("demo/src/stage.rs");
    assert!(daemons.contains("Bird::start") && daemons.contains("Frr::start") && daemons.contains("bgpd"));
}

#[test]
fn licences_are_those_that_it_names() {
    assert!(read("Cargo.toml").contains("license = \"MIT OR Apache-2.0\""));
    assert!(read("LICENSE-MIT").contains("Permission is hereby granted"));
    assert!(read("LICENSE-APACHE").contains("Apache License"));
    let programs = fs::read_dir(root().join("forwarding/bpf")).unwrap().map(|file| file.unwrap().path());
    let programs: Vec<_> = programs.filter(|file| file.extension().is_some_and(|kind| kind == "c")).collect();
    assert!(programs.len() >= 6);
    for program in programs {
        let text = fs::read_to_string(&program).unwrap();
        assert!(text.contains("SEC(\"license\") = \"Dual MIT/GPL\""), "{}", program.display());
    }
}
