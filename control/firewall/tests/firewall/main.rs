//! What Linux's nftables says of its rules, read back as a filter.

mod agree;
mod problems;
mod rulesets;
mod translation;
mod written_out;

use std::io::Write as _;
use std::process::{Command, Stdio};

/// Loads a ruleset into a network namespace of its own, and reads it as the daemon does.
fn adopted(ruleset: &str) -> firewall::Adopted {
    adopted_beside(ruleset, false)
}

/// The same, where the router `translates` addresses by rules of its own.
fn adopted_beside(ruleset: &str, translates: bool) -> firewall::Adopted {
    let mut command = Command::new("unshare");
    command.args(["-n", "sh", "-c", "ip link set lo up; nft -f - && nft -j -n list ruleset"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("unshare");
    child.stdin.take().expect("a pipe").write_all(ruleset.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("nft ran");
    assert!(output.status.success(), "nft refuses, or this is not root:\n{ruleset}");
    firewall::adopt(&String::from_utf8(output.stdout).expect("text"), translates).expect("a ruleset")
}
