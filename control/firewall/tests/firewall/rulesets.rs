//! Rulesets as routers have them, of the shapes that firewalld, OpenWrt's fw4 and administrators
//! write: each is adopted whole.

use nat::Action;

/// What a ruleset comes to: rules of the filter, and of translation by their actions.
fn whole(ruleset: &str) -> (usize, Vec<&'static str>, firewall::Adopted) {
    let adopted = super::adopted(ruleset);
    assert_eq!(adopted.problems, [], "{ruleset}");
    assert_eq!(adopted.families, [true; 2]);
    let nat = adopted.nat.clone().expect("translation");
    let actions = nat.rules.iter().map(|rule| rule.action.name()).collect();
    (adopted.filter.rules().count(), actions, adopted)
}

#[test]
fn a_router_at_home() {
    let (rules, actions, adopted) = whole(include_str!("../rulesets/home.nft"));
    assert_eq!((rules, &actions[..]), (6, &["destination", "destination", "masquerade"][..]));
    assert_eq!(adopted.nat.unwrap().clamps.len(), 1);
}

#[test]
fn firewalld() {
    let (rules, actions, adopted) = whole(include_str!("../rulesets/firewalld.nft"));
    assert!(rules > 15, "{rules}");
    assert_eq!(adopted.reverse, [None, Some(firewall::Reverse::Strict)]);
    // Of packets from the interface outside, and from those that no zone names.
    assert!(
        actions.contains(&"destination") && actions.ends_with(&["masquerade", "masquerade"]),
        "{actions:?}"
    );
    let nat = adopted.nat.unwrap();
    let inside = |rule: &&nat::Rule| rule.matches.output == ["lan0"] || rule.matches.input == ["lan0"];
    assert_eq!(nat.rules.iter().find(inside), None, "the zone inside is left alone");
}

#[test]
fn fw4() {
    let (_, actions, adopted) = whole(include_str!("../rulesets/fw4.nft"));
    assert_eq!(actions, ["destination", "destination", "source", "masquerade"]);
    let nat = adopted.nat.unwrap();
    assert_eq!(nat.clamps.len(), 2);
    let Action::Masquerade(dynamic) = &nat.rules[3].action else { panic!("{nat:?}") };
    assert_eq!(
        (dynamic.ports.clone(), &nat.rules[3].matches.output[..]),
        (1..=65535, &["pppoe-wan".to_owned()][..])
    );
}

#[test]
fn before_servers() {
    let (_, actions, adopted) = whole(include_str!("../rulesets/servers.nft"));
    assert_eq!(actions, ["destination", "destination", "destination", "none", "source", "source"]);
    let nat = adopted.nat.unwrap();
    let asked = &nat.rules[1].matches;
    assert_eq!((asked.destination.len(), &asked.destination_ports[..]), (1, &[443..=443][..]));
    assert_eq!(nat.rules[3].matches.destination.len(), 3, "{:?}", nat.rules[3]);
}
