//! Services that other daemons are: what they are told, and who starts them.
//!
//! ```text
//!   [service.dns] ──► rendered ──► beside the daemon's file ──► the daemon's own check ──► renamed
//!                                                                                            │
//!   what runs  ◄── its unit is restarted ◄───────────────────────────────────────────────────┘
//! ```
//!
//! A service is a [managed file](file), the check of its daemon, and a [unit](manager). What is to
//! be done is the way from the file that stands there to the text that is wanted, or to none
//! ([`plan`]); the way back is the same, to the text that stood there. So nothing has to be
//! remembered: a mark in the file says that it is Bifrost's.
//!
//! | file | what it is |
//! |---|---|
//! | `file.rs` | a file that is Bifrost's, or somebody's |
//! | `manager.rs` | who starts and stops daemons: systemd, or a program |
//! | `service.rs` | the way of a service from what it is told to what it is to be told |
//! | `kea.rs`, `unbound.rs`, `chrony.rs`, `lldpd.rs`, `rsyslog.rs`, `openssh.rs`, `dhcpcd.rs` | what each daemon is told, as pure code |
//! | `tool.rs` | programs of the system's |

mod chrony;
mod dhcpcd;
mod file;
mod kea;
mod lldpd;
mod manager;
mod openssh;
mod rsyslog;
mod service;
pub mod tool;
mod unbound;

use std::path::{Path, PathBuf};

use config::{Dhcp, Dhcp6, Router};

pub use file::{FAILED, FileError, Managed, Standing};
pub use manager::{Manager, ManagerError};
pub use service::{Check, Service, ServiceError, Step, go, plan, undo};

/// The unit that makes the machine's own settings.
pub const SETTINGS_UNIT: &str = "bifrost-system";
/// What it reads, unless told otherwise.
pub const SETTINGS: &str = "/var/lib/bifrost/system";

/// Every service that Bifrost knows, with what a file says of each.
pub fn services(router: &Router) -> Vec<Service> {
    let root = router.services.root.as_deref().unwrap_or(Path::new("/"));
    let mut services = of_hosts(&router.services, root);
    services.extend(of_the_machine(router, root));
    services
}

/// Those that hosts use.
fn of_hosts(services: &config::Services, root: &Path) -> Vec<Service> {
    let below = |path: &str| under(root, path);
    vec![
        Service {
            name: "dhcp",
            section: "[service.dhcp]",
            unit: "kea-dhcp4-server",
            package: "kea-dhcp4-server",
            restarts: "leases stay",
            file: Managed::new(below("/etc/kea/kea-dhcp4.conf")),
            base: None,
            check: Check::Program("kea-dhcp4", &["-t"]),
            once: false,
            interfaces: services.dhcp.iter().flat_map(Dhcp::listens).collect(),
            text: services.dhcp.as_ref().map(|dhcp| kea::render(dhcp, &below("/var/lib/kea"))),
        },
        Service {
            name: "dhcp6",
            section: "[service.dhcp6]",
            unit: "kea-dhcp6-server",
            package: "kea-dhcp6-server",
            restarts: "leases stay",
            file: Managed::new(below("/etc/kea/kea-dhcp6.conf")),
            base: None,
            check: Check::Program("kea-dhcp6", &["-t"]),
            once: false,
            interfaces: services.dhcp6.iter().flat_map(Dhcp6::listens).collect(),
            text: services.dhcp6.as_ref().map(|dhcp| kea::render6(dhcp, &below("/var/lib/kea"))),
        },
        Service {
            name: "dns",
            section: "[service.dns]",
            unit: "unbound",
            package: "unbound",
            restarts: "its cache is empty then",
            file: Managed::new(below("/etc/unbound/unbound.conf.d/bifrost.conf")),
            base: Some((below("/etc/unbound/unbound.conf"), "unbound.conf.d")),
            check: Check::Program("unbound-checkconf", &[]),
            once: false,
            interfaces: Vec::new(),
            text: services.dns.as_ref().map(unbound::render),
        },
        Service {
            name: "ntp",
            section: "[service.ntp]",
            unit: "chrony",
            package: "chrony",
            restarts: "the clock goes on",
            file: Managed::new(below("/etc/chrony/chrony.conf")),
            base: None,
            check: Check::Program("chronyd", &["-p", "-f"]),
            once: false,
            interfaces: Vec::new(),
            text: services.ntp.as_ref().map(|ntp| chrony::render(ntp, &below("/var"))),
        },
        Service {
            name: "lldp",
            section: "[service.lldp]",
            unit: "lldpd",
            package: "lldpd",
            restarts: "neighbours hear of it at once again",
            file: Managed::new(below("/etc/lldpd.d/bifrost.conf")),
            // It reads that folder, whatever else is there.
            base: None,
            check: Check::Nobody,
            once: false,
            interfaces: Vec::new(),
            text: services.lldp.as_ref().map(lldpd::render),
        },
    ]
}

/// Those of the machine itself.
fn of_the_machine(router: &Router, root: &Path) -> Vec<Service> {
    let Router { system, interfaces, .. } = router;
    let below = |path: &str| under(root, path);
    vec![
        Service {
            name: "syslog",
            section: "[system.syslog]",
            unit: "rsyslog",
            package: "rsyslog",
            restarts: "servers may miss lines of that moment",
            file: Managed::new(below("/etc/rsyslog.d/bifrost.conf")),
            base: Some((below("/etc/rsyslog.conf"), "rsyslog.d")),
            check: Check::Program("rsyslogd", &["-N1", "-f"]),
            once: false,
            interfaces: Vec::new(),
            text: system.syslog.as_ref().map(rsyslog::render),
        },
        Service {
            name: "system",
            section: "[system]",
            unit: SETTINGS_UNIT,
            package: "bifrost",
            restarts: "what has changed is set",
            file: Managed::private(below(SETTINGS)),
            base: None,
            check: Check::Own(settings::check),
            once: true,
            interfaces: Vec::new(),
            text: Some(settings::wanted(system, &router.control, root))
                .filter(|wanted| !wanted.is_empty())
                .map(|wanted| wanted.text()),
        },
        // Behind the accounts whose keys it is to read.
        Service {
            name: "ssh",
            section: "[system.ssh]",
            unit: "ssh",
            package: "openssh-server",
            restarts: "who is logged in stays so",
            file: Managed::new(below("/etc/ssh/sshd_config.d/bifrost.conf")),
            base: Some((below("/etc/ssh/sshd_config"), "sshd_config.d")),
            // Its unit has it checked before it ends.
            check: Check::Nobody,
            once: false,
            interfaces: Vec::new(),
            text: openssh::render(system, root),
        },
        Service {
            name: "dhcp-client",
            section: "dhcp of [interface]",
            unit: "bifrost-dhcp",
            package: "dhcpcd-base",
            restarts: "addresses stay",
            file: Managed::new(below("/etc/bifrost/dhcpcd.conf")),
            base: None,
            // It has no check of its own; that it is there is seen.
            check: Check::Program("dhcpcd", &["-P", "-f"]),
            once: false,
            interfaces: Vec::new(),
            text: dhcpcd::render(interfaces),
        },
    ]
}

fn under(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}
