//! The interfaces that Linux has in this network namespace.

use clap_complete::CompletionCandidate;

/// Their names, in order.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = nix::net::if_::if_nameindex()
        .map(|list| list.iter().map(|one| one.name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    names.sort();
    names
}

/// What a shell offers where a port is to be named.
pub fn candidates() -> Vec<CompletionCandidate> {
    names().into_iter().map(CompletionCandidate::new).collect()
}
