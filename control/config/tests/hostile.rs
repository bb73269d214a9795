//! No text makes the reader panic, hang, or say something without a place in the file.

use chance::Random;
use config::{Cores, Machine, Router};

const SAMPLE: &str = include_str!("../../../docs/router.toml");

fn check(text: &str) -> bool {
    let machine = Machine { cores: Cores(vec![0, 1]) };
    let Err(mistakes) = Router::read("f", text, &machine) else { return true };
    assert!(!mistakes.0.is_empty());
    let lines = text.split('\n').count();
    for mistake in &mistakes.0 {
        assert!(
            (1..=lines).contains(&mistake.line) && mistake.column >= 1 && mistake.width >= 1,
            "{mistake:?}"
        );
        assert!(mistake.column + mistake.width <= mistake.text.chars().count() + 2, "{mistake:?}");
        assert!(!mistake.message.is_empty());
    }
    assert!(mistakes.to_string().ends_with("nothing was changed"));
    false
}

#[test]
fn mutations_of_a_sound_file_are_read_or_refused() {
    let sound = SAMPLE
        .replace("# [[port]]", "[[port]]")
        .replace("# name = \"e", "name = \"e")
        .replace("# name = \"m", "name = \"m")
        .replace("# [port.memif]", "[port.memif]")
        .replace("# socket = \"/run/memif", "socket = \"/run/memif")
        .replace("# lane", "lane");
    assert!(check(&sound));
    let tokens = [
        "[",
        "]",
        "[[",
        "]]",
        "=",
        "\"",
        "'",
        "\"\"\"",
        "{",
        "}",
        ",",
        ".",
        "\n",
        "#",
        "é",
        "\u{0}",
        "\r",
        "0x",
        "-",
        "1e9",
        "true",
        "[[port]]\n",
        "rate",
        "name = \"*\"\n",
        "\u{feff}",
        "2026-11-21",
    ];
    let mut random = Random(1);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..6_000 {
        let mut text: Vec<char> = sound.chars().collect();
        for _ in 0..=random.below(4) {
            let at = random.below(text.len());
            match random.below(4) {
                0 => drop(text.remove(at)),
                1 => drop(text.drain(at..(at + random.below(40)).min(text.len()))),
                2 => drop(text.splice(at..at, tokens[random.below(tokens.len())].chars()).count()),
                _ => text[at] = char::from_u32(random.below(0x300) as u32).unwrap_or('x'),
            }
        }
        let text: String = text.into_iter().collect();
        if check(&text) { accepted += 1 } else { refused += 1 }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
}

#[test]
fn random_text_is_read_or_refused() {
    let tokens = [
        "[port]",
        "[[port]]",
        "[workers]",
        "name",
        "lane",
        "cores",
        "=",
        "\"a\"",
        "1",
        "[1]",
        "{a=1}",
        "\n",
        " ",
        ".",
        "\"",
        "]",
        "[",
        "{",
        "}",
        "é",
        "\t",
        "#x",
        "99999999999999999999",
        "-5",
        "police.icmp.rate",
    ];
    let mut random = Random(2);
    for _ in 0..40_000 {
        let text: String = (0..random.below(30)).map(|_| tokens[random.below(tokens.len())]).collect();
        check(&text);
    }
}

#[test]
fn deep_nesting_is_refused() {
    assert!(!check(&format!("a = {}", "[".repeat(100_000))));
    assert!(!check(&"[a.".repeat(1_000)));
}
