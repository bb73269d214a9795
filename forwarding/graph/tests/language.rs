//! Click's language, by example and by chance.
//!
//! The examples are files, see `language/README.md`. The rest is what has to hold for any text
//! whatever: nothing panics, formatting keeps the meaning, and a text of a megabyte that means harm
//! is still refused in time.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use graph::language::{
    Flat, Report, Texts, Tree, expand, format, parse, parse_with_libraries, quote, split_arguments, unparse,
    unquote,
};
use proptest::prelude::*;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language").join(name)
}

/// The texts of a folder, by name.
fn texts_in(name: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "click"));
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

fn is_element_class(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase()) && !name.contains(['@', '/'])
}

fn find_library(name: &str, _from: &str) -> Result<(String, String), String> {
    match fs::read_to_string(folder("libraries").join(name)) {
        Ok(text) => Ok((name.to_owned(), text)),
        Err(_) => Err(format!("library '{name}' not found")),
    }
}

/// A text read and expanded, with what was said about it.
struct Outcome {
    texts: Texts,
    tree: Tree,
    flat: Flat,
    report: Report,
    /// Whether it could be read, whatever it means.
    readable: bool,
}

fn read(name: &str, source: &str) -> Outcome {
    let mut texts = Texts::new();
    let text = texts.add(name, source);
    let mut report = Report::new();
    let tree = parse_with_libraries(&mut texts, text, &mut find_library, &mut report);
    let readable = !report.has_errors();
    let flat = expand(&tree, &[], &is_element_class, &mut report);
    Outcome { texts, tree, flat, report, readable }
}

/// Compares with the file beside the text, or writes it when asked to.
fn check(path: &Path, extension: &str, found: &str) {
    let expected = path.with_extension(extension);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&expected, found).unwrap();
    }
    let expected = fs::read_to_string(&expected).unwrap_or_default();
    assert_eq!(found, expected, "{} came out otherwise", path.display());
}

/// What can be read can be formatted: the second time changes nothing, no comment is lost, the
/// meaning stays.
fn check_format(outcome: &Outcome) {
    let formatted = format(&outcome.tree);
    let again = read("formatted", &formatted);
    assert!(again.readable, "{formatted}\n{}", again.report.render(&again.texts));
    assert_eq!(format(&again.tree), formatted);
    assert_eq!(unparse(&again.flat), unparse(&outcome.flat), "{formatted}");
    let missing = outcome.tree.comments.iter().find(|comment| !formatted.contains(&comment.text));
    assert_eq!(missing, None, "{formatted}");
}

#[test]
fn right_texts_expand_to_what_they_mean() {
    for path in texts_in("right") {
        let outcome = read(&path.file_name().unwrap().to_string_lossy(), &fs::read_to_string(&path).unwrap());
        assert_eq!(outcome.report.render(&outcome.texts), "", "{}", path.display());
        check(&path, "flat", &unparse(&outcome.flat));
        check_format(&outcome);
    }
}

#[test]
fn what_was_unparsed_means_the_same() {
    for path in texts_in("right") {
        let flat = unparse(&read("text", &fs::read_to_string(&path).unwrap()).flat);
        let again = read("flat", &flat);
        assert_eq!(again.report.render(&again.texts), "", "{}", path.display());
        assert_eq!(unparse(&again.flat), flat, "{}", path.display());
    }
}

#[test]
fn wrong_texts_are_told_of_every_mistake() {
    for path in texts_in("wrong") {
        let outcome = read(&path.file_name().unwrap().to_string_lossy(), &fs::read_to_string(&path).unwrap());
        assert!(outcome.report.has_errors(), "{}", path.display());
        check(&path, "errors", &outcome.report.render(&outcome.texts));
    }
}

#[test]
fn what_stands_where_can_be_asked() {
    let source = "elementclass E { $x | a :: Queue( 5 ), b :: Queue($x) }\nIdle -> Discard(1);\nE(2);";
    let mut texts = Texts::new();
    let text = texts.add("t", source);
    let mut report = Report::new();
    let flat = expand(&parse(&texts, text, &mut report), &[], &is_element_class, &mut report);
    let said = |name: &str| {
        let element = flat.elements.iter().find(|element| element.name == name).unwrap();
        let configuration = element.configuration_at.map(|at| texts.at(at));
        (texts.at(element.at), texts.at(element.class_at), configuration)
    };
    assert_eq!(said("Discard@2"), ("Discard", "Discard", Some("1")));
    assert_eq!(said("E@3/a"), ("a", "Queue", Some(" 5 ")));
    assert_eq!(said("E@3/b"), ("b", "Queue", None));
    assert_eq!(texts.at(flat.connections[0].at), "->");
}

#[test]
fn the_command_line_defines_over_the_text() {
    let mut texts = Texts::new();
    let text = texts.add("t", "define($a 1, $b 2) x :: C($a $b $c); { define($b 3) y :: C($b) }");
    let mut report = Report::new();
    let defines = [("b".to_owned(), "20".to_owned()), ("c".to_owned(), "$a".to_owned())];
    let flat = expand(&parse(&texts, text, &mut report), &defines, &is_element_class, &mut report);
    let configurations: Vec<&str> = flat.elements.iter().map(|element| &*element.configuration).collect();
    assert_eq!(configurations, ["1 20 1", "3"]);
}

/// Texts that would grow without end, or cost more with every byte, if nothing limited them.
fn harmful() -> Vec<(&'static str, String)> {
    let repeat = |what: &str, count: usize| what.repeat(count);
    let doubling: String =
        (1..60).map(|n| format!("elementclass A{n} {{ A{0}; A{0} }}\n", n - 1)).collect::<String>() + "A59;";
    let deep: String =
        (1..5000).map(|n| format!("elementclass A{n} {{ x :: A{} }}\n", n - 1)).collect::<String>()
            + "A4999;";
    let values: String =
        (0..9).map(|n| format!("define($v{n} {})\n", format!("$v{}", n + 1).repeat(500))).collect();
    let silent = format!("{values}define($v9)\nC($v0);");
    let loud = format!("{values}define($v9 0123456789)\nC($v0);");
    vec![
        ("parentheses", repeat("(", 1_000_000)),
        ("braces", repeat("{", 1_000_000)),
        ("closed braces", repeat("{", 500_000) + &repeat("}", 500_000)),
        ("closing", repeat(")}", 500_000)),
        ("brackets", repeat("[", 1_000_000)),
        ("unclosed", repeat("A(", 500_000)),
        ("unclosed lines", repeat("A(\n", 300_000)),
        ("quotes", repeat("A(\"\n", 250_000)),
        ("comments", repeat("/*", 500_000)),
        ("opened comments", repeat("A(/*\n", 200_000)),
        ("arrows", repeat("->", 500_000)),
        ("groups in a row", repeat("(->)->", 20_000)),
        ("compounds in a row", repeat("{->}->", 20_000)),
        ("names", repeat("A ", 150_000)),
        ("alternatives", format!("elementclass A {{ {} }} A", repeat("||", 400_000))),
        ("a long port list", format!("a :: A; a [{}0] => a", repeat("65535,", 150_000))),
        ("every port", format!("a :: A; {}", repeat("{[65535]->A}->a;", 20_000))),
        ("everything to everything", format!("a :: A; {} -> a", repeat("a,", 400_000) + "a")),
        (
            "crossing tunnels",
            format!("{} -> (->) -> {}", repeat("A,", 5_000) + "A", repeat("A,", 5_000) + "A"),
        ),
        ("doubling compounds", format!("elementclass A0 {{ B; B }}\n{doubling}")),
        ("compounds deep", format!("elementclass A0 {{ }}\n{deep}")),
        ("values that double", loud),
        ("values that double nothing", silent),
        ("directives", repeat("# 5 \"x\"\n)\n", 80_000)),
        ("dollars", format!("A({})", repeat("${", 300_000))),
    ]
}

#[test]
fn harmful_texts_are_refused_or_read_in_time() {
    for (name, source) in harmful() {
        let outcome = read(name, &source);
        let printed = outcome.report.render(&outcome.texts);
        assert!(printed.len() < 1 << 20, "{name}: {} bytes of messages", printed.len());
        let formatted = format(&outcome.tree);
        assert!(formatted.len() < source.len() * 20, "{name}: {} bytes formatted", formatted.len());
    }
}

/// Pieces of the language, to make texts of that mostly can be read.
fn soup() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "a",
        "b",
        "c",
        "x/y",
        "A",
        "B",
        "Queue",
        "Null@2",
        "input",
        "output",
        "elementclass",
        "define",
        "require",
        "0",
        "1",
        "12",
        "KEY",
        "__REST__",
    ]);
    let sign = prop::sample::select(vec![
        "->",
        "=>",
        "::",
        ";",
        ",",
        "||",
        "|",
        "...",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "[0]",
        "[1,2]",
        "[]",
        "[1,]",
        "$x",
        "$y",
        "(1, $x)",
        "(\"$x\", '$y')",
        "($x 1)",
        "\n",
        "\n\n",
        " ",
        "// c\n",
        "/* d */",
        "/* e\n e */",
        "{ -> A -> }",
        "( -> B -> )",
        "elementclass A { $x | -> Queue($x) -> || -> }",
        "a :: A;",
        "-> A ->",
        "\"",
        "'",
        "\\<",
        "#",
        "é",
    ]);
    prop::collection::vec(prop_oneof![2 => word, 3 => sign], 0..60).prop_map(|pieces| pieces.join(" "))
}

/// A text that can be read, statement by statement.
fn readable() -> impl Strategy<Value = String> {
    let space = prop::sample::select(vec![
        " ",
        " ",
        "\n",
        "\n\n",
        " // c\n",
        " /* d */ ",
        "\n// e\n",
        "\n\n// f\n",
        "/* g\n g */",
    ]);
    let name = prop::sample::select(vec![
        "A",
        "B",
        "Queue(5)",
        "Null( 1, 2 )",
        "C(\n  1,\n  2\n)",
        "x1 :: D",
        "[1] A [2]",
        "A [0,1]",
    ]);
    let simple =
        (prop::collection::vec((name, space.clone()), 1..6), prop::bool::ANY).prop_map(|(names, many)| {
            let arrow = if many { "=> " } else { "-> " };
            names.into_iter().map(|(name, space)| format!("{name}{space}")).collect::<Vec<_>>().join(arrow)
        });
    let chain = simple.prop_recursive(4, 40, 4, move |inner| {
        let space = space.clone();
        let statement =
            (inner.clone(), space.clone()).prop_map(|(statement, space)| format!("{statement};{space}"));
        let inside = prop::collection::vec(statement, 0..4).prop_map(|statements| statements.concat());
        let class =
            (space.clone(), inside.clone(), space.clone(), inside.clone()).prop_map(|(a, one, b, two)| {
                format!("elementclass E {{ $x,{a}KEY $y | {one} || {b} {two} || {b} ...{a}}}{b}")
            });
        let inside =
            prop_oneof![3 => inside.clone(), 1 => (class, inside).prop_map(|(class, rest)| class + &rest)];
        prop_oneof![
            (space.clone(), inside.clone(), space.clone())
                .prop_map(|(a, text, b)| format!("{{{a}{text}{b}}}")),
            (space.clone(), inside.clone(), space.clone())
                .prop_map(|(a, text, b)| format!("(->{a}Null -> ;{text}{b})")),
            (inner.clone(), space.clone(), inner.clone())
                .prop_map(|(one, a, two)| format!("{one}{a}->{a}{two}")),
            (inner.clone(), space.clone(), inner).prop_map(|(one, a, two)| format!("{one}{a};{a}{two}")),
            (space.clone(), inside).prop_map(|(a, text)| format!("n{a}::{a}{{ ->{a}Null ->{a}; {text} }}")),
        ]
    });
    prop::collection::vec(chain, 0..5).prop_map(|chains| chains.join(";\n"))
}

/// A text of the examples with some of its bytes changed, lost or doubled.
fn mutated() -> impl Strategy<Value = String> {
    let examples: Vec<Vec<u8>> = ["right", "wrong"]
        .into_iter()
        .flat_map(texts_in)
        .filter(|path| !path.ends_with("nesting.click"))
        .map(|path| fs::read(path).unwrap())
        .collect();
    let change = (
        any::<prop::sample::Index>(),
        0..4u8,
        prop::sample::select(b"(){}[]->=:|,;$\"'\\</*#\nxA0\xc3".to_vec()),
    );
    (prop::sample::select(examples), prop::collection::vec(change, 1..8)).prop_map(|(mut bytes, changes)| {
        for (index, kind, byte) in changes {
            let at = index.index(bytes.len().max(1)).min(bytes.len());
            match kind {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => bytes[at] = byte,
                2 if at < bytes.len() => drop(bytes.remove(at)),
                _ => {
                    let again: Vec<u8> = bytes[at..].iter().take(20).copied().collect();
                    bytes.splice(at..at, again);
                }
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn check_anything(source: &str) {
    let outcome = read("text", source);
    outcome.report.render(&outcome.texts);
    outcome.report.render_lines(&outcome.texts);
    if outcome.readable {
        check_format(&outcome);
    }
    // What is called by the name of a class that is met only later: from there on the name is the
    // class, in Click as here.
    let elements = &outcome.flat.elements;
    let names: HashSet<&str> = elements.iter().map(|element| element.name.as_str()).collect();
    let ambiguous = elements.iter().any(|element| names.contains(element.class.as_str()));
    // A variable's value may leave a quote open in what it is put into.
    if !outcome.report.has_errors() && !ambiguous && !source.contains('$') {
        let flat = unparse(&outcome.flat);
        let again = read("flat", &flat);
        assert_eq!(unparse(&again.flat), flat);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn pieces_of_the_language_never_panic(source in soup()) {
        check_anything(&source);
    }

    #[test]
    fn readable_texts_are_formatted_without_loss(source in readable()) {
        let mut texts = Texts::new();
        let text = texts.add("text", &source);
        let mut report = Report::new();
        parse(&texts, text, &mut report);
        prop_assert!(!report.has_errors(), "{}\n{}", source, report.render(&texts));
        check_anything(&source);
    }

    #[test]
    fn changed_examples_never_panic(source in mutated()) {
        check_anything(&source);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check_anything(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn what_is_quoted_is_unquoted_to_itself(text in ".*") {
        prop_assert_eq!(unquote(&quote(&text)), text.into_bytes());
    }

    #[test]
    fn arguments_are_pieces_of_their_configuration(text in "[a-z ,\"'\\\\<>/*\n()\u{e4}]{0,40}") {
        for piece in split_arguments(&text) {
            let there = text.get(piece.range.clone());
            prop_assert!(there.is_some(), "{:?}", piece);
            prop_assert!(piece.text.len() <= there.unwrap_or("").len().max(1));
        }
    }
}
