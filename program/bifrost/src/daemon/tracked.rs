//! Whether what a section tracks is there now.

use config::Tracked;

use super::forwarding::Forwarding;

impl Forwarding {
    pub(super) fn is_there(&self, what: &Tracked) -> bool {
        let links = &self.mirror.model().links;
        match what {
            Tracked::Interface(name) => links.by_name(name).is_some_and(|link| link.up && link.running),
            Tracked::Bfd(peer) => self.reachability.reaches(*peer),
            Tracked::Ping(ping) => self.pings.answers(ping),
            Tracked::Flows => self.has_flows(),
            Tracked::Route { prefix, from } => self.mirror.leads(prefix, from.as_deref()),
        }
    }
}
