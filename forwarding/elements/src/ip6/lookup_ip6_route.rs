//! LookupIP6Route: decides by the longest matching prefix where IPv6 packets go.
//!
//! Group: ip6
//! Usage: `LookupIP6Route(ADDR/LENGTH [GATEWAY] OUTPUT, ...)`
//! Ports: 1 input, any number of outputs; push
//!
//! Looks up the destination annotation. The packet leaves by the output of the route with the
//! longest prefix that covers it; if that route has a gateway, it becomes the destination
//! annotation. Packets without a route are dropped.
//!
//! - `ADDR/LENGTH` (IPv6 prefix or address), `GATEWAY` (IPv6 address; `::` or missing: none),
//!   `OUTPUT` (number): a route. Of several for the same prefix the last counts.
//!
//! Handlers:
//! - `add` (write `ADDR/LENGTH [GATEWAY] OUTPUT`): adds a route, or changes it
//! - `remove` (write `ADDR/LENGTH`): removes a route
//! - `ctrl` (write `add ...` or `remove ...`): one of these
//! - `table` (read): the routes, one a line: prefix, gateway, output
//!
//! ```click
//! ... -> GetIP6Address(24) -> rt :: LookupIP6Route(2001:db8:1::1 0, 2001:db8:1::/64 1, ::/0 2001:db8:1::fe 1);
//! ```
//!
//! See also: [GetIP6Address], [IP6NDSolicitor], [LookupIPRoute]

use std::net::Ipv6Addr;

use fib::Lpm6;
use graph::arguments::{AddressOrPrefix6, Argument, Arguments, Blame, Prefix6, Refused, Scope};
use graph::language::{first_word, split_words};
use graph::{BATCH, Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::Reason;

use super::{destination, set_destination};

pub const CLASS: Class = Class {
    name: "LookupIP6Route",
    ports: "1/-",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("lookup_ip6_route.rs"),
    make,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    /// Without bits behind its length.
    prefix: Prefix6,
    gateway: Option<Ipv6Addr>,
    output: u16,
}

impl Argument for Route {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Route, String> {
        let (prefix, gateway, output) = match *split_words(text).as_slice() {
            [prefix, output] => (prefix, None, output),
            [prefix, gateway, output] => (prefix, Some(Ipv6Addr::parse(gateway, scope)?), output),
            _ => return Err("expected 'ADDR/LENGTH [GATEWAY] OUTPUT'".to_owned()),
        };
        let AddressOrPrefix6(prefix) = AddressOrPrefix6::parse(prefix, scope)?;
        Ok(Route {
            prefix: Prefix6 { address: prefix.network(), ..prefix },
            gateway: gateway.filter(|gateway| !gateway.is_unspecified()),
            output: u16::parse(output, scope)?,
        })
    }
}

struct LookupIp6Route {
    outputs: usize,
    /// In the order that they are shown in; a place that became free is the next one's.
    routes: Vec<Option<Route>>,
    /// The place of each prefix's route, from 1.
    places: Lpm6,
}

fn make(args: &mut Arguments<'_>, setup: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let mut table = LookupIp6Route { outputs: setup.outputs, routes: Vec::new(), places: Lpm6::new() };
    let mut most = None;
    for (number, piece) in args.rest().iter().enumerate() {
        match Route::parse(&piece.text, &args.scope()) {
            Ok(route) => {
                most = most.max(Some(route.output));
                if let Err(message) = table.add(route) {
                    args.wrong(piece, message);
                }
            }
            Err(_) => {
                args.wrong(piece, format!("argument {} should be DADDR/MASK [GW] OUTPUT", number + 1));
            }
        }
    }
    match most {
        None => args.strange(Blame::Element, "no routes"),
        Some(most) if usize::from(most) >= setup.outputs => {
            let need = usize::from(most) + 1;
            args.wrong(Blame::Element, format!("need {need} or more output ports"));
        }
        Some(_) => {}
    }
    args.finish()?;
    Ok(Box::new(table))
}

impl LookupIp6Route {
    fn add(&mut self, route: Route) -> Result<(), String> {
        self.remove(route.prefix);
        let free = self.routes.iter().position(Option::is_none);
        let place = free.unwrap_or(self.routes.len());
        let number = u32::try_from(place + 1).ok().filter(|number| *number <= Lpm6::MAX_VALUE);
        let number = number.ok_or_else(|| "too many routes".to_owned())?;
        if free.is_none() {
            self.routes.push(None);
        }
        self.routes[place] = Some(route);
        self.places.insert(route.prefix.address.to_bits(), route.prefix.length, number);
        Ok(())
    }

    fn remove(&mut self, prefix: Prefix6) {
        if let Some(number) = self.places.remove(prefix.network().to_bits(), prefix.length)
            && let Some(route) = self.routes.get_mut(number as usize - 1)
        {
            *route = None;
        }
    }

    fn change(&mut self, command: &str, text: &str, cx: &Context<'_>) -> Result<(), HandlerError> {
        match command {
            "add" => {
                let route: Route = cx.argument(text)?;
                if usize::from(route.output) >= self.outputs {
                    return Err(HandlerError::refused("output port out of range"));
                }
                self.add(route).map_err(HandlerError::refused)
            }
            "remove" => {
                let AddressOrPrefix6(prefix) = cx.argument(text.trim())?;
                self.remove(prefix);
                Ok(())
            }
            _ => Err(HandlerError::refused("bad command, should be `add' or `remove'")),
        }
    }
}

impl Element for LookupIp6Route {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, _: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let (mut addresses, mut places) = ([0; BATCH], [0; BATCH]);
        let count = batch.len().min(BATCH);
        for (address, packet) in addresses.iter_mut().zip(batch.packets()) {
            *address = destination(packet).to_bits();
        }
        self.places.lookup_batch(&addresses[..count], &mut places[..count]);
        let (mut outputs, mut lost) = ([0; BATCH], 0u64);
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            match (places[index] as usize).checked_sub(1).and_then(|place| *self.routes.get(place)?) {
                Some(route) => {
                    outputs[index] = route.output;
                    if let Some(gateway) = route.gateway {
                        set_destination(packet, gateway);
                    }
                }
                None => lost |= 1 << index,
            }
        }
        if lost != 0 {
            let mut kept = 0;
            for index in 0..count {
                outputs[kept] = outputs[index];
                kept += usize::from(lost >> index & 1 == 0);
            }
            batch.take(lost, |_, packet| cx.drop(packet, Reason::NoRoute));
        }
        cx.emit_each(batch, &mut outputs);
    }

    fn handlers(&self) -> Vec<Handler> {
        let write = ["add", "remove", "ctrl"].map(Handler::write);
        write.into_iter().chain([Handler::read("table")]).collect()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        if handler != "table" {
            return Err(HandlerError::unknown(handler));
        }
        let line = |route: &Route| {
            let gateway = route.gateway.unwrap_or(Ipv6Addr::UNSPECIFIED);
            format!("{}\t{gateway}\t{}\n", route.prefix, route.output)
        };
        let head = if self.routes.is_empty() { "" } else { "# Active routes\n" };
        Ok(head.to_owned() + &self.routes.iter().flatten().map(line).collect::<String>())
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "ctrl" => {
                let (command, text) = first_word(value).unwrap_or_default();
                self.change(command, text, cx)
            }
            "add" | "remove" => self.change(handler, value, cx),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
