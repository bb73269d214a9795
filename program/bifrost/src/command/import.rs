//! `bifrost import`: what is there, as a `router.toml`.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use config::source::read_text;
use config::{PrivateKey, PublicKey, WireGuard, WireGuardPeer};
use import::{Draft, Imported, Texts, hidden};
use mirror::netlink::socket;

use super::Failure;
use super::args::{Import, Origin};
use super::table::print;
use crate::daemon::{ip, routing};

/// A kernel that has no IPv6 has no such folder.
const IPV6: &str = "/proc/sys/net/ipv6";

pub fn import(asked: &Import) -> Result<(), Failure> {
    let base = asked.add_to.as_deref().map(read).transpose()?;
    let found = gather(asked.origin, &asked.files, &asked.sockets, base.as_deref())?;
    let text = found.annotated();
    match &asked.output {
        None => print(&hidden(&text))?,
        Some(path) => {
            let replaces = asked.add_to.as_ref() == Some(path);
            write(path, &text, replaces)
                .map_err(|error| Failure::Io { what: format!("cannot write {}", path.display()), error })?;
        }
    }
    found.left.iter().for_each(|left| eprintln!("not in the file: {left}"));
    if asked.output.is_none() && hidden(&text) != text {
        eprintln!("secrets are covered: --output FILE writes them, for you alone to read");
    }
    Ok(())
}

/// What is there, as sections behind those of `base`.
///
/// # Errors
/// What cannot be read.
pub(crate) fn gather(
    origin: Option<Origin>,
    files: &[PathBuf],
    sockets: &Path,
    base: Option<&str>,
) -> Result<Imported, Failure> {
    let takes = !matches!(origin, None | Some(Origin::Linux | Origin::Frr));
    if !files.is_empty() && !takes {
        return Err(Failure::Said("Linux and FRR are asked themselves, and not by a file".to_owned()));
    }
    let mut draft = Draft::default();
    let said = Failure::Said;
    match origin {
        None => {
            draft.linux(&linux()?).map_err(said)?;
            // Where none runs, there is nothing of it.
            if let Some(text) = routing::configuration(sockets).map_err(said)? {
                draft.frr(&text, sockets);
            }
        }
        Some(Origin::Linux) => draft.linux(&linux()?).map_err(said)?,
        Some(Origin::Frr) => match routing::configuration(sockets).map_err(said)? {
            Some(text) => draft.frr(&text, sockets),
            None => return Err(Failure::Said(format!("FRR does not run: nobody at {}", sockets.display()))),
        },
        Some(Origin::Interfaces) => {
            for (file, text) in texts(files, "/etc/network/interfaces")? {
                draft.interfaces(&file, &text, &mut sourced);
            }
        }
        Some(Origin::Netplan) => {
            for (file, text) in texts(files, "/etc/netplan/*.yaml")? {
                draft.netplan(&file, &text);
            }
        }
        Some(Origin::Vyos) => {
            for (file, text) in texts(files, "/config/config.boot")? {
                draft.vyos(&file, &text);
            }
        }
    }
    Ok(draft.finish(base))
}

/// Files with their texts, or those that usually are there.
fn texts(files: &[PathBuf], usual: &str) -> Result<Vec<(String, String)>, Failure> {
    if files.is_empty() {
        return match sourced(usual, false).map_err(Failure::Said)? {
            found if found.is_empty() => Err(Failure::Said(format!("there is no {usual}"))),
            found => Ok(found),
        };
    }
    files.iter().map(|file| Ok((file.display().to_string(), read(file)?))).collect()
}

fn read(path: &Path) -> Result<String, Failure> {
    read_text(path).map_err(|error| Failure::Io { what: format!("cannot read {}", path.display()), error })
}

/// Files that another one names, by a pattern or a folder.
fn sourced(pattern: &str, is_folder: bool) -> Result<Vec<(String, String)>, String> {
    let (folder, name) = match is_folder {
        true => (pattern, None),
        false => match pattern.rsplit_once('/') {
            Some((folder, name)) => (folder, Some(name)),
            None => return Err(format!("{pattern} is no absolute path")),
        },
    };
    let pattern = name.map(str::parse::<config::Pattern>).transpose().map_err(|error| error.to_string())?;
    // As run-parts has it: what an editor or a package left beside is not read.
    let plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| pattern.as_ref().map_or_else(|| plain(name), |pattern| pattern.matches(name)))
        .collect();
    names.sort();
    let mut files = Vec::new();
    for name in names {
        let path = Path::new(folder).join(name);
        if path.is_file() {
            let text = read_text(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            files.push((path.display().to_string(), text));
        }
    }
    Ok(files)
}

/// What Linux says of itself.
fn linux() -> Result<Texts, Failure> {
    let ask = |words: &[&str]| {
        let said = ip::ask(words).map_err(Failure::Said)?;
        Ok::<_, Failure>(String::from_utf8_lossy(&said).into_owned())
    };
    let ask_of = |family: &str, words: &[&str]| match family == "-6" && !Path::new(IPV6).exists() {
        true => Ok(String::new()),
        false => ask(&[&[family, "-json"], words].concat()),
    };
    let routes = |family| ask_of(family, &["-Numeric", "-details", "route", "show", "table", "all"]);
    let rules = |family| ask_of(family, &["-Numeric", "-details", "rule", "show"]);
    let set = |name: &String| {
        let path = Path::new("/sys/class/net").join(name).join("addr_assign_type");
        fs::read_to_string(path).is_ok_and(|kind| kind.trim() == "3")
    };
    let secret: Vec<import::ip::Link> =
        import::ip::read(ask(&["-json", "address", "show", "type", "wireguard"])?.as_bytes())
            .unwrap_or_default();
    Ok(Texts {
        wireguard: secret
            .into_iter()
            .filter_map(|link| Some((link.ifname.clone(), wireguard(&link.ifname)?)))
            .collect(),
        links: ask(&["-json", "-details", "address", "show"])?,
        routes: [routes("-4")?, routes("-6")?],
        rules: [rules("-4")?, rules("-6")?],
        set: super::interfaces().into_iter().filter(set).collect::<BTreeSet<_>>(),
    })
}

/// What an interface of WireGuard's has, for whoever may ask.
fn wireguard(name: &str) -> Option<WireGuard> {
    let device = socket::WireGuard::open().and_then(|mut linux| linux.device(name)).ok()?;
    let peers = device.peers.into_iter().enumerate().map(|(number, (key, peer))| WireGuardPeer {
        name: format!("peer{}", number + 1),
        public_key: PublicKey(key),
        preshared_key: peer.preshared_key.map(PrivateKey::new),
        endpoint: peer.endpoint,
        allowed_ips: peer.allowed,
        keepalive: peer.keepalive,
    });
    Some(WireGuard {
        private_key: PrivateKey::new(device.private_key?),
        listen_port: Some(device.port).filter(|port| *port > 0),
        peers: peers.collect(),
    })
}

/// For its owner alone, as it may have secrets; whole or not at all.
fn write(path: &Path, text: &str, replaces: bool) -> std::io::Result<()> {
    let new = |path: &Path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    if !replaces {
        return new(path)?.write_all(text.as_bytes());
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".import");
    let beside = PathBuf::from(beside);
    let mut file = new(&beside)?;
    let done = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    done.and_then(|()| fs::rename(&beside, path)).inspect_err(|_| drop(fs::remove_file(&beside)))
}
