//! What Kea is told.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use config::{Dhcp, Dhcp6, HostId, Pool, Reservation, Subnet, Subnet6};
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

fn subnet(subnet: &Subnet) -> Value {
    let options = [
        ("routers", words(&subnet.routers)),
        ("domain-name-servers", words(&subnet.dns)),
        ("ntp-servers", words(&subnet.ntp)),
        ("domain-name", subnet.domain.clone().unwrap_or_default()),
    ];
    // Leases name their subnet by its number: so that is the same wherever it stands in the file.
    let mut whole = of_both(u32::from(subnet.prefix.network()), &subnet.pools, &options, &subnet.options);
    whole["subnet"] = json!(subnet.prefix);
    whole["reservations"] = (subnet.reservations.iter())
        .map(|it| reserved(it, |address| ("ip-address", json!(address))))
        .collect();
    subnet.interface.iter().for_each(|name| whole["interface"] = name.as_str().into());
    subnet.lease.iter().for_each(|lease| whole["valid-lifetime"] = (*lease).into());
    whole
}

fn subnet6(subnet: &Subnet6) -> Value {
    let options = [("dns-servers", words(&subnet.dns)), ("domain-search", words(&subnet.search))];
    let mut whole = of_both(subnet.number(), &subnet.pools, &options, &subnet.options);
    whole["subnet"] = json!(subnet.prefix);
    whole["reservations"] = (subnet.reservations.iter())
        .map(|it| reserved(it, |address| ("ip-addresses", json!([address]))))
        .collect();
    subnet.interface.iter().for_each(|name| whole["interface"] = name.as_str().into());
    if let Some(lease) = subnet.lease {
        whole["valid-lifetime"] = lease.into();
        whole["preferred-lifetime"] = preferred(lease).into();
    }
    whole
}

fn words<T: ToString>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What a subnet of either family is told: its options by Kea's names, those of keys first.
fn of_both<A: Display>(
    number: u32,
    pools: &[Pool<A>],
    own: &[(&str, String)],
    others: &BTreeMap<String, String>,
) -> Value {
    let own = own.iter().filter(|(_, data)| !data.is_empty()).map(|(name, data)| (*name, data));
    let options = own.chain(others.iter().map(|(name, data)| (name.as_str(), data)));
    let options = options.map(|(name, data)| json!({ "name": name, "data": data }));
    let pools = pools.iter().map(|pool| json!({ "pool": format!("{} - {}", pool.first, pool.last) }));
    json!({
        "id": number,
        "pools": pools.collect::<Vec<_>>(),
        "option-data": options.collect::<Vec<_>>(),
    })
}

fn reserved<A: Copy>(it: &Reservation<A>, address: impl Fn(A) -> (&'static str, Value)) -> Value {
    let (key, who) = match &it.host {
        HostId::Mac(mac) => ("hw-address", mac),
        HostId::Duid(duid) => ("duid", duid),
    };
    let (address, is) = address(it.address);
    json!({ key: who, address: is, "hostname": it.name })
}
