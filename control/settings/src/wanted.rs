//! What `[system]` asks of the machine.

use std::fs;
use std::path::{Path, PathBuf};

use config::{Control, Shell, System};

use crate::accounts::{self, Account};
use crate::{Place, Settings, Value};

/// Where sshd finds the keys of accounts that Bifrost made: not in their homes, where whoever lives
/// there could have links for root to follow.
pub const KEYS: &str = "/etc/ssh/bifrost-keys";
/// What is shown before somebody logs in from elsewhere.
pub const NET_BANNER: &str = "/etc/issue.net";
/// Where this program is, as a rule.
const CLI: &str = "/usr/local/sbin/bifrost";
/// Where time zones are.
const ZONES: &str = "/usr/share/zoneinfo";

/// The places and accounts that it asks for. `root` stands in front of all files.
pub fn wanted(system: &System, control: &Control, root: &Path) -> Settings {
    let at = |path: &str| Place::Path(root.join(path.trim_start_matches('/')));
    let text = |text: String| Value::Text(text);
    let mut places = Vec::new();
    if let Some(name) = &system.hostname {
        let short = name.split('.').next().unwrap_or(name);
        let names = if short == name { name.clone() } else { format!("{name} {short}") };
        places.push((Place::Host(root.join("etc/hosts")), text(names)));
        places.push((at("/etc/hostname"), text(format!("{name}\n"))));
        places.push((Place::Hostname, text(name.clone())));
    }
    if let Some(zone) = &system.time_zone {
        places.push((at("/etc/localtime"), Value::Link(Path::new(ZONES).join(zone))));
        places.push((at("/etc/timezone"), text(format!("{zone}\n"))));
    }
    if !system.name_servers.is_empty() {
        let mut lines = String::from("# Made by Bifrost from router.toml.\n");
        if !system.search.is_empty() {
            lines += &format!("search {}\n", system.search.join(" "));
        }
        system.name_servers.iter().for_each(|server| lines += &format!("nameserver {server}\n"));
        places.push((at("/etc/resolv.conf"), text(lines)));
    }
    if let Some(banner) = &system.banner {
        let banner = format!("{}\n", banner.trim_end());
        // At the console letters behind a backslash mean something.
        places.push((at("/etc/issue"), text(banner.replace('\\', "\\\\"))));
        places.push((at(NET_BANNER), text(banner)));
    }
    let sysctls = system.sysctls.iter();
    places.extend(sysctls.map(|(name, value)| {
        (Place::Sysctl(name.clone()), text(value.split_whitespace().collect::<Vec<_>>().join(" ")))
    }));
    for user in system.users.iter().filter(|user| !user.keys.is_empty()) {
        places.push((at(&format!("{KEYS}/{}", user.name)), text(user.keys.join("\n") + "\n")));
    }
    let accounts = system.users.iter().map(|user| Account {
        name: user.name.clone(),
        group: control.group_of(user.role).1.unwrap_or_default().to_owned(),
        password: user.password.as_ref().map(|password| password.reveal().to_owned()),
        shell: match user.shell {
            Shell::Bash => PathBuf::from("/bin/bash"),
            Shell::Cli => this_program().unwrap_or_else(|_| CLI.into()),
        },
    });
    Settings { accounts: accounts.collect(), places }
}

/// This program, wherever it is installed; also when another one stands there now.
///
/// # Errors
/// The kernel does not tell.
pub fn this_program() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let text = path.to_string_lossy();
    Ok(text.strip_suffix(" (deleted)").map_or_else(|| path.clone(), PathBuf::from))
}

/// What of a text of [`Settings`] this machine cannot have: seen before anything is done.
///
/// # Errors
/// The first, for the operator.
pub fn check(text: &str) -> Result<(), String> {
    let settings = Settings::read(text)?;
    for (place, value) in &settings.places {
        let failed = |error| format!("{place} cannot be set: {error}");
        match (place, value) {
            (Place::Sysctl(_), _) => drop(place.read().map_err(failed)?),
            (_, Value::Link(zone)) if !fs::metadata(zone).is_ok_and(|facts| facts.is_file()) => {
                let name = zone.strip_prefix(ZONES).unwrap_or(zone).display();
                return Err(format!(
                    "there is no time zone {name} here (tzdata has them; `timedatectl list-timezones`)"
                ));
            }
            _ => {}
        }
    }
    accounts::check(&settings.accounts).map_err(|wrong| wrong.to_string())
}
