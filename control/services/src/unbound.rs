//! What unbound is told.

use std::collections::BTreeSet;
use std::fmt::Write;

use config::{Dns, Forwarder};

/// Whom it believes that a server is who it says.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Its file, which is one among others of a folder.
pub(crate) fn render(dns: &Dns) -> String {
    let mut text = String::from("server:\n");
    let mut say = |line: String| writeln!(text, "    {line}").expect("memory takes all");
    for address in &dns.listen {
        say(format!("interface: {address}"));
    }
    // An address may come later, with its interface or by VRRP.
    say("ip-freebind: yes".to_owned());
    for net in &dns.access {
        say(format!("access-control: {net} allow"));
    }
    if let Some(prefix) = dns.dns64 {
        say("module-config: \"dns64 validator iterator\"".to_owned());
        say(format!("dns64-prefix: {prefix}"));
    }
    let forwards = || dns.forward.iter().chain(dns.zones.iter().flat_map(|zone| &zone.forward));
    if forwards().any(|server| server.tls.is_some()) {
        say(format!("tls-cert-bundle: \"{AUTHORITIES}\""));
    }
    // A name for an address is the first that has it.
    let mut named = BTreeSet::new();
    for (name, addresses) in &dns.records {
        for address in addresses {
            let kind = if address.is_ipv4() { "A" } else { "AAAA" };
            say(format!("local-data: \"{name}. {kind} {address}\""));
            if named.insert(address) {
                say(format!("local-data-ptr: \"{address} {name}.\""));
            }
        }
    }
    for zone in &dns.zones {
        // Whose domain is nobody's in the world has no signature there, and unbound would answer
        // for some of them itself.
        say(format!("domain-insecure: \"{}.\"", zone.name));
        say(format!("local-zone: \"{}.\" nodefault", zone.name));
    }
    if !dns.forward.is_empty() {
        forward(&mut text, ".", &dns.forward);
    }
    dns.zones.iter().for_each(|zone| forward(&mut text, &format!("{}.", zone.name), &zone.forward));
    text
}

fn forward(text: &mut String, zone: &str, servers: &[Forwarder]) {
    *text += &format!("forward-zone:\n    name: \"{zone}\"\n");
    if servers.iter().any(|server| server.tls.is_some()) {
        *text += "    forward-tls-upstream: yes\n";
    }
    for server in servers {
        let port = server.port.or(server.tls.as_ref().map(|_| 853));
        let port = port.map_or_else(String::new, |port| format!("@{port}"));
        let name = server.tls.as_ref().map_or_else(String::new, |name| format!("#{name}"));
        *text += &format!("    forward-addr: {}{port}{name}\n", server.address);
    }
}
