//! What `show` and `explain` are told.

mod world;

use mirror::show::RouteFilter;
use std::fmt::Write;
use world::{World, batch, ip, quiet};

#[test]
fn a_route_that_rejects_or_is_not_there_leads_nowhere() {
    let mut world = World::small(quiet());
    let prefix = "0.0.0.0/0".parse().unwrap();
    for (command, leads) in [
        ("route add unreachable default metric 100", false),
        ("route add default via 10.0.0.2 metric 10", true),
        // One of a table that nothing here uses.
        ("route add default via 10.0.1.2 table 77", true),
        ("route del default metric 10", false),
        ("route del unreachable default", false),
    ] {
        ip(command);
        world.settle();
        assert_eq!(world.mirror.leads(&prefix, None), leads, "{command}");
    }
    ip("route add default via 10.0.0.2 proto bgp");
    world.settle();
    assert!(world.mirror.leads(&prefix, Some("bgp")) && !world.mirror.leads(&prefix, Some("ospf")));
}

#[test]
fn a_route_is_shown_with_what_is_done_with_it() {
    let mut world = World::small(quiet());
    ip("route add 198.51.100.0/24 via 10.0.0.2 metric 10 proto bgp");
    ip("route add 198.51.100.0/24 via 10.0.1.2 metric 20 proto static");
    ip("neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev p0");
    world.settle();
    let lines = world.mirror.routes_for(&world.tables, None, "198.51.100.7/32".parse().unwrap());
    assert_eq!(lines.len(), 2);
    assert_eq!(
        (lines[0].origin.as_str(), lines[0].best, lines[0].programmed),
        ("bgp", true, Some("forward"))
    );
    assert_eq!((lines[1].origin.as_str(), lines[1].best, lines[1].programmed), ("static", false, None));
    let way = &lines[0].ways[0];
    assert_eq!((way.device.as_str(), way.neighbour, way.bound), ("p0", Some("permanent"), true));
    let explanation =
        world.mirror.explain(&world.tables, fib::TableId::MAIN, "10.0.0.2".parse().unwrap()).unwrap();
    assert_eq!(explanation.route.programmed, Some("resolve"));
    assert!(explanation.host.is_some_and(|host| host.usable && host.programmed));
    assert!(world.mirror.explain(&world.tables, fib::TableId::MAIN, "8.8.8.8".parse().unwrap()).is_none());
    let (neighbours, _) = world.mirror.neighbours_page(&world.tables, None, 1000);
    assert!(neighbours.iter().any(|line| line.address.to_string() == "10.0.0.2" && line.programmed));
}

#[test]
fn pages_show_every_route_once() {
    let mut world = World::small(quiet());
    let mut text = String::new();
    for n in 0..3000 {
        let proto = if n % 3 == 0 { "bgp" } else { "static" };
        let _ = writeln!(text, "route add 100.{}.{}.0/24 via 10.0.0.2 proto {proto}", n / 250, n % 250);
    }
    batch(&text);
    world.settle();
    let shown = |filter: RouteFilter| {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (page, next) = world.mirror.routes_page(&world.tables, &filter, after, 100);
            assert!(page.len() <= 101);
            all.extend(page.into_iter().map(|line| line.prefix));
            after = next;
            if after.is_none() {
                return all;
            }
        }
    };
    let bgp = shown(RouteFilter { origin: Some(186), ..RouteFilter::default() });
    assert_eq!(bgp.len(), 1000);
    let mut once = bgp.clone();
    once.dedup();
    assert_eq!(once, bgp);
    let within =
        shown(RouteFilter { within: Some("100.2.0.0/16".parse().unwrap()), ..RouteFilter::default() });
    assert_eq!(within.len(), 250);
    let ipv6 = shown(RouteFilter { ipv6: Some(true), local: true, ..RouteFilter::default() });
    assert!(!ipv6.is_empty() && ipv6.iter().all(|prefix| prefix.addr().is_ipv6()));
}
