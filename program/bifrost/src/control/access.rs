//! Who may use the control socket, and for what.
//!
//! Without groups of operators and viewers, the permissions of the socket's file say all: who may
//! connect may do everything. A file has one group, though. So with such a group anybody may
//! connect, and each client is judged by what the kernel says of it (user and groups): by the same
//! permissions, as if they still stood at the file, and then by the other groups.

use std::path::PathBuf;

use config::Role;
use nix::unistd::{Group, getegid, geteuid};
use port::Peer;

use super::protocol::{LONGEST_REQUEST, MAX_REQUEST};
use super::server::ServerError;

/// Where the socket is and who may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Path of the socket.
    pub socket: PathBuf,
    /// Permissions, such as `0o660`.
    pub mode: u32,
    /// Group that owns it; absent: the daemon's.
    pub group: Option<String>,
    /// Group whose members may do what leaves the configuration as it is; absent: there is none.
    pub operate_group: Option<String>,
    /// Group whose members may ask and change nothing; absent: there is none.
    pub read_group: Option<String>,
}

/// The longest request of a client, bytes. Whoever may change the configuration may send one.
pub(super) fn longest(role: Role) -> usize {
    match role {
        Role::Admin => LONGEST_REQUEST,
        Role::Operator | Role::Viewer => MAX_REQUEST,
    }
}

/// The judge at the door.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    mode: u32,
    owner: u32,
    group: u32,
    /// What members of other groups may do, the most first.
    others: Vec<(u32, Role)>,
}

impl Judge {
    pub fn new(access: &Access) -> Result<Judge, ServerError> {
        let of = |name: &Option<String>, key| name.as_deref().map(|name| number(name, key)).transpose();
        let operators = of(&access.operate_group, "operate_group")?.map(|group| (group, Role::Operator));
        let viewers = of(&access.read_group, "read_group")?.map(|group| (group, Role::Viewer));
        let (owner, own) = (geteuid().as_raw(), getegid().as_raw());
        Ok(Judge {
            mode: access.mode,
            owner,
            group: of(&access.group, "group")?.unwrap_or(own),
            others: operators.into_iter().chain(viewers).collect(),
        })
    }

    /// The permissions of the socket's file.
    pub fn mode(&self) -> u32 {
        // To connect is to write.
        self.mode | if self.others.is_empty() { 0 } else { 0o666 }
    }

    /// The group of the socket's file.
    pub fn group(&self) -> u32 {
        self.group
    }

    /// What a client may do that could connect, if anything.
    pub fn role(&self, peer: &Peer) -> Option<Role> {
        if self.others.is_empty() {
            return Some(Role::Admin);
        }
        let may = |bit: u32| self.mode & bit != 0;
        let all = peer.uid == 0
            || (peer.uid == self.owner && may(0o200))
            || (peer.groups.contains(&self.group) && may(0o020))
            || may(0o002);
        if all {
            return Some(Role::Admin);
        }
        let other = self.others.iter().find(|(group, _)| peer.groups.contains(group));
        other.map(|(_, role)| *role)
    }
}

fn number(name: &str, key: &'static str) -> Result<u32, ServerError> {
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        _ => Err(ServerError::Group { name: name.to_owned(), key }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(mode: u32, others: &[(u32, Role)], uid: u32, groups: &[u32]) -> Option<Role> {
        let judge = Judge { mode, owner: 7, group: 4, others: others.to_vec() };
        judge.role(&Peer { pid: 1, uid, groups: groups.to_vec() })
    }

    #[test]
    fn groups_decide_who_may_what() {
        use Role::{Admin, Operator, Viewer};
        let others = [(60, Operator), (50, Viewer)];
        for (uid, groups, expected) in [
            (0, &[0][..], Some(Admin)),
            (7, &[9], Some(Admin)),
            (1000, &[1000, 4], Some(Admin)),
            (1000, &[4], Some(Admin)),
            (1000, &[1000, 50, 4], Some(Admin)),
            (1000, &[1000, 50, 60], Some(Operator)),
            (1000, &[1000, 50], Some(Viewer)),
            (1000, &[50], Some(Viewer)),
            (1000, &[1000], None),
            (1000, &[0], None),
        ] {
            assert_eq!(role(0o660, &others, uid, groups), expected, "{uid} {groups:?}");
        }
        assert_eq!(role(0o600, &others, 1000, &[4]), None, "the group may not even connect");
        assert_eq!(role(0o666, &others, 1000, &[1000]), Some(Admin));
        assert_eq!(role(0o660, &[], 1000, &[1000]), Some(Admin), "the file's permissions have decided");
    }
}
