//! What could follow in a line: for Tab, and for `?`.

use candidate::{Offer, split_open};
use clap::CommandFactory;
use config::schema::What;
use serde_json::Value;

use super::commit::COMMIT;
use super::configure::COMMANDS as CONFIGURE;
use super::operate::{COMMANDS as OPERATE, WATCHED};
use super::pipe::PIPES;
use super::session::{Session, meant};
use crate::command::args::Args;
use crate::control::{Client, Request, RouteQuery};

/// The most routes that are offered.
const ROUTES: u64 = 200;

/// A line that is being typed.
pub(super) struct Typed {
    /// Where the word begins that is being typed.
    pub start: usize,
    /// What it could be.
    pub offers: Vec<Offer>,
}

/// What could stand where the cursor is, at the end of `line`.
pub(super) fn typed(session: &Session, line: &str) -> Typed {
    let (words, open) = split_open(line);
    let (start, begun, before) = match words.split_last() {
        Some((last, before)) if open || last.at.end == line.len() => {
            (last.at.start, last.text.clone(), before.to_vec())
        }
        _ => (line.len(), String::new(), words),
    };
    let pipe = before.iter().rposition(|word| word.is("|"));
    let words: Vec<String> = before.into_iter().map(|word| word.text).collect();
    let editing = session.editing.is_some();
    let mut offers = match pipe {
        Some(at) => pipes(&words[at + 1..]),
        None if editing => configure(session, &words, &begun),
        None => operate(session, &words, &begun),
    };
    offers.retain(|offer| offer.place.is_some() || is_place(offer) || offer.word.starts_with(&begun));
    Typed { start, offers }
}

/// Whether it stands for a word that only the operator knows.
pub(super) fn is_place(offer: &Offer) -> bool {
    offer.place.is_some() || offer.word.chars().all(|c| c.is_ascii_uppercase() || "/:#|.[]".contains(c))
}

fn of(known: &[(&str, &str)]) -> Vec<Offer> {
    known.iter().map(|(name, about)| Offer::word(*name, *about)).collect()
}

fn pipes(words: &[String]) -> Vec<Offer> {
    match words {
        [] => of(&PIPES),
        [word] if word == "display" => {
            of(&[("set", "set-lines"), ("json", ""), ("toml", "as it is written")])
        }
        _ => Vec::new(),
    }
}

fn configure(session: &Session, words: &[String], begun: &str) -> Vec<Offer> {
    let Some((first, rest)) = words.split_first() else { return of(&CONFIGURE) };
    let Ok(name) = meant(first, CONFIGURE.iter().map(|(name, _)| *name)) else { return Vec::new() };
    let Some(editing) = &session.editing else { return Vec::new() };
    match name {
        "set" | "delete" | "no" | "show" | "edit" | "insert" | "copy" | "rename" | "annotate" => {
            let found = candidate::offers(&editing.document, &editing.above, rest).unwrap_or_default();
            let mut offers: Vec<Offer> =
                found.iter().flat_map(|offer| filled(session, offer, begun)).collect();
            if name == "show" {
                offers.push(Offer::word("|", "and what is done with it"));
            }
            offers
        }
        "run" | "do" => operate(session, rest, begun),
        "top" if rest.is_empty() => of(&CONFIGURE),
        "top" => configure_at_the_top(session, rest, begun),
        "commit" => of(&COMMIT),
        "lock" => of(&[("take", "even if somebody else has it")]),
        "unlock" => of(&[("force", "another's")]),
        "load" if rest.is_empty() => of(&[
            ("merge", "what a file says comes to it"),
            ("replace", "what a file says takes its place"),
            ("set", "lines of a file are done"),
            ("import", "what Linux and FRR have, and it does not say"),
        ]),
        "compare" => of(&[
            ("toml", "line by line, as it is written"),
            ("json", "as JSON"),
            ("theirs", "what others have put in force meanwhile"),
            ("running", "with what runs"),
            ("disk", "with the daemon's file"),
        ]),
        _ => Vec::new(),
    }
}

fn configure_at_the_top(session: &Session, words: &[String], begun: &str) -> Vec<Offer> {
    let Some(editing) = &session.editing else { return Vec::new() };
    let found = candidate::offers(&editing.document, &[], &words[1..]).unwrap_or_default();
    found.iter().flat_map(|offer| filled(session, offer, begun)).collect()
}

/// A place, and what is known to fit there.
fn filled(session: &Session, offer: &Offer, begun: &str) -> Vec<Offer> {
    let mut all = match offer.place {
        Some(What::Interface | What::Port) => interfaces(),
        Some(What::Prefix) if !begun.is_empty() => routes(session, begun),
        _ => Vec::new(),
    };
    all.insert(0, offer.clone());
    all
}

fn interfaces() -> Vec<Offer> {
    crate::command::interfaces()
        .into_iter()
        .map(|name| Offer::word(name, "an interface of Linux's"))
        .collect()
}

/// Daemons that can start anew, where the file has something to say to them.
fn restartable() -> Vec<Offer> {
    let services = services::services(&config::Router::default());
    let services = services.iter().filter(|service| !service.once);
    let mut all: Vec<_> = services.map(|service| Offer::word(service.name, service.section)).collect();
    all.push(Offer::word("frr", "routing protocols"));
    all
}

/// Addresses of neighbours.
fn neighbours(session: &Session) -> Vec<Offer> {
    let asked = |client: &mut Client| client.subject::<Vec<Value>>("neighbours").ok();
    let found = Client::connect(&session.socket).ok().as_mut().and_then(asked).unwrap_or_default();
    let address = |one: &Value| Some(Offer::word(one["address"].as_str()?, "a neighbour"));
    found.iter().filter_map(address).collect()
}

/// Prefixes of routes that begin so.
fn routes(session: &Session, begun: &str) -> Vec<Offer> {
    let query = RouteQuery { limit: Some(ROUTES), ..RouteQuery::default() };
    let Ok(mut client) = Client::connect(&session.socket) else { return Vec::new() };
    let Ok(routes) = client.stream::<Value>(&Request::Routes(query), Some(crate::command::PATIENCE)) else {
        return Vec::new();
    };
    let prefix = |route: Value| Some(route["prefix"].as_str()?.to_owned());
    let mut found: Vec<String> = routes.filter_map(Result::ok).filter_map(prefix).collect();
    found.retain(|prefix| prefix.starts_with(begun));
    found.dedup();
    found.into_iter().map(|prefix| Offer::word(prefix, "a route")).collect()
}

fn operate(session: &Session, words: &[String], begun: &str) -> Vec<Offer> {
    let Some((first, rest)) = words.split_first() else { return of(&OPERATE) };
    let Ok(name) = meant(first, OPERATE.iter().map(|(name, _)| *name)) else { return Vec::new() };
    match name {
        "ping" | "traceroute" => {
            let mut offers = neighbours(session);
            offers.insert(
                0,
                Offer { word: "ADDRESS".into(), about: "a host".into(), place: Some(What::Address) },
            );
            if name == "ping" && !rest.is_empty() {
                offers.extend(of(&[
                    ("count", "so many packets"),
                    ("source", "from this address"),
                    ("interface", "by this interface"),
                    ("size", "so many bytes"),
                ]));
            }
            offers
        }
        "configure" => of(&[
            ("exclusive", "and nobody else commits meanwhile"),
            ("private", "with a candidate that is not kept"),
        ]),
        "monitor" if rest.is_empty() => of(&WATCHED),
        "restart" if rest.is_empty() => restartable(),
        "unlock" => of(&[("force", "another's")]),
        "help" | "log" | "exit" | "quit" => Vec::new(),
        name => {
            let mut offers = program(name, rest);
            if name == "show" && rest.is_empty() {
                offers.extend(of(&[
                    ("log", "what Bifrost and FRR said"),
                    ("lock", "who has locked the configuration"),
                    ("history", "configurations that were in force"),
                    ("ip", "what FRR knows: `show ip bgp summary`, `show ip ospf neighbor`"),
                    ("bgp", "what FRR knows of BGP"),
                ]));
            }
            if name == "show"
                && rest.first().is_some_and(|word| "routes".starts_with(word.as_str()))
                && !begun.is_empty()
            {
                offers.extend(routes(session, begun));
            }
            if name == "show" && rest.first().is_some_and(|word| "ports".starts_with(word.as_str())) {
                offers.extend(interfaces());
            }
            offers.push(Offer::word("|", "and what is done with it"));
            offers
        }
    }
}

/// What this program's own definitions say.
fn program(name: &str, words: &[String]) -> Vec<Offer> {
    let all = Args::command();
    let Some(mut command) = all.find_subcommand(name) else { return Vec::new() };
    for word in words {
        let names = command.get_subcommands().flat_map(|one| one.get_name_and_visible_aliases());
        let Ok(known) = meant(word, names) else { continue };
        match command.find_subcommand(known) {
            Some(inner) => command = inner,
            None => break,
        }
    }
    let first = |text: Option<String>| text.unwrap_or_default().lines().next().unwrap_or_default().to_owned();
    let subcommands = command
        .get_subcommands()
        .map(|one| Offer::word(one.get_name(), first(one.get_about().map(ToString::to_string))));
    let arguments = command.get_arguments().filter_map(|argument| {
        let about = first(argument.get_help().map(ToString::to_string));
        match argument.get_long() {
            Some(long)
                if long == "json" || words.iter().any(|word| word[..].trim_start_matches("--") == long) =>
            {
                None
            }
            Some(long) => Some(Offer::word(format!("--{long}"), about)),
            None if argument.is_positional() => {
                let name =
                    argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
                Some(Offer { word: name?, about, place: Some(What::Words) })
            }
            None => None,
        }
    });
    subcommands.chain(arguments).collect()
}
