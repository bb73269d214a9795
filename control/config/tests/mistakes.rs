//! A wrong file is refused whole, and every mistake in it is named with its place and what would be
//! right.

use config::{Cores, Machine, Mistakes, Router};

fn machine() -> Machine {
    Machine { cores: Cores(vec![0, 1, 2, 3]) }
}

fn read(text: &str) -> Result<Router, Mistakes> {
    Router::read("router.toml", text, &machine())
}

/// Cases are divided by lines of `=`, a file from what is said of it by a line of `-`.
const CASES: &str = include_str!("mistakes.txt");

#[test]
fn every_mistake_is_named_with_its_place_and_what_would_be_right() {
    let mut wrong = String::new();
    let mut cases = 0;
    for case in CASES.split("==========\n").filter(|case| !case.trim().is_empty()) {
        let (text, expected) = case.split_once("----------\n").expect("a file and what is said of it");
        let said = read(text).map(|_| String::new()).unwrap_or_else(|mistakes| format!("{mistakes}\n"));
        if said != expected {
            wrong += &format!("{text}----------\n{said}==========\n");
        }
        cases += 1;
    }
    assert!(wrong.is_empty(), "these are answered otherwise:\n{wrong}");
    assert!(cases >= 40, "only {cases} cases");
}
