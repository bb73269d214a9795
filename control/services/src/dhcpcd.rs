//! What dhcpcd is told: what to ask for, and for nothing else.

use config::{Delegated, Interface};

/// An interface has one address and one prefix of its servers.
const ADDRESS: u32 = 1;
const PREFIX: u32 = 2;

/// Its file; `None`: no interface asks.
pub(crate) fn render(interfaces: &[Interface]) -> Option<String> {
    let parts = |name: &str| {
        let of = move |part: &Delegated| part.from == name;
        let mine = interfaces.iter().filter_map(|it| Some((&it.name, it.delegated.as_ref()?)));
        mine.filter(|(_, part)| of(part)).collect::<Vec<_>>()
    };
    let asks = |it: &Interface| it.dhcp.is_some() || it.client6.is_some() || !parts(&it.name).is_empty();
    let all: Vec<_> = interfaces.iter().filter(|it| asks(it) || it.delegated.is_some()).collect();
    if all.is_empty() {
        return None;
    }
    let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
    let mut text = format!("allowinterfaces {}\n", names.join(" "));
    // Addresses stay while it is started anew. What a server says of names and time is not the
    // router's.
    text += "noipv4ll\nnoipv6rs\npersistent\nclientid\nscript /bin/true\n";
    text += "option classless_static_routes\nrequire dhcp_server_identifier\n";
    for it in all {
        let parts = parts(&it.name);
        text += &format!("interface {}\n", it.name);
        match &it.dhcp {
            Some(client) => client.metric.iter().for_each(|metric| text += &format!("metric {metric}\n")),
            None => text += "noipv4\n",
        }
        if it.client6.is_none() && parts.is_empty() {
            // What it has is another one's to ask for.
            text += if it.delegated.is_some() { "nodhcp6\n" } else { "noipv6\n" };
            continue;
        }
        let client = it.client6.clone().unwrap_or_default();
        // A default route is what routers tell, whoever gives addresses.
        text += "ipv6rs\n";
        if !client.autoconf {
            text += "ipv6ra_noautoconf\n";
        }
        if client.address {
            text += &format!("ia_na {ADDRESS}\n");
        }
        if !parts.is_empty() {
            let hint = client.prefix_length.map_or(String::new(), |length| format!("/::/{length}"));
            text += &format!("ia_pd {PREFIX}{hint}");
            for (name, part) in parts {
                text += &format!(" {name}/{}/64", part.number);
            }
            text += "\n";
        }
    }
    Some(text)
}
