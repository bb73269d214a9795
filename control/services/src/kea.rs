//! What Kea is told.

use std::path::Path;

use config::{Dhcp, Subnet};
use serde_json::{Value, json};

/// Interfaces may come, and get their addresses, later: it tries so often, and waits so many
/// milliseconds before each time.
const RETRIES: u32 = 1_000_000;
const WAIT: u32 = 5_000;

/// The interfaces that it listens at.
pub(crate) fn interfaces(dhcp: &Dhcp) -> Vec<String> {
    let mut names = dhcp.interfaces.clone();
    names.extend(dhcp.subnets.iter().filter_map(|subnet| subnet.interface.clone()));
    names.sort();
    names.dedup();
    names
}

/// Its file. `leases` is the folder of what it keeps.
pub(crate) fn render(dhcp: &Dhcp, leases: &Path) -> String {
    let whole = json!({ "Dhcp4": {
        "interfaces-config": {
            "interfaces": interfaces(dhcp),
            "service-sockets-max-retries": RETRIES,
            "service-sockets-retry-wait-time": WAIT,
        },
        "lease-database": {
            "type": "memfile",
            "persist": true,
            "name": leases.join("kea-leases4.csv").display().to_string(),
        },
        // Who comes from another network is told so at once.
        "authoritative": true,
        "valid-lifetime": dhcp.lease,
        "host-reservation-identifiers": ["hw-address"],
        "subnet4": dhcp.subnets.iter().map(subnet).collect::<Vec<_>>(),
        "loggers": [{
            "name": "kea-dhcp4",
            "severity": "INFO",
            "output_options": [{ "output": "stdout" }],
        }],
    } });
    format!("{whole:#}\n")
}

fn subnet(subnet: &Subnet) -> Value {
    // Leases name their subnet by its number: so that is the same wherever it stands in the file.
    let number = u32::from(subnet.prefix.network());
    let addresses =
        |all: &[std::net::Ipv4Addr]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut options = Vec::new();
    for (name, all) in
        [("routers", &subnet.routers), ("domain-name-servers", &subnet.dns), ("ntp-servers", &subnet.ntp)]
    {
        if !all.is_empty() {
            options.push(json!({ "name": name, "data": addresses(all) }));
        }
    }
    options.extend(subnet.domain.iter().map(|name| json!({ "name": "domain-name", "data": name })));
    options.extend(subnet.options.iter().map(|(name, data)| json!({ "name": name, "data": data })));
    let pools: Vec<Value> = subnet
        .pools
        .iter()
        .map(|pool| json!({ "pool": format!("{} - {}", pool.first, pool.last) }))
        .collect();
    let hosts: Vec<Value> = subnet
        .reservations
        .iter()
        .map(|host| json!({ "hw-address": host.mac, "ip-address": host.address, "hostname": host.name }))
        .collect();
    let mut whole = json!({
        "id": number,
        "subnet": subnet.prefix,
        "pools": pools,
        "option-data": options,
        "reservations": hosts,
    });
    if let Some(interface) = &subnet.interface {
        whole["interface"] = interface.as_str().into();
    }
    if let Some(lease) = subnet.lease {
        whole["valid-lifetime"] = lease.into();
    }
    whole
}
