//! The words and signs of a pattern.

/// Signs of two characters.
const LONG_SIGNS: [&str; 6] = ["&&", "||", "<=", ">=", "!=", "=="];
/// Signs of one character.
const SIGNS: &str = "&|<>!=()[],;?";

/// Separates a pattern into words and signs. Names, numbers and addresses are words; a colon is
/// part of a word, or one by itself. What is nothing of the kind is a sign.
pub fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let long = LONG_SIGNS.iter().any(|sign| rest.starts_with(sign));
        let in_word = |c: char| c.is_ascii_alphanumeric() || "-./@_:".contains(c);
        let length = if long {
            2
        } else if SIGNS.contains(first) {
            1
        } else {
            rest.find(|c| !in_word(c)).unwrap_or(rest.len()).max(first.len_utf8())
        };
        let (word, behind) = rest.split_at(length);
        words.push(word);
        rest = behind.trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn signs_need_no_space_around_them() {
        assert_eq!(
            words(" src port>=1024&&!(syn or ack) "),
            ["src", "port", ">=", "1024", "&&", "!", "(", "syn", "or", "ack", ")"]
        );
        assert_eq!(
            words("ip[9:1]&0xf!=3 ? 10.0.0.0/8 : 1:2:3:4:5:6"),
            ["ip", "[", "9:1", "]", "&", "0xf", "!=", "3", "?", "10.0.0.0/8", ":", "1:2:3:4:5:6"]
        );
        assert_eq!(words("netbios-ns ä&|<"), ["netbios-ns", "ä", "&", "|", "<"]);
        assert!(words("  ").is_empty());
    }
}
