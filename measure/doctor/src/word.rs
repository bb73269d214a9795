//! Names in commands: Linux lets an interface be called nearly anything, and commands are copied
//! into a shell.

/// The text as one word of a shell's (bash's, where it has control characters), which means nothing
/// else there.
pub(crate) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    if !text.contains(char::is_control) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let quoted = text.chars().map(|c| match c {
        '\'' | '\\' => format!("\\{c}"),
        // As bytes: bash takes what follows as far as it has two digits.
        c if c.is_control() => c.to_string().bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        c => c.to_string(),
    });
    format!("$'{}'", quoted.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_plain_name_stays_as_it_is() {
        assert_eq!(
            (word("ens1f0np0"), word("eth0.100"), word("br-lan")),
            ("ens1f0np0".into(), "eth0.100".into(), "br-lan".into())
        );
        assert_eq!(
            (word("a$(id)"), word("it's"), word("")),
            ("'a$(id)'".into(), r"'it'\''s'".into(), "''".into())
        );
        assert_eq!(word("a\u{1b}b'"), r"$'a\x1bb\''");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A shell gives back what it was given.
        #[test]
        fn a_shell_reads_it_as_one_word(text in "[^\0]{0,8}") {
            let script = format!("printf %s {}", word(&text));
            let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }
}
