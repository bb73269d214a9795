//! `bifrost support`: all that whoever helps would ask for, in one archive.
//!
//! What is in it is what an operator could have printed himself, each by the command that its name
//! says. Secrets of the configuration are covered, and what packets carry is not in it. Addresses
//! are. What cannot be asked is told in its place: of a router that does not run the machine is all
//! there is.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use chrono::Utc;
use clap::Args as Arguments;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::Failure;
use super::table::print;
use crate::control::{Client, Request};
use crate::subject;

/// Seconds that a command may take.
const LIMIT: &str = "20";
/// The most that is kept of what one says, bytes: its beginning, and of a log its end.
const MOST: usize = 16 << 20;
/// Where programs are.
const PROGRAMS: &str = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin";

/// What is asked of the machine: the file's name, and the command.
const COMMANDS: [(&str, &str); 27] = [
    ("kernel", "uname -a"),
    ("release", "cat /etc/os-release"),
    ("uptime", "uptime"),
    ("processors", "lscpu"),
    ("memory", "cat /proc/meminfo"),
    ("disks", "df -h"),
    ("interrupts", "cat /proc/interrupts"),
    ("softnet", "cat /proc/net/softnet_stat"),
    ("processes", "ps axo pid,ppid,user,rss,pcpu,stat,comm"),
    ("kernel-log", "dmesg --ctime"),
    ("log", "journalctl --no-pager --lines 5000 --unit bifrost --unit bifrost-bfd --unit bifrost-system"),
    ("frr-log", "journalctl --no-pager --lines 2000 --unit frr"),
    ("links", "ip -details -statistics link"),
    ("addresses", "ip address"),
    ("routing-rules", "ip rule"),
    ("routing-rules-ipv6", "ip -6 rule"),
    ("routes", "ip route show table all"),
    ("routes-ipv6", "ip -6 route show table all"),
    ("next-hops", "ip nexthop"),
    ("neighbours", "ip neighbour"),
    ("bridges", "bridge -details fdb"),
    ("vlans", "bridge -details vlan"),
    ("multicast", "ip mroute"),
    ("queueing", "tc -statistics qdisc"),
    ("nftables", "nft list ruleset"),
    ("sockets", "ss --tcp --udp --listening --processes --numeric"),
    ("sysctls", "sysctl net vm"),
];

/// What is asked of FRR; its configuration has passwords, and is in that of the router.
const FRR: [&str; 6] = [
    "show version",
    "show ip route summary",
    "show bgp summary",
    "show ip ospf neighbor",
    "show ipv6 ospf6 neighbor",
    "show bfd peers brief",
];

/// `support`.
#[derive(Debug, Arguments)]
pub struct Support {
    /// The archive [default: bifrost-support-HOST-TIME.tar.gz, here]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Gathers all of it.
pub fn support(args: &Support, socket: &Path) -> Result<(), Failure> {
    let host = nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned();
    let now = Utc::now();
    let name = format!("bifrost-support-{host}-{}", now.format("%Y%m%d-%H%M%S"));
    let path = args.file.clone().unwrap_or_else(|| format!("{name}.tar.gz").into());
    let failed = |error| Failure::Io { what: format!("cannot write {}", path.display()), error };
    // Nobody else's to read, and nobody's file is lost.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    let (mut kept, mut missing) = (0, String::new());
    let mut keep = |inner: &str, said: Result<Vec<u8>, String>| -> std::io::Result<()> {
        let said = match said {
            Ok(said) => said,
            Err(why) => {
                missing += &format!("{inner}: {}\n", why.lines().next().unwrap_or_default());
                return Ok(());
            }
        };
        kept += 1;
        add(&mut archive, &format!("{name}/{inner}"), &said, now.timestamp())
    };
    for (inner, said) in of_router(socket) {
        keep(&inner, said).map_err(failed)?;
    }
    keep("doctor.json", run(&program(), &["doctor", "--json"])).map_err(failed)?;
    for (inner, line) in COMMANDS {
        let mut words = line.split(' ');
        let program = words.next().unwrap_or_default();
        keep(&format!("machine/{inner}"), run(program, &words.collect::<Vec<_>>())).map_err(failed)?;
    }
    for line in FRR {
        let inner = format!("frr/{}", line.replace(' ', "-"));
        keep(&inner, run("vtysh", &["-c", line])).map_err(failed)?;
    }
    add(&mut archive, &format!("{name}/missing"), missing.as_bytes(), now.timestamp()).map_err(failed)?;
    archive.into_inner().and_then(GzEncoder::finish).and_then(|file| file.sync_all()).map_err(failed)?;
    print(&format!(
        "{}: {kept} files; {} could not be had (the file `missing` says why)\n",
        path.display(),
        missing.lines().count()
    ))
}

type Said = (String, Result<Vec<u8>, String>);

/// What the router knows, by subjects, and its history.
fn of_router(socket: &Path) -> Vec<Said> {
    let mut client = match Client::connect(socket) {
        Ok(client) => client,
        Err(error) => return vec![("router".to_owned(), Err(error.to_string()))],
    };
    let mut found = Vec::new();
    for subject in &subject::ALL {
        let answer = client.subject::<Value>(&subject.ask());
        if let ("config", Ok(answer)) = (subject.name, &answer) {
            let text = answer["text"].as_str().unwrap_or_default();
            found.push(("router.toml".to_owned(), Ok(text.as_bytes().to_vec())));
        }
        found.push((format!("show/{}.json", subject.name), json(answer.map_err(|error| error.to_string()))));
    }
    for (name, request) in [("history", Request::History), ("flow-table", Request::FlowTable)] {
        let answer = client.ask::<Value>(&request).map_err(|error| error.to_string());
        found.push((format!("show/{name}.json"), json(answer)));
    }
    found
}

fn json(answer: Result<Value, String>) -> Result<Vec<u8>, String> {
    serde_json::to_vec_pretty(&answer?).map_err(|error| error.to_string())
}

fn program() -> String {
    std::env::current_exe().map_or_else(|_| "bifrost".to_owned(), |path| path.to_string_lossy().into_owned())
}

/// What a program says, also where it fails.
fn run(program: &str, words: &[&str]) -> Result<Vec<u8>, String> {
    let mut command = services::tool::command("timeout", "coreutils")?;
    command.env("PATH", PROGRAMS).arg(LIMIT).arg(program).args(words);
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() && output.stdout.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(said.trim().lines().next().unwrap_or("it takes too long").to_owned());
    }
    let mut said = output.stdout;
    said.truncate(MOST);
    Ok(said)
}

fn add(archive: &mut tar::Builder<impl Write>, name: &str, data: &[u8], time: i64) -> std::io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(data.len() as u64);
    header.set_mode(0o600);
    header.set_mtime(time.unsigned_abs());
    archive.append_data(&mut header, name, data)
}
