//! What lldpd is told.

use config::Lldp;

/// Its file, one of a folder, in the words of `lldpcli`.
pub(crate) fn render(lldp: &Lldp) -> String {
    let Lldp { interfaces, management, interval, hold } = lldp;
    let mut text = format!("configure lldp tx-interval {interval}\nconfigure lldp tx-hold {hold}\n");
    if !interfaces.is_empty() {
        text += &format!("configure system interface pattern {}\n", interfaces.join(","));
    }
    if !management.is_empty() {
        let list: Vec<String> = management.iter().map(ToString::to_string).collect();
        text += &format!("configure system ip management pattern {}\n", list.join(","));
    }
    text
}
