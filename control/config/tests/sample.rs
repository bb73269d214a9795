//! The documented sample is the documentation of the defaults: it must be right.

use config::{Cores, Machine, Router};

const SAMPLE: &str = include_str!("../../../docs/router.toml");

fn machine() -> Machine {
    Machine { cores: Cores(vec![0, 1, 2, 3]) }
}

#[test]
fn the_sample_as_it_is_says_the_defaults() {
    // Whoever installs it has yet to name ports, and is told so.
    let refused = Router::read("router.toml", SAMPLE, &machine()).unwrap_err().to_string();
    assert!(refused.contains("it names no port"), "{refused}");
    let text = format!("without_ports = \"on\"\n{SAMPLE}");
    let read = Router::read("router.toml", &text, &machine()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let read = Router { text: String::new(), raw: "".into(), ..read };
    assert_eq!(format!("{read:?}"), format!("{:?}", Router::default()));
}

/// What a line comments out: `# key = value` or `# [section]`; prose does not look like that.
fn setting(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("# ")?;
    let key = rest.split('=').next().unwrap_or_default().trim();
    let is_key = rest.contains('=') && key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    (rest.starts_with('[') || is_key).then_some(rest)
}

#[test]
fn everything_that_the_sample_comments_out_can_be_said() {
    let text: String = SAMPLE.lines().map(|line| format!("{}\n", setting(line).unwrap_or(line))).collect();
    // There are no such files here.
    let made = "certificate = \"router.pem\"        # default";
    assert!(text.contains(made) && text.contains("private_key = ") && text.contains("tokens = \"/etc"));
    let none = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/none");
    let text =
        text.replace("\"router.pem\"", &format!("{none:?}")).replace("\"router.key\"", &format!("{none:?}"));
    let text = text.replace("\"/etc/bifrost/tokens\"", &format!("{none:?}"));
    let text = text.replace("{ file = \"sharing.key\" }", &format!("{:?}", "5c".repeat(32)));
    let router =
        Router::read("router.toml", &text, &machine()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(router.ports.len(), 3);
    let memif = router.port("memif0").and_then(|port| port.memif.as_ref()).expect("a port in shared memory");
    assert_eq!(
        (memif.client, memif.id, &memif.secret, memif.ring, memif.buffer),
        (false, 0, &None, 1024, 2048)
    );
    assert!(router.port("ens3f1").is_some() && router.port("ens3f2").is_none());
    assert_eq!(router.workers.cores, Some(Cores(vec![1, 2, 3])));
    assert!(router.fpm.is_some() && router.metrics.is_some());
    assert_eq!((router.filter.sets.len(), router.nat.map(|nat| nat.rules.len())), (1, Some(2)));
    assert_eq!(router.flow, Some(flow::Settings::default()));
    let log = router.flow_log.expect("a flow log");
    assert!(log.files.is_some() && log.collectors.len() == 1);
    assert_eq!(router.control.group.as_deref(), Some("adm"));
    let bgp = router.routing.bgp.expect("BGP");
    assert_eq!((bgp.instances.len(), bgp.instances[0].neighbours.len()), (2, 2));
    assert!(router.routing.ospf.is_some() && !router.routing.lines.is_empty());
}

#[test]
fn the_example_of_a_border_router_is_sound() {
    const PAGE: &str = include_str!("../../../docs/interfaces.md");
    let (_, rest) = PAGE.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let router =
        Router::read("router.toml", example, &machine()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!((router.interfaces.len(), router.routes.len()), (7, 5));
}

#[test]
fn the_example_of_routing_daemons_is_sound() {
    const PAGE: &str = include_str!("../../../docs/routing.md");
    let (_, rest) = PAGE.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let example = example.replace("{ file = \"upstream.secret\" }", "\"geheim\"");
    let router =
        Router::read("router.toml", &example, &machine()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let bgp = router.routing.bgp.unwrap();
    assert_eq!(bgp.instances[0].neighbours.len(), 2);
    // What is secret is not shown, by whichever way.
    assert!(!router.text.contains("geheim") && !format!("{bgp:?}").contains("geheim"));
}

#[test]
fn the_example_of_services_is_sound() {
    const PAGE: &str = include_str!("../../../docs/services.md");
    let (_, rest) = PAGE.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let router =
        Router::read("router.toml", example, &machine()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let services = router.services;
    assert_eq!(services.dhcp.unwrap().subnets[0].reservations.len(), 1);
    assert_eq!((services.dns.unwrap().records.len(), services.ntp.unwrap().pools.len()), (2, 1));
}
