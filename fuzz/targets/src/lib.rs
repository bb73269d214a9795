//! What reads foreign bytes, as a fuzzer calls it: one function a target, which takes any bytes and
//! must come back.
//!
//! A panic, a broken `assert`, an allocation beyond reason or no end is a finding. The fuzzer
//! itself (`make fuzz`) is in the folder above, outside of the workspace. The inputs that it found
//! worth keeping are in `corpus/TARGET/`, and every test run calls each target with them, and with
//! what they become by a few thousand blind changes (`tests/replay.rs`).
//!
//! | target | whose bytes |
//! |---|---|
//! | `control` | a client's, at the control socket |
//! | `fpm`, `netlink` | zebra's, the kernel's: through the model into tables |
//! | `memif` | a program's at a memif socket, and in the memory that both have |
//! | `trial_control` | a generator's and a sink's, to each other |
//! | `discovery` | hosts' and other routers': router discovery of both families |
//! | `relay` | hosts' and servers': DHCP of both families, through a relay |
//! | `bfd` | other routers': control packets; and FRR's: its sessions |
//! | `vrrp` | other routers' and hosts': advertisements, and questions for the virtual address |
//! | `sharing` | another router's: datagrams, and what is within those that the key opens |
//! | `packets` | the network's: through the standard graph with filter and translation, the long way and the short one |
//! | `capture`, `summary` | files of packets: pcap, pcapng, IP summary dumps |
//! | `flow_journal`, `parquet`, `saved_flows` | files of flows |
//! | `click`, `router_toml`, `rules`, `expect` | texts of an operator's |
//! | `candidate` | lines that edit a configuration |
//! | `frr` | FRR's configuration, as it shows it |
//! | `firewall` | what nftables says of its rules, to be judged by |
//! | `import` | what Linux, FRR and other programs' files say, to be turned into a file |
//!
//! IPFIX, NetFlow and sFlow are only written here, never read.

mod files;
mod packets;
mod texts;

pub use bfd::fuzz as bfd;
pub use bifrost::fuzz::{control, saved_flows};
pub use candidate::fuzz as candidate;
pub use discovery::fuzz as discovery;
pub use files::{capture, flow_journal, parquet, summary};
pub use firewall::fuzz as firewall;
pub use frr::fuzz as frr;
pub use import::fuzz as import;
pub use mirror::fuzz::{fpm, netlink};
pub use packets::packets;
pub use port::memif::fuzz::client as memif;
pub use relay::fuzz as relay;
pub use sharing::fuzz as sharing;
pub use texts::{click, expect, router_toml, rules};
pub use traffic::control::fuzz as trial_control;
pub use vrrp::fuzz as vrrp;

/// A target.
pub type Target = fn(&[u8]);

/// All of them by name, as their folders in `corpus/` are called.
pub const TARGETS: [(&str, Target); 24] = [
    ("bfd", bfd),
    ("candidate", candidate),
    ("capture", capture),
    ("click", click),
    ("control", control),
    ("discovery", discovery),
    ("expect", expect),
    ("firewall", firewall),
    ("flow_journal", flow_journal),
    ("fpm", fpm),
    ("frr", frr),
    ("import", import),
    ("memif", memif),
    ("netlink", netlink),
    ("packets", packets),
    ("parquet", parquet),
    ("relay", relay),
    ("router_toml", router_toml),
    ("rules", rules),
    ("saved_flows", saved_flows),
    ("sharing", sharing),
    ("summary", summary),
    ("trial_control", trial_control),
    ("vrrp", vrrp),
];
