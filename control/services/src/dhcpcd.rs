//! What dhcpcd is told: to ask for addresses of IPv4, and for nothing else.

use config::Interface;

/// Its file; `None`: no interface asks.
pub(crate) fn render(interfaces: &[Interface]) -> Option<String> {
    let asking: Vec<_> = interfaces.iter().filter_map(|it| Some((&it.name, it.dhcp.as_ref()?))).collect();
    if asking.is_empty() {
        return None;
    }
    let names: Vec<&str> = asking.iter().map(|(name, _)| name.as_str()).collect();
    let mut text = format!("allowinterfaces {}\n", names.join(" "));
    // Addresses stay while it is started anew. What a server says of names and time is not the
    // router's.
    text += "ipv4only\nnoipv4ll\npersistent\nclientid\nscript /bin/true\n";
    text += "option classless_static_routes\nrequire dhcp_server_identifier\n";
    for (name, client) in asking {
        text += &format!("interface {name}\n");
        client.metric.iter().for_each(|metric| text += &format!("metric {metric}\n"));
    }
    Some(text)
}
