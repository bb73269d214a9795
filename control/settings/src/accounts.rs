//! Accounts that Bifrost makes, by the tools of Debian's package `passwd`.
//!
//! An account is Bifrost's when it is in the group [`OURS`]. Others are never touched. Of other
//! groups it is in one that is for nothing but Bifrost ([`of_bifrost`]): who may commit could else
//! put an account of his into `sudo`, and become root. One that the file no longer has is removed,
//! and whoever works with it is logged out; its home stays.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::SettingsError;

/// The group of all accounts that Bifrost made.
const OURS: &str = "bifrost-users";
/// The first number of people's accounts.
const FIRST: u32 = 1000;
/// What stands in the place of a password that nobody has.
const NONE: &str = "!";
/// Where the tools are.
const TOOLS: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// An account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// As somebody logs in.
    pub name: String,
    /// The group of its role.
    pub group: String,
    /// The hash of its password; `None`: it has none.
    pub password: Option<String>,
    /// Its shell.
    pub shell: PathBuf,
}

/// What the machine's files say of accounts.
struct Files {
    passwd: String,
    group: String,
    shadow: String,
}

/// What they say of one.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    uid: u32,
    shell: PathBuf,
    /// The groups that it is in besides its own.
    groups: Vec<String>,
    password: String,
}

impl Files {
    fn read() -> Result<Files, SettingsError> {
        let read = |path: &str| {
            fs::read_to_string(path).map_err(|error| SettingsError::File { path: path.into(), error })
        };
        // Who only checks need not be able to read who has which password.
        let shadow = read("/etc/shadow").unwrap_or_default();
        Ok(Files { passwd: read("/etc/passwd")?, group: read("/etc/group")?, shadow })
    }

    fn known(&self, name: &str) -> Option<Known> {
        let fields = self.passwd.lines().find_map(|line| fields_of(line, name))?;
        let password = self.shadow.lines().find_map(|line| fields_of(line, name));
        let groups = self.group.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            fields.get(3)?.split(',').any(|member| member == name).then(|| fields[0].to_owned())
        });
        Some(Known {
            uid: fields.get(2)?.parse().ok()?,
            shell: fields.get(6)?.into(),
            groups: groups.collect(),
            password: password
                .and_then(|fields| fields.get(1).map(|hash| (*hash).to_owned()))
                .unwrap_or_default(),
        })
    }

    /// The accounts that Bifrost made.
    fn ours(&self) -> Vec<&str> {
        let fields = self.group.lines().find_map(|line| fields_of(line, OURS));
        let members = fields.and_then(|fields| fields.get(3).copied()).unwrap_or_default();
        members.split(',').filter(|name| !name.is_empty()).collect()
    }
}

/// The fields of a line, when its first one is this name.
fn fields_of<'l>(line: &'l str, name: &str) -> Option<Vec<&'l str>> {
    let fields: Vec<&str> = line.split(':').collect();
    (fields.first() == Some(&name)).then_some(fields)
}

/// Whether a group is for nothing but Bifrost, which its name says.
fn of_bifrost(group: &str) -> bool {
    group != OURS && (group == "bifrost" || group.starts_with("bifrost-"))
}

/// That none of them is somebody else's, or gets rights that are not Bifrost's.
pub(crate) fn check(accounts: &[Account]) -> Result<(), SettingsError> {
    if let Some(Account { name, group, .. }) = accounts.iter().find(|account| !of_bifrost(&account.group)) {
        return Err(SettingsError::Group { name: name.clone(), group: group.clone() });
    }
    let files = Files::read()?;
    let ours = files.ours();
    match accounts
        .iter()
        .find(|account| files.known(&account.name).is_some() && !ours.contains(&account.name.as_str()))
    {
        Some(account) => Err(SettingsError::Others(account.name.clone())),
        None => Ok(()),
    }
}

/// Makes them, changes those that are otherwise, and removes those that Bifrost made and that are
/// not among them. Says what it did.
pub(crate) fn make(accounts: &[Account]) -> Result<Vec<String>, SettingsError> {
    check(accounts)?;
    let files = Files::read()?;
    let mut said = Vec::new();
    for name in files.ours().into_iter().filter(|name| accounts.iter().all(|account| account.name != **name))
    {
        // One below is the system's own, whoever put it into the group.
        if let Some(known) = files.known(name).filter(|known| known.uid >= FIRST) {
            log_out(known.uid);
        }
        run("userdel", name, &["--force"], None)?;
        said.push(format!("user {name} is removed; /home/{name} stays"));
    }
    for account in accounts {
        let Account { name, group, password, shell } = account;
        let known = files.known(name);
        let mut groups = [group.clone(), OURS.to_owned()];
        groups.sort();
        if known.is_none() {
            groups
                .iter()
                .try_for_each(|group| tool("groupadd", name, &["--system", "--force", group], None))?;
        }
        let (list, shell_is) = (groups.join(","), shell.to_string_lossy().into_owned());
        let facts = ["--shell", &shell_is, "--groups", &list];
        match &known {
            None => {
                run("useradd", name, &[&["--create-home", "--user-group"], &facts[..]].concat(), None)?;
                said.push(format!("user {name} is made"));
            }
            Some(Known { shell: has, groups: in_groups, .. })
                if has != shell || !groups.iter().eq(sorted(in_groups).iter().copied()) =>
            {
                tool("groupadd", name, &["--system", "--force", group], None)?;
                run("usermod", name, &facts, None)?;
                said.push(format!("user {name} is changed"));
            }
            Some(_) => {}
        }
        let has = known.map_or_else(|| NONE.to_owned(), |known| known.password);
        match password {
            // By its input: what stands on a command line is everybody's to read.
            Some(hash) if *hash != has => {
                tool("chpasswd", name, &["--encrypted"], Some(&format!("{name}:{hash}\n")))?;
                said.push(format!("user {name} has another password"));
            }
            None if has != NONE => {
                run("usermod", name, &["--password", NONE], None)?;
                said.push(format!("user {name} has no password"));
            }
            _ => {}
        }
    }
    Ok(said)
}

fn sorted(groups: &[String]) -> Vec<&String> {
    let mut groups: Vec<&String> = groups.iter().collect();
    groups.sort();
    groups
}

/// A tool for an account, whose name is its last word.
fn run(tool_: &'static str, name: &str, words: &[&str], input: Option<&str>) -> Result<(), SettingsError> {
    tool(tool_, name, &[words, &["--", name]].concat(), input)
}

fn tool(tool: &'static str, name: &str, words: &[&str], input: Option<&str>) -> Result<(), SettingsError> {
    let failed = |said: String| SettingsError::Tool { tool, name: name.to_owned(), said };
    let mut command = Command::new(tool);
    command.env_clear().env("PATH", TOOLS).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let started = command.spawn().and_then(|mut child| {
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.unwrap_or_default().as_bytes())?;
        }
        child.wait_with_output()
    });
    let output = started.map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Ends all processes of a user.
fn log_out(uid: u32) {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let status = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"));
        let of_user = |line: &str| {
            let uids = line.strip_prefix("Uid:")?;
            Some(uids.split_whitespace().any(|word| word.parse() == Ok(uid)))
        };
        if status.is_ok_and(|status| status.lines().find_map(of_user) == Some(true)) {
            // One that is gone is as good.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_known_by_the_machines_files() {
        let files = Files {
            passwd: "root:x:0:0:root:/root:/bin/bash\nann:x:1001:1001::/home/ann:/usr/sbin/bifrost\n".into(),
            group: "root:x:0:\nbifrost-admin:x:990:bob,ann\nbifrost-users:x:991:ann\n".into(),
            shadow: "ann:$y$hash:19000:0:99999:7:::\n".into(),
        };
        assert_eq!(files.ours(), ["ann"]);
        let known = Known {
            uid: 1001,
            shell: "/usr/sbin/bifrost".into(),
            groups: vec!["bifrost-admin".into(), "bifrost-users".into()],
            password: "$y$hash".into(),
        };
        assert_eq!(files.known("ann"), Some(known));
        assert_eq!(files.known("an"), None);
        let root = |group: &str| Account {
            name: "root".into(),
            group: group.into(),
            password: None,
            shell: "/bin/sh".into(),
        };
        let refused = check(&[root("bifrost-admin")]);
        assert!(matches!(refused, Err(SettingsError::Others(name)) if name == "root"));
        for group in ["sudo", "bifrosts", OURS, ""] {
            assert!(matches!(check(&[root(group)]), Err(SettingsError::Group { .. })), "{group}");
        }
    }
}
