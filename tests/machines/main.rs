//! System tests in virtual machines: with Debian's kernels, and what this machine's kernel may lack
//! (VLANs, VRFs).
//!
//! They are written as the others are, with hosts in network namespaces, but carried out in a guest
//! (`lab::inside!`). A machine serves many tests of this program, one after the other.
//! `lab/setup.sh machines` fetches what they need.

// Every test's name begins with `machines`, so that `make test ONLY=machines` finds them.
#[path = "."]
mod machines {
    mod a_machine_ends_with_its_process;
    mod bifrost_forwards_on_debians_kernels;
    mod bonded;
    mod bonds_are_forwarded;
    mod bridges_tell_vlans_apart;
    mod evpn_routes_are_forwarded;
    mod guests_have_network_cards;
    mod guests_have_what_this_kernel_may_lack;
    mod interfaces_of_the_file_are_made;
    mod tagged;
    mod the_service_runs_under_systemd;
    mod tunnels_are_forwarded;
    mod vlans_are_forwarded;
    mod vrfs;
    mod vrfs_are_forwarded;
    mod vrfs_pass_filter_and_translation;
    mod wireguard_is_told_of_the_peers_that_changed;
}

#[path = "../network.rs"]
#[allow(dead_code, reason = "shared with the tests of this machine's own kernel")]
mod network;
