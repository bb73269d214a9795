//! The router's filter and address translation in Linux's own words, for what Linux forwards: packets that workers hand to it, and
//! all of them when there is no plane.
//!
//! One table of nftables, `inet bifrost`, replaced whole. It stays when the daemon ends, however it ends: what was
//! blocked goes on being blocked. A router without rules has none; starting one removes it.
//!
//! What a worker has judged carries a mark and passes as it is, as Linux's connection tracking has not seen the packets before it; what is
//! to be translated the worker has translated.

use std::io::Write;
use std::process::{Command, Stdio};

use tracing::warn;

use super::control::Control;

impl Control {
    /// Brings Linux's table up to date.
    pub(super) fn tell_nftables(&mut self) {
        let text = self.nftables();
        if self.nftables.as_ref() == Some(&text)
            || (self.nftables.is_none() && !self.has_policy() && !has_table())
        {
            return;
        }
        if let Err(why) = load(&text) {
            warn!(
                "Linux's own filter stays as it was, so it filters otherwise when the plane is gone: {why}"
            );
        }
        self.nftables = Some(text);
    }

    fn has_policy(&self) -> bool {
        let filter = &self.router.filter;
        let drops = filter.chains.iter().any(|chain| chain.policy == rules::Policy::Drop);
        drops || filter.rules().next().is_some() || self.router.nat.is_some()
    }

    /// The table that the configuration comes to.
    fn nftables(&self) -> String {
        const EMPTY: &str = "add table inet bifrost\ndelete table inet bifrost\n";
        if !self.has_policy() {
            return EMPTY.to_owned();
        }
        let names: Vec<String> = self.router.ports.iter().map(|rule| rule.name.as_str().to_owned()).collect();
        // What cannot be expressed was refused when the file was read.
        let filter = self
            .router
            .filter
            .nftables(&names, None)
            .unwrap_or_else(|_| EMPTY.to_owned() + "table inet bifrost {\n}\n");
        let translation =
            self.router.nat.as_ref().map(|rules| self.plane.nat_in_nftables(rules)).unwrap_or_default();
        let end = filter.rfind('}').unwrap_or(filter.len());
        let text = format!("{}{translation}{}", &filter[..end], &filter[end..]);
        let judged = format!("\t\tmeta mark {:#x} accept\n", port::JUDGED_MARK);
        let lines = text.split_inclusive('\n');
        lines
            .flat_map(|line| {
                let hook =
                    ["type filter hook", "type nat hook"].iter().any(|kind| line.trim().starts_with(kind));
                [line, if hook { &judged } else { "" }]
            })
            .collect()
    }
}

/// Whether a daemon before this one left a table.
fn has_table() -> bool {
    let listed = Command::new("nft").args(["list", "table", "inet", "bifrost"]).stdin(Stdio::null()).output();
    listed.is_ok_and(|output| output.status.success())
}

fn load(text: &str) -> Result<(), String> {
    let spawned = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut nft = spawned.map_err(|error| format!("cannot run nft: {error}; install nftables"))?;
    let written = nft.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(text.as_bytes()));
    let output = nft.wait_with_output().map_err(|error| error.to_string())?;
    match written {
        Ok(()) if output.status.success() => Ok(()),
        _ => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
