//! What the manual says about matches is what they say themselves, and what they give as examples
//! is right.

use rules::{Examples, Filter, Hook, Manual, Match};

/// With BLESS=1 in the environment it writes the table instead.
#[test]
fn the_table_of_matches_is_theirs() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/filter.md");
    let document = std::fs::read_to_string(path).unwrap();
    let head = "| match | |\n|---|---|\n";
    let (before, rest) = document.split_once(head).unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let row = |row: &Manual| format!("| {} | {} |", row.syntax, row.meaning);
    let rows: Vec<String> = Match::manual().iter().map(row).collect();
    let expected = format!("{before}{head}{}\n\n{after}", rows.join("\n"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &expected).unwrap();
    } else {
        assert!(document == expected, "BLESS=1 writes the table of docs/filter.md anew");
    }
}

#[test]
fn every_example_is_read_as_it_is_printed() {
    for Manual { examples, unknown, .. } in Match::manual() {
        let hook = Hook::ALL.into_iter().find(|hook| !unknown.contains(hook)).expect("somewhere it is known");
        let written: Vec<String> = match examples {
            Examples::Items(word, items) => {
                let list = items.join(",");
                let ways =
                    items.iter().map(|item| item.to_string()).chain([list.clone(), format!("!{list}")]);
                ways.map(|items| format!("{word} {items}")).collect()
            }
            Examples::Whole(examples) => examples.iter().map(|example| example.to_string()).collect(),
            Examples::BesideOthers => continue,
        };
        let read = |at: Hook, line: &str| {
            let text = format!("chain {}\naccept {line}\n", at.name());
            Filter::read("f", &text, &mut |_| Err(std::io::ErrorKind::NotFound.into()))
        };
        for line in written {
            let filter = read(hook, &line).unwrap_or_else(|mistakes| panic!("{mistakes}"));
            let (_, rule) = filter.rules().next().expect("one");
            assert_ne!(rule.matches, Match::default(), "{line}");
            let again = read(hook, &rule.matches.to_string()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
            assert_eq!(again.rules().next().expect("one").1.matches, rule.matches, "{line}");
            for elsewhere in unknown {
                assert!(read(*elsewhere, &line).is_err(), "{line} at {elsewhere:?}");
            }
        }
    }
}

#[test]
fn every_way_of_rejecting_is_named() {
    let document = include_str!("../../../../docs/filter.md");
    let row = document.lines().find(|line| line.starts_with("| `reject")).expect("a row");
    for (word, _) in wire::IcmpError::ALL.iter().filter_map(|error| error.asked()) {
        assert!(row.contains(&format!("`{word}`")), "docs/filter.md: {word}");
        let rule = format!("chain forward\nreject with {word}\n");
        let filter = Filter::read("f", &rule, &mut |_| Err(std::io::ErrorKind::NotFound.into()));
        let filter = filter.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(filter.rules().next().expect("one").1.to_string(), format!("reject with {word}"));
    }
}
