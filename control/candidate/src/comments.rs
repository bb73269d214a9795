//! Comments: those that go with what they stand above, those that stay, and new ones.
//!
//! A comment belongs to what follows it without a blank line. What stands apart from it by one
//! belongs to nobody, and stays when what follows is removed; so does the first comment of a file.

use toml_edit::{Decor, DocumentMut, Item, RawString, Table};

/// The text in front of something.
pub(crate) fn before(decor: &Decor) -> String {
    decor.prefix().and_then(RawString::as_str).unwrap_or_default().to_owned()
}

/// What of the text in front stays when the thing is removed; empty where that is no comment.
pub(crate) fn apart(text: &str, at_the_top: bool) -> String {
    let end = match at_the_top {
        true => text.len(),
        false => text
            .split_inclusive('\n')
            .scan(0, |at, line| {
                *at += line.len();
                Some((*at, line.trim().is_empty()))
            })
            .filter(|(_, blank)| *blank)
            .last()
            .map_or(0, |(at, _)| at),
    };
    let stays = &text[..end];
    if stays.contains('#') { stays.to_owned() } else { String::new() }
}

/// The same text with another comment directly above the thing; with none, without.
pub(crate) fn annotated(text: &str, comment: &str) -> String {
    // What stands apart, then the gap, then the comment.
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let own = lines.iter().rposition(|line| !line.trim_start().starts_with('#')).map_or(0, |at| at + 1);
    // An indentation in front of the thing is the last of the lines.
    let (kept, indent) = match lines.last() {
        Some(last) if !last.ends_with('\n') && last.trim().is_empty() => {
            let body = &lines[..lines.len() - 1];
            let own =
                body.iter().rposition(|line| !line.trim_start().starts_with('#')).map_or(0, |at| at + 1);
            (body[..own].concat(), *last)
        }
        _ => (lines[..own].concat(), ""),
    };
    let mut text = kept;
    for line in comment.lines().filter(|_| !comment.is_empty()) {
        // Whatever ends a line elsewhere, or is no letter, cannot stand in a comment.
        let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        text += &format!("{indent}# {line}\n").replace("# \n", "#\n");
    }
    text + indent
}

/// Gives comments to the table that follows position `after`, or to the end of the document.
pub(crate) fn leave(document: &mut DocumentMut, after: isize, comments: &str) {
    if comments.is_empty() {
        return;
    }
    let mut next: Option<isize> = None;
    each_table(document.as_table(), &mut |table| {
        if let Some(at) = table.position().filter(|at| *at > after) {
            next = Some(next.map_or(at, |next| next.min(at)));
        }
    });
    match next {
        Some(next) => each_table_mut(document.as_table_mut(), &mut |table| {
            if table.position() == Some(next) {
                let own = table.decor().prefix().and_then(RawString::as_str).unwrap_or("\n").to_owned();
                table.decor_mut().set_prefix(format!("{comments}{own}"));
            }
        }),
        None => {
            let own = document.trailing().as_str().unwrap_or_default().to_owned();
            document.set_trailing(format!("{comments}{own}"));
        }
    }
}

/// Visits the tables that have headers, or lead to some.
pub(crate) fn each_table(table: &Table, visit: &mut impl FnMut(&Table)) {
    for (_, item) in table.iter() {
        match item {
            Item::Table(inner) => {
                visit(inner);
                each_table(inner, visit);
            }
            Item::ArrayOfTables(list) => list.iter().for_each(|inner| {
                visit(inner);
                each_table(inner, visit);
            }),
            _ => {}
        }
    }
}

/// The same, to change them.
pub(crate) fn each_table_mut(table: &mut Table, visit: &mut impl FnMut(&mut Table)) {
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(inner) => {
                visit(inner);
                each_table_mut(inner, visit);
            }
            Item::ArrayOfTables(list) => list.iter_mut().for_each(|inner| {
                visit(inner);
                each_table_mut(inner, visit);
            }),
            _ => {}
        }
    }
}

/// The positions and the text in front of a table and all below it, in the order of the file.
pub(crate) fn heads(table: &Table) -> Vec<(isize, String)> {
    let mut heads = Vec::new();
    let mut note = |table: &Table| {
        if let Some(at) = table.position() {
            heads.push((at, before(table.decor())));
        }
    };
    note(table);
    each_table(table, &mut note);
    heads.sort();
    heads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_apart_stays() {
        assert_eq!(apart("\n# far\n\n# near\n", false), "\n# far\n\n");
        assert_eq!(apart("\n# near\n", false), "");
        assert_eq!(apart("# head\n", true), "# head\n");
        assert_eq!(apart("\n\n", true), "");
    }

    #[test]
    fn a_comment_is_put_above() {
        assert_eq!(annotated("\n# far\n\n# near\n", "new"), "\n# far\n\n# new\n");
        assert_eq!(annotated("", "two\nlines"), "# two\n# lines\n");
        assert_eq!(annotated("\n# near\n", ""), "\n");
        assert_eq!(annotated("  ", "x\u{1b}[2J"), "  # x [2J\n  ");
    }
}
