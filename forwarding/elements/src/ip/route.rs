//! A route as the routing elements are told it and tell it, and a table of them.
//!
//! The longest prefixes are found in a [`fib::Lpm`] whose values are hops: a gateway and an output,
//! one for all routes that have them in common. Beside it the routes stand in a list, which is what
//! `table` prints; the routing elements of Click differ in the order of that list.

use std::collections::HashMap;
use std::fmt;
use std::net::Ipv4Addr;

use fib::Lpm;
use graph::arguments::{AddressOrPrefix4, Argument, Prefix4, Scope, parse_integer};
use graph::language::first_word;

/// Where packets of a route go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The next router; 0.0.0.0: the destination is on the link.
    pub gateway: Ipv4Addr,
    /// The output of the element.
    pub output: u32,
}

/// A prefix, and where its packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destinations, without bits outside the mask.
    pub prefix: Prefix4,
    /// How many bits of the prefix count.
    pub length: u8,
    /// Where they go.
    pub hop: Hop,
}

/// Which route to remove: of a prefix the one that there is, or only if it is as said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    prefix: Prefix4,
    length: u8,
    gateway: Ipv4Addr,
    output: Option<i64>,
}

impl Removal {
    /// The output that the route must have to be removed.
    pub fn output(&self) -> Option<i64> {
        self.output
    }
}

impl From<Route> for Removal {
    fn from(Route { prefix, length, hop }: Route) -> Removal {
        Removal { prefix, length, gateway: hop.gateway, output: Some(hop.output.into()) }
    }
}

/// `ADDR/MASK [GATEWAY] OUTPUT`; a gateway of `-` is none.
impl Argument for Route {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Route, String> {
        let expected = || "expected 'ADDR/MASK [GATEWAY] OUTPUT'".to_owned();
        let Removal { prefix, length, gateway, output } = words(text, scope).ok_or_else(expected)?;
        let output = output.ok_or_else(expected)?;
        let output = u32::try_from(output).map_err(|_| "bad OUTPUT".to_owned())?;
        Ok(Route { prefix, length, hop: Hop { gateway, output } })
    }
}

/// `ADDR/MASK [GATEWAY OUTPUT]`.
impl Argument for Removal {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Removal, String> {
        let removal = words(text, scope).ok_or_else(|| "expected 'ADDR/MASK [GATEWAY OUTPUT]'".to_owned())?;
        match removal.output {
            Some(..-1) => Err("bad OUTPUT".to_owned()),
            Some(-1) => Ok(Removal { output: None, ..removal }),
            _ => Ok(removal),
        }
    }
}

/// The parts of a route; the output may be missing.
fn words(text: &str, scope: &Scope<'_>) -> Option<Removal> {
    let (prefix, rest) = first_word(text)?;
    let AddressOrPrefix4(Prefix4 { address, mask }) = AddressOrPrefix4::parse(prefix, scope).ok()?;
    let length = Prefix4 { address, mask }.length()? as u8;
    let prefix = Prefix4 { address: address & mask, mask };
    let (mut word, mut rest) = first_word(rest).unwrap_or_default();
    let mut gateway = Ipv4Addr::UNSPECIFIED;
    if word == "-" {
        (word, rest) = first_word(rest).unwrap_or_default();
    } else if let Ok(address) = Ipv4Addr::parse(word, scope) {
        gateway = address;
        (word, rest) = first_word(rest).unwrap_or_default();
    }
    let output = match word {
        "" => None,
        word => Some(parse_integer(word, i32::MIN.into(), i32::MAX.into()).ok()? as i64),
    };
    rest.trim().is_empty().then_some(Removal { prefix, length, gateway, output })
}

fn gateway_text(gateway: Ipv4Addr) -> String {
    if gateway.is_unspecified() { "-".to_owned() } else { gateway.to_string() }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.prefix, gateway_text(self.hop.gateway), self.hop.output)
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.prefix, gateway_text(self.gateway), self.output.unwrap_or(-1))
    }
}

/// The order in which a table lists its routes, and where a new one gets its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In the first place that is free; a route that replaces another takes over its place.
    FirstFree,
    /// In the place that was freed last; a route that replaces another frees that one's place.
    LastFreed,
    /// As `FirstFree`, but each behind the longer prefixes that it covers.
    LongestFirst,
    /// By address, then by length.
    ByAddress,
}

/// Routes, and what they say about addresses.
pub struct RouteTable {
    lpm: Lpm,
    /// By value in `lpm`; the first stands for no route.
    hops: Vec<Hop>,
    numbers: HashMap<Hop, u32>,
    list: Vec<Option<Route>>,
    /// By prefix and length, the place in the list.
    places: HashMap<(Ipv4Addr, u8), usize>,
    /// Places without a route, the last freed at the end.
    free: Vec<usize>,
    order: Order,
}

/// Why a table did not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// There is a route for this prefix.
    #[error("conflict with existing route '{0}'")]
    Exists(Route),
    /// There is no such route.
    #[error("route '{0}' not found")]
    NotFound(Removal),
    /// More different gateways than the table can tell apart.
    #[error("no memory to store route '{0}'")]
    TooMany(Route),
}

impl RouteTable {
    /// No routes.
    pub fn new(order: Order) -> RouteTable {
        let none = Hop { gateway: Ipv4Addr::UNSPECIFIED, output: u32::MAX };
        RouteTable {
            lpm: Lpm::new(),
            hops: vec![none],
            numbers: HashMap::new(),
            list: Vec::new(),
            places: HashMap::new(),
            free: Vec::new(),
            order,
        }
    }

    /// Adds a route.
    ///
    /// # Errors
    /// When there is one for the prefix, or no room.
    pub fn add(&mut self, route: Route) -> Result<(), RouteError> {
        match self.find(&route) {
            Some(existing) => Err(RouteError::Exists(existing)),
            None => self.set(route).map(|_| ()),
        }
    }

    /// Adds a route, instead of that which there is for the prefix; returns that.
    ///
    /// # Errors
    /// When there is no room.
    pub fn set(&mut self, route: Route) -> Result<Option<Route>, RouteError> {
        let number = self.number(route.hop).ok_or(RouteError::TooMany(route))?;
        let old = self.find(&route);
        self.lpm.insert(route.prefix.address.into(), route.length, number);
        let key = (route.prefix.address, route.length);
        let place = match self.places.get(&key).copied() {
            Some(place) if self.order != Order::LastFreed => place,
            existing => {
                let place = self.free_place();
                if let Some(existing) = existing {
                    self.list[existing] = None;
                    self.free.push(existing);
                }
                place
            }
        };
        self.list[place] = Some(route);
        self.places.insert(key, place);
        Ok(old)
    }

    /// Removes a route and returns it.
    ///
    /// # Errors
    /// When there is none as said.
    pub fn remove(&mut self, removal: Removal) -> Result<Route, RouteError> {
        let key = (removal.prefix.address, removal.length);
        let place = self.places.get(&key).copied().ok_or(RouteError::NotFound(removal))?;
        let as_said = |route: &Route| {
            let Hop { gateway, output } = route.hop;
            removal.output.is_none_or(|wanted| (wanted, removal.gateway) == (output.into(), gateway))
        };
        let route = self.list[place].filter(as_said).ok_or(RouteError::NotFound(removal))?;
        self.lpm.remove(key.0.into(), key.1);
        self.places.remove(&key);
        self.list[place] = None;
        self.free.push(place);
        Ok(route)
    }

    /// Removes all routes.
    pub fn clear(&mut self) {
        *self = RouteTable::new(self.order);
    }

    /// Where packets to an address go.
    pub fn lookup(&self, address: Ipv4Addr) -> Option<Hop> {
        let number = self.lpm.lookup(address.into());
        self.hops.get(number as usize).copied().filter(|_| number != 0)
    }

    /// The numbers of the hops for many addresses; 0: no route.
    #[inline]
    pub fn lookup_batch(&self, addresses: &[u32], numbers: &mut [u32]) {
        self.lpm.lookup_batch(addresses, numbers);
    }

    /// The hop of a number.
    #[inline(always)]
    pub fn hop(&self, number: u32) -> Hop {
        self.hops[number as usize]
    }

    /// All routes in the table's order.
    pub fn routes(&self) -> Vec<Route> {
        let mut routes: Vec<Route> = self.list.iter().flatten().copied().collect();
        match self.order {
            Order::FirstFree | Order::LastFreed => {}
            Order::LongestFirst => routes = longest_first(&routes),
            Order::ByAddress => routes.sort_by_key(|route| (route.prefix.address, route.length)),
        }
        routes
    }

    /// The table for a reader, a route a line, in columns.
    pub fn print(&self) -> String {
        let column = |entry: String, width: usize| {
            let tabs = if entry.len() + 1 < width { "\t\t" } else { "\t" };
            entry + tabs
        };
        let line = |Route { prefix, hop, .. }: Route| {
            let gateway = column(gateway_text(hop.gateway), 9);
            format!("{}{gateway}{}\n", column(prefix.to_string(), 17), hop.output)
        };
        self.routes().into_iter().map(line).collect()
    }

    fn find(&self, route: &Route) -> Option<Route> {
        self.places.get(&(route.prefix.address, route.length)).and_then(|&place| self.list[place])
    }

    /// The number of a hop, given out now if it has none.
    fn number(&mut self, hop: Hop) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&hop) {
            return Some(number);
        }
        let number = u32::try_from(self.hops.len()).ok().filter(|&number| number <= Lpm::MAX_VALUE)?;
        self.hops.push(hop);
        self.numbers.insert(hop, number);
        Some(number)
    }

    fn free_place(&mut self) -> usize {
        let first = || (0..self.free.len()).min_by_key(|&at| self.free[at]);
        let place = match self.order {
            Order::LastFreed | Order::ByAddress => self.free.pop(),
            Order::FirstFree | Order::LongestFirst => first().map(|at| self.free.swap_remove(at)),
        };
        place.unwrap_or_else(|| {
            self.list.push(None);
            self.list.len() - 1
        })
    }
}

/// In their order, but each behind all those that it covers: whenever the last that was in its way
/// has been listed, a route follows.
fn longest_first(routes: &[Route]) -> Vec<Route> {
    let covers = |outer: &Route, inner: &Route| {
        outer.length < inner.length && outer.prefix.contains(inner.prefix.address)
    };
    let mut before: Vec<usize> =
        routes.iter().map(|outer| routes.iter().filter(|inner| covers(outer, inner)).count()).collect();
    let mut listed: Vec<Route> = Vec::with_capacity(routes.len());
    let mut done = 0;
    for (first, start) in routes.iter().enumerate() {
        if before[first] != 0 || listed.contains(start) {
            continue;
        }
        listed.push(*start);
        while let Some(inner) = listed.get(done).copied() {
            done += 1;
            for (outer, before) in routes.iter().zip(&mut before) {
                if covers(outer, &inner) {
                    *before -= 1;
                    if *before == 0 {
                        listed.push(*outer);
                    }
                }
            }
        }
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::arguments::Names;
    use proptest::prelude::*;

    fn read<T: Argument>(text: &str) -> Result<T, String> {
        let mut names = Names::new();
        names.address_info("info", "gw 9.9.9.9").unwrap();
        names.address_info("info", "lan 10.1.2.3/16").unwrap();
        T::parse(text, &Scope::new(&names, "rt"))
    }

    fn route(text: &str) -> Route {
        read(text).unwrap()
    }

    #[test]
    fn routes_are_read_and_printed() {
        for (text, printed) in [
            ("18.26/16 1.0.0.1 0", "18.26.0.0/16 1.0.0.1 0"),
            ("18.26.4.9/12  3", "18.16.0.0/12 - 3"),
            ("1.2.3.4 - 5", "1.2.3.4/32 - 5"),
            ("lan:ipnet gw 0x10", "10.1.0.0/16 9.9.9.9 16"),
            ("0/0 gw 1", "0.0.0.0/0 9.9.9.9 1"),
        ] {
            assert_eq!(route(text).to_string(), printed);
        }
        for wrong in
            ["", "1.2.3.4", "1.2.3.4 gw", "x 1", "1.2.3.4 1 2", "1.2.3.4 gw 1 2", "1.0.0.0/255.0.255.0 1"]
        {
            assert_eq!(
                read::<Route>(wrong),
                Err("expected 'ADDR/MASK [GATEWAY] OUTPUT'".to_owned()),
                "{wrong}"
            );
        }
        assert_eq!(read::<Route>("1.2.3.4 -1"), Err("bad OUTPUT".to_owned()));
        assert_eq!(read::<Removal>("1.2.3.4 x").unwrap_err(), "expected 'ADDR/MASK [GATEWAY OUTPUT]'");
        assert_eq!(read::<Removal>("1.2.3.4 gw -2").unwrap_err(), "bad OUTPUT");
        assert_eq!(read::<Removal>("1.2.3/24").unwrap().to_string(), "1.2.3.0/24 - -1");
    }

    #[test]
    fn what_cannot_be_done_changes_nothing() {
        let mut table = RouteTable::new(Order::LastFreed);
        table.add(route("10/8 1.1.1.1 1")).unwrap();
        let conflict = table.add(route("10/8 2")).unwrap_err();
        assert_eq!(conflict.to_string(), "conflict with existing route '10.0.0.0/8 1.1.1.1 1'");
        for other in ["10/8 1.1.1.1 2", "10/8 - 1", "10.0/9", "11/8"] {
            let other: Removal = read(other).unwrap();
            let error = table.remove(other).unwrap_err();
            assert_eq!(error.to_string(), format!("route '{other}' not found"));
        }
        assert_eq!(table.lookup(Ipv4Addr::new(10, 0, 0, 1)), Some(route("10/8 1.1.1.1 1").hop));
        table.remove(read("10/8 1.1.1.1 -1").unwrap()).unwrap();
        assert_eq!(table.lookup(Ipv4Addr::new(10, 0, 0, 1)), None);
    }

    fn listed(order: Order) -> String {
        let mut table = RouteTable::new(order);
        for text in ["10/8 1", "9/8 2", "10.1/16 3", "8/8 4"] {
            table.add(route(text)).unwrap();
        }
        table.remove(read("9/8").unwrap()).unwrap();
        table.remove(read("8/8").unwrap()).unwrap();
        table.set(route("10/8 5")).unwrap();
        table.add(route("10.1.1/24 6")).unwrap();
        table.routes().iter().map(|route| route.hop.output.to_string()).collect()
    }

    #[test]
    fn tables_differ_in_their_order() {
        assert_eq!(listed(Order::FirstFree), "563");
        assert_eq!(listed(Order::LastFreed), "635");
        assert_eq!(listed(Order::LongestFirst), "635");
        assert_eq!(listed(Order::ByAddress), "536");
    }

    #[test]
    fn a_table_is_printed_in_columns() {
        let mut table = RouteTable::new(Order::FirstFree);
        for text in ["0/0 1.1.1.1 0", "100.200.100.0/24 100.100.100.100 1", "1.2.3.4 - 2"] {
            table.add(route(text)).unwrap();
        }
        let text = "0.0.0.0/0\t\t1.1.1.1\t\t0\n100.200.100.0/24\t100.100.100.100\t1\n1.2.3.4/32\t\t-\t\t2\n";
        assert_eq!(table.print(), text);
    }

    proptest! {
        #[test]
        fn the_table_answers_as_its_list_says(
            changes in prop::collection::vec((any::<bool>(), 0u32..4, 0u8..=32, 0u32..5), 1..100),
            order in prop::sample::select(vec![Order::FirstFree, Order::LastFreed, Order::LongestFirst, Order::ByAddress]),
        ) {
            let mut table = RouteTable::new(order);
            for (put, network, length, output) in changes {
                let prefix = Prefix4::new(Ipv4Addr::from(network * 0x4040_4040), length.into());
                let prefix = Prefix4 { address: prefix.network(), ..prefix };
                let hop = Hop { gateway: Ipv4Addr::from(output / 2), output };
                let route = Route { prefix, length, hop };
                if put {
                    table.set(route).unwrap();
                } else {
                    let _ = table.remove(Removal { output: None, ..route.into() });
                }
                let routes = table.routes();
                for address in (0..4).map(|network| Ipv4Addr::from(network * 0x4040_4040)) {
                    let covering = routes.iter().filter(|route| route.prefix.contains(address));
                    let longest = covering.max_by_key(|route| route.length).map(|route| route.hop);
                    prop_assert_eq!(table.lookup(address), longest);
                }
            }
        }

        #[test]
        fn any_text_is_a_route_or_refused(text in "[0-9./ a-z-]{0,30}") {
            let _ = (read::<Route>(&text), read::<Removal>(&text));
        }
    }
}
