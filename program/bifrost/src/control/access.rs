//! Who may use the control socket, and for what.
//!
//! Without a group that only reads, the permissions of the socket's file say all: who may connect
//! may do everything. A file has one group, though. So with such a group anybody may connect, and
//! each client is judged by what the kernel says of it (user and groups): by the same permissions,
//! as if they still stood at the file, and then by the group that reads.

use std::path::PathBuf;

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
    /// Group whose members may ask and change nothing; absent: there is none.
    pub read_group: Option<String>,
}

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// Everything.
    All,
    /// What changes nothing ([`Request::only_reads`](super::Request::only_reads)).
    Reading,
}

impl Rights {
    /// The longest request, bytes. Whoever may change the configuration may send one.
    pub fn longest(self) -> usize {
        match self {
            Rights::All => LONGEST_REQUEST,
            Rights::Reading => MAX_REQUEST,
        }
    }
}

/// The judge at the door.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    mode: u32,
    owner: u32,
    group: u32,
    readers: Option<u32>,
}

impl Judge {
    pub fn new(access: &Access) -> Result<Judge, ServerError> {
        let group = access.group.as_deref().map(|name| number(name, "group")).transpose()?;
        let readers = access.read_group.as_deref().map(|name| number(name, "read_group")).transpose()?;
        let (owner, own) = (geteuid().as_raw(), getegid().as_raw());
        Ok(Judge { mode: access.mode, owner, group: group.unwrap_or(own), readers })
    }

    /// The permissions of the socket's file.
    pub fn mode(&self) -> u32 {
        // To connect is to write.
        self.mode | if self.readers.is_some() { 0o666 } else { 0 }
    }

    /// The group of the socket's file.
    pub fn group(&self) -> u32 {
        self.group
    }

    /// What a client may do that could connect, if anything.
    pub fn rights(&self, peer: &Peer) -> Option<Rights> {
        let Some(readers) = self.readers else { return Some(Rights::All) };
        let may = |bit: u32| self.mode & bit != 0;
        let all = peer.uid == 0
            || (peer.uid == self.owner && may(0o200))
            || (peer.groups.contains(&self.group) && may(0o020))
            || may(0o002);
        match all {
            true => Some(Rights::All),
            false => peer.groups.contains(&readers).then_some(Rights::Reading),
        }
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

    fn rights(mode: u32, readers: Option<u32>, uid: u32, groups: &[u32]) -> Option<Rights> {
        let judge = Judge { mode, owner: 7, group: 4, readers };
        judge.rights(&Peer { pid: 1, uid, groups: groups.to_vec() })
    }

    #[test]
    fn groups_decide_who_may_change_and_who_may_read() {
        use Rights::{All, Reading};
        for (uid, groups, expected) in [
            (0, &[0][..], Some(All)),
            (7, &[9], Some(All)),
            (1000, &[1000, 4], Some(All)),
            (1000, &[4], Some(All)),
            (1000, &[1000, 50, 4], Some(All)),
            (1000, &[1000, 50], Some(Reading)),
            (1000, &[50], Some(Reading)),
            (1000, &[1000], None),
            (1000, &[0], None),
        ] {
            assert_eq!(rights(0o660, Some(50), uid, groups), expected, "{uid} {groups:?}");
        }
        assert_eq!(rights(0o600, Some(50), 1000, &[4]), None, "the group may not even connect");
        assert_eq!(rights(0o666, Some(50), 1000, &[1000]), Some(All));
        assert_eq!(rights(0o660, None, 1000, &[1000]), Some(All), "the file's permissions have decided");
    }
}
