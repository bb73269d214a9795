//! Text inside of XML, and text that is too long.

/// `text` for use in XML and in Graphviz's HTML-like labels, in content and in attributes.
/// Characters that XML cannot carry become U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\t' | '\n' | '\r' => escaped.push(c),
            '\0'..'\u{20}' | '\u{7f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// `text` on one line of at most `most` characters, the last of them an ellipsis where something
/// was left out.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let kept: String = line.chars().take(most.saturating_sub(1)).collect();
    kept.trim_end().to_owned() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_text_stays_text() {
        assert_eq!(escape("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
        assert_eq!(escape("bell\u{7}, null\0"), "bell\u{fffd}, null\u{fffd}");
    }

    #[test]
    fn long_texts_end_in_an_ellipsis() {
        assert_eq!(shorten("12/0806 20/0001,\n   -", 30), "12/0806 20/0001, -");
        assert_eq!(shorten("abcdefgh", 8), "abcdefgh");
        assert_eq!(shorten("abcdefghi", 8), "abcdefg…");
        assert_eq!(shorten("äöüäöüäöü", 4), "äöü…");
    }
}
