//! `bifrost set`: members of an address set come and go while the router runs.
//!
//! A long list goes in pieces, each small enough for one request; each is in force at once.

use std::io::Read;
use std::path::Path;

use ipnet::IpNet;

use crate::control::{Client, Request};

use super::Failure;
use super::args::{Set, member};
use super::table::{print, print_value};

/// Prefixes in one request: of the longest ones as many as fit.
const PIECE: usize = 1000;

pub fn set(args: &Set, mut client: Client) -> Result<(), Failure> {
    let (mut add, mut remove) = (args.add.clone(), args.remove.clone());
    for (from, into) in [(&args.add_from, &mut add), (&args.remove_from, &mut remove)] {
        if let Some(path) = from {
            into.extend(listed(path)?);
        }
    }
    let mut members = 0;
    // What goes goes first, so that what is in both lists is there in the end.
    let pieces = remove
        .chunks(PIECE)
        .map(|piece| (&[][..], piece))
        .chain(add.chunks(PIECE).map(|piece| (piece, &[][..])));
    let none: (&[IpNet], &[IpNet]) = (&[], &[]);
    let asked = (add.is_empty() && remove.is_empty()).then_some(none);
    for (add, remove) in asked.into_iter().chain(pieces) {
        let (add, remove) = (add.to_vec(), remove.to_vec());
        members = client.ask(&Request::Set { name: args.name.clone(), add, remove })?;
    }
    if args.output.json {
        return print_value(&serde_json::json!({ "set": args.name, "members": members }));
    }
    print(&format!("{}: {members} members\n", args.name))
}

/// The prefixes of a file, a line each; what is behind `#` is a comment.
fn listed(path: &Path) -> Result<Vec<IpNet>, Failure> {
    let mut text = String::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().read_to_string(&mut text).map(drop),
        _ => std::fs::read_to_string(path).map(|read| text = read),
    };
    read.map_err(|error| Failure::Io { what: format!("cannot read {}", path.display()), error })?;
    // Some editors begin every text in UTF-8 with a mark.
    let words = text
        .trim_start_matches('\u{feff}')
        .lines()
        .enumerate()
        .map(|(line, text)| (line, text.split('#').next().unwrap_or_default().trim()));
    words
        .filter(|(_, word)| !word.is_empty())
        .map(|(line, word)| {
            member(word).map_err(|error| Failure::Said(format!("{}:{}: {error}", path.display(), line + 1)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_may_have_comments_a_mark_at_its_beginning_and_lines_that_end_in_two_ways() {
        let list = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str| std::fs::write(list.path(), text).unwrap();
        write("\u{feff}192.0.2.1\r\n\r\n10.0.0.0/8 # ours\r\n");
        let found = listed(list.path()).unwrap().iter().map(IpNet::to_string).collect::<Vec<_>>();
        assert_eq!(found, ["192.0.2.1/32", "10.0.0.0/8"]);
        write("192.0.2.1\n192.0.2.256\n");
        let error = listed(list.path()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}:2: ", list.path().display())), "{error}");
        write("192.0.2.1/24\n");
        let error = listed(list.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("192.0.2.1/24 has bits behind its length; the prefix is 192.0.2.0/24"),
            "{error}"
        );
    }
}
