//! What Linux does to packets and Bifrost does not, asked once by a command.

use mirror::Beyond;
use nix::net::if_::if_nameindex;

/// What there is that concerns a router with these ports.
pub fn survey(is_port: impl Fn(&str) -> bool) -> Beyond {
    let mut beyond = mirror::survey().of_ports(&is_port);
    // Where interfaces cannot be listed, there is no port either.
    let Ok(interfaces) = if_nameindex() else { return beyond };
    for interface in &interfaces {
        let name = interface.name().to_string_lossy();
        for egress in [false, true] {
            if is_port(&name) && port::tcx::foreign(interface.index(), egress) > 0 {
                beyond.add_program(&name, egress);
            }
        }
    }
    beyond
}
