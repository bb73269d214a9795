//! What the tables must hold for a prefix, as a function of the model.

use super::Programmer;
use super::recipe::{self, Recipe};
use crate::model::{Kind, Model, Neighbour, Route, Source};
use crate::origin;
use ipnet::IpNet;
use std::net::IpAddr;

impl Programmer {
    /// What must be written for the prefix, shields included.
    pub fn recipe_of(&self, prefix: IpNet, model: &Model) -> Option<Recipe> {
        if self.shields.contains(&prefix) {
            return Some(Recipe::Linux);
        }
        self.desired(prefix, model)
    }

    /// What the tables must hold for `prefix`; `None` = nothing.
    pub fn desired(&self, prefix: IpNet, model: &Model) -> Option<Recipe> {
        if let Some(route) = self.best(&prefix, model.routes.at(&prefix), model) {
            return Some(recipe::recipe(&prefix, route, model));
        }
        if prefix.prefix_len() < prefix.max_prefix_len() {
            return None;
        }
        self.host(prefix.addr(), model)
    }

    /// The route of `prefix` that Linux would use.
    pub fn best<'a>(&self, prefix: &IpNet, routes: &'a [Route], model: &Model) -> Option<&'a Route> {
        let ipv6 = prefix.addr().is_ipv6();
        let mut usable = routes.iter().filter(|route| self.usable(route, ipv6, model));
        let first = usable.next()?;
        // Equal IPv6 routes that do not join go by router preference.
        let equal = usable.take_while(|route| ipv6 && route.rank() == first.rank());
        Some(equal.fold(first, |best, route| if route.preference < best.preference { route } else { best }))
    }

    fn usable(&self, route: &Route, ipv6: bool, model: &Model) -> bool {
        let told_by = match route.source {
            Source::Fpm => self.fpm,
            Source::Netlink => !(self.fpm && origin::is_frr(route.origin)),
        };
        told_by
            && !route.restricted
            && (route.kind != Kind::Unicast || recipe::alive(model, route.target, ipv6))
    }

    /// The way to a known host on a connected network.
    fn host(&self, address: IpAddr, model: &Model) -> Option<Recipe> {
        if address.is_multicast() || matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
        {
            return None;
        }
        let mut found = model.neighbours.within(address, address);
        let known = |(ifindex, _, n): &(u32, IpAddr, &Neighbour)| {
            n.usable().is_some() && self.ports.contains_key(ifindex)
        };
        if !found.any(|neighbour| known(&neighbour)) {
            return None;
        }
        let (_, route) = self.covering(address, model)?;
        let ifindex = recipe::on_link(model, route)?;
        let neighbour = model.neighbours.find(ifindex, address)?;
        let usable = neighbour.usable().is_some() && self.ports.contains_key(&ifindex);
        usable.then_some(Recipe::Host { ifindex, address, mtu: route.mtu })
    }

    /// The route that Linux would use for `address`.
    pub fn covering<'a>(&self, address: IpAddr, model: &'a Model) -> Option<(IpNet, &'a Route)> {
        let mut covering = model.routes.covering(address);
        covering.find_map(|(prefix, routes)| self.best(&prefix, routes, model).map(|route| (prefix, route)))
    }
}
