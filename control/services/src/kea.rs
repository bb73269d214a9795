//! What Kea is told.

use std::path::Path;

use config::{Dhcp, Dhcp6, Host6, Subnet, Subnet6};
use serde_json::{Value, json};

/// Interfaces may come, and get their addresses, later: it tries so often, and waits so many
/// milliseconds before each time.
const RETRIES: u32 = 1_000_000;
const WAIT: u32 = 5_000;

/// Its file. `leases` is the folder of what it keeps.
pub(crate) fn render(dhcp: &Dhcp, leases: &Path) -> String {
    let mut whole = both("kea-dhcp4", dhcp.listens(), &leases.join("kea-leases4.csv"), dhcp.lease);
    // Who comes from another network is told so at once.
    whole["authoritative"] = true.into();
    whole["host-reservation-identifiers"] = json!(["hw-address"]);
    whole["subnet4"] = dhcp.subnets.iter().map(subnet).collect();
    format!("{:#}\n", json!({ "Dhcp4": whole }))
}

/// The same for IPv6.
pub(crate) fn render6(dhcp: &Dhcp6, leases: &Path) -> String {
    let mut whole = both("kea-dhcp6", dhcp.listens(), &leases.join("kea-leases6.csv"), dhcp.lease);
    whole["preferred-lifetime"] = preferred(dhcp.lease).into();
    whole["host-reservation-identifiers"] = json!(["duid", "hw-address"]);
    whole["subnet6"] = dhcp.subnets.iter().map(subnet6).collect();
    format!("{:#}\n", json!({ "Dhcp6": whole }))
}

/// Hosts begin nothing new from an address in the last fifth of its time.
fn preferred(lease: u32) -> u32 {
    lease / 5 * 4
}

/// What both families are told.
fn both(program: &str, interfaces: Vec<String>, leases: &Path, lease: u32) -> Value {
    json!({
        "interfaces-config": {
            "interfaces": interfaces,
            "service-sockets-max-retries": RETRIES,
            "service-sockets-retry-wait-time": WAIT,
        },
        "lease-database": {
            "type": "memfile",
            "persist": true,
            "name": leases.display().to_string(),
        },
        "valid-lifetime": lease,
        "loggers": [{
            "name": program,
            "severity": "INFO",
            "output_options": [{ "output": "stdout" }],
        }],
    })
}

fn subnet6(subnet: &Subnet6) -> Value {
    let mut options = Vec::new();
    let dns: Vec<String> = subnet.dns.iter().map(ToString::to_string).collect();
    for (name, all) in [("dns-servers", dns), ("domain-search", subnet.search.clone())] {
        if !all.is_empty() {
            options.push(json!({ "name": name, "data": all.join(", ") }));
        }
    }
    options.extend(subnet.options.iter().map(|(name, data)| json!({ "name": name, "data": data })));
    let pools = subnet.pools.iter().map(|(first, last)| json!({ "pool": format!("{first} - {last}") }));
    let hosts = subnet.reservations.iter().map(|it| {
        let (key, who) = match &it.host {
            Host6::Duid(duid) => ("duid", duid),
            Host6::Mac(mac) => ("hw-address", mac),
        };
        json!({ key: who, "ip-addresses": [it.address], "hostname": it.name })
    });
    let mut whole = json!({
        "id": subnet.number(),
        "subnet": subnet.prefix,
        "pools": pools.collect::<Vec<_>>(),
        "option-data": options,
        "reservations": hosts.collect::<Vec<_>>(),
    });
    if let Some(interface) = &subnet.interface {
        whole["interface"] = interface.as_str().into();
    }
    if let Some(lease) = subnet.lease {
        whole["valid-lifetime"] = lease.into();
        whole["preferred-lifetime"] = preferred(lease).into();
    }
    whole
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
