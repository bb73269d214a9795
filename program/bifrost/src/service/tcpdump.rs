//! The program `tcpdump`: whose language filters are in, and who shows packets.
//!
//! As `nft`, it is looked for where systems keep it and not by `PATH`, since the daemon runs it
//! too.

use std::path::Path;
use std::process::{Command, Stdio};

use wire::capture::PacketFilter;

const PLACES: [&str; 6] = [
    "/usr/bin/tcpdump",
    "/usr/sbin/tcpdump",
    "/sbin/tcpdump",
    "/usr/local/bin/tcpdump",
    "/usr/local/sbin/tcpdump",
    "/run/current-system/sw/bin/tcpdump",
];

/// The program; an error is a sentence for the operator.
pub fn command() -> Result<Command, String> {
    let place = PLACES.iter().find(|place| Path::new(place).is_file());
    place.map(Command::new).ok_or_else(|| "tcpdump is in no folder of programs; install tcpdump".to_owned())
}

/// Compiles an expression of tcpdump's for Ethernet. An error is what tcpdump says of it.
pub fn compile(expression: &str) -> Result<PacketFilter, String> {
    if expression.trim().is_empty() {
        return Ok(PacketFilter::everything());
    }
    let mut tcpdump = command()?;
    tcpdump.env_clear().stdin(Stdio::null());
    // Behind `--`, for an expression may begin with a minus.
    let output = tcpdump.args(["-y", "EN10MB", "-ddd", "--", expression]).output();
    let output = output.map_err(|error| format!("cannot run tcpdump: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let said = said.lines().filter_map(|line| line.strip_prefix("tcpdump: "));
        let said: Vec<&str> = said.filter(|line| !line.starts_with("WARNING")).collect();
        return Err(format!("{expression:?} is no filter of tcpdump's: {}", said.join("; ")));
    }
    PacketFilter::parse(&String::from_utf8_lossy(&output.stdout)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_compiled_or_refused_with_tcpdumps_words() {
        if command().is_err() {
            return;
        }
        assert_eq!(compile(" "), Ok(PacketFilter::everything()));
        let mut frame = vec![0; 60];
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[23] = 17;
        let udp = compile("udp").unwrap();
        assert!(udp.matches(&frame, 60));
        frame[23] = 6;
        assert!(!udp.matches(&frame, 60));
        let refused = compile("udp porty 5").unwrap_err();
        assert!(refused.contains("is no filter of tcpdump's") && refused.contains("syntax"), "{refused}");
    }
}
