//! Programs at an interface's way into Linux's stack and out of it (tcx): what others have put
//! there.
//!
//! Linux shows them to nobody by netlink. Of our own there is one on a port whose packets are
//! copied ([`copies`](crate::copies)).

use crate::bpf::sys;

/// The name of the program that copies.
pub(crate) const COPY: &str = "bifrost_copy";

/// How many programs stand at an interface's way in, or out, ours included. None where Linux has no
/// tcx (before 6.6), or does not tell.
pub fn programs(ifindex: u32, egress: bool) -> usize {
    ids(ifindex, egress).len()
}

/// How many of them are not ours, for whoever is not the router itself; it takes `CAP_SYS_ADMIN` to
/// tell.
pub fn foreign(ifindex: u32, egress: bool) -> usize {
    let is_ours = |id: &&u32| sys::program_name(**id).is_ok_and(|name| name == COPY);
    let ids = ids(ifindex, egress);
    ids.len() - ids.iter().filter(is_ours).count()
}

fn ids(ifindex: u32, egress: bool) -> Vec<u32> {
    let attach = if egress { sys::ATTACH_TCX_EGRESS } else { sys::ATTACH_TCX_INGRESS };
    sys::programs_at(ifindex, attach).unwrap_or_default()
}
