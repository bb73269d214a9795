//! What is rendered for the kernel is what nft takes. Needs root, for nft asks the kernel (in a
//! namespace of its own).

use std::io::Write;
use std::process::{Command, Stdio};

use crate::pools::{self, Random};
use rules::{Fallback, Filter};

/// Whether nft can be asked; says why not.
pub fn nft_is_there() -> bool {
    let there = Command::new("unshare").args(["-n", "nft", "list", "ruleset"]).output();
    let there = there.is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("skipped: needs root, unshare and nft");
    }
    there
}

/// Lets nft check a text twice over: once against nothing, once in the place of itself.
fn nft(text: &str) -> Result<(), String> {
    let run = "cat >/dev/shm/$$.nft; nft -f /dev/shm/$$.nft && nft -f /dev/shm/$$.nft; code=$?; rm /dev/shm/$$.nft; exit $code";
    let mut child = Command::new("unshare")
        .args(["-n", "sh", "-c", run])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    child.stdin.take().expect("piped").write_all(text.as_bytes()).map_err(|error| error.to_string())?;
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn read(text: &str) -> Filter {
    Filter::read("f", text, &mut |_| Err(std::io::ErrorKind::NotFound.into()))
        .unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"))
}

#[test]
fn every_random_filter() {
    if !nft_is_there() {
        return;
    }
    let mut random = Random(31);
    let ports = ["eth0".to_owned(), "wlan*".to_owned()];
    for round in 0..12 {
        // Without jumps and returns that it refuses.
        let errs = |line: &&str| line.contains("fragment") || line.contains("local");
        let turns = |line: &&str| line.contains("jump") || line.contains("return");
        let text = pools::filter(&mut random, 40);
        let text: Vec<&str> = text.lines().filter(|line| !errs(line) || !turns(line)).collect();
        let text = text.join("\n");
        let (filter, closed) = (read(&text), Some(Fallback::Closed));
        let plain = filter.nftables(&ports, closed, round % 2 == 0);
        let with_vrfs = filter.nftables_with_vrfs(&ports, closed, round % 2 == 0);
        for rendered in [plain, with_vrfs] {
            let rendered = rendered.expect("a choice is made");
            nft(&rendered).unwrap_or_else(|error| panic!("{error}\n{rendered}"));
        }
    }
}

#[test]
fn members_of_vrfs_are_asked_for_where_linux_shows_them() {
    let filter = read(
        "chain input\ndrop in eth0\nchain forward policy drop\ndrop in !eth0 out eth1\njump a in eth*\nchain a\n\
         accept log in eth0",
    );
    let ports = ["eth0".to_owned(), "eth1".to_owned()];
    let [plain, with_vrfs] = [Filter::nftables, Filter::nftables_with_vrfs]
        .map(|write| write(&filter, &ports, None, true).unwrap());
    assert!(!plain.contains("vrf") && !plain.contains("sdif"), "{plain}");
    // All that stands there without VRFs stands there with them.
    let own = |line: &&str| !line.contains("jump c_forward") && !line.contains("policy of");
    for line in plain.lines().filter(own) {
        assert!(with_vrfs.contains(line), "{line}\nis not in\n{with_vrfs}");
    }
    for lines in [
        "\tchain at_prerouting {\n\t\ttype filter hook prerouting priority -150; policy accept;\n\
         \t\tmeta iifkind \"vrf\" accept\n\t\tiifname { \"eth0\", \"eth1\" } jump c_input\n",
        "\t\tmeta iifkind != \"vrf\" iifname { \"eth0\", \"eth1\" } jump c_forward\n",
        "\t\tmeta iifkind \"vrf\" meta sdifname { \"eth0\", \"eth1\" } jump v_forward\n",
        "\t\tmeta iifkind \"vrf\" meta sdifname { \"eth0\", \"eth1\" } counter drop",
        "\t\tmeta iifkind \"vrf\" oifname { \"eth0\", \"eth1\" } jump v_output\n",
        "\t\tmeta oifkind \"vrf\" accept\n\t\toifname { \"eth0\", \"eth1\" } jump c_output\n",
        "\tchain v_forward {\n\t\tmeta sdifname != { \"eth0\" } oifname { \"eth1\" } counter drop",
        "\t\tmeta sdifname { \"eth*\" } counter jump v_a",
        "\tchain v_a {\n\t\tmeta sdifname { \"eth0\" } counter jump vr",
    ] {
        assert!(with_vrfs.contains(lines), "{lines}\nis not in\n{with_vrfs}");
    }
    assert!(!with_vrfs.contains("v_input"), "{with_vrfs}");
}

#[test]
fn what_it_cannot_express_is_refused_or_errs_the_chosen_way() {
    let rendered =
        |rule: &str, fallback| read(&format!("chain forward\n{rule}")).nftables(&[], fallback, true);
    let wrong = rendered(
        "drop fragment\naccept time 08:00-09:00 local\njump a fragment kernel open\nchain a\nreturn fragment first",
        None,
    );
    let wrong: Vec<String> =
        wrong.expect_err("nothing is chosen").iter().map(|wrong| wrong.to_string()).collect();
    assert_eq!(wrong.len(), 4);
    assert!(
        wrong[0].starts_with(
            "f:2: chain forward: drop fragment first,later\n  the kernel's filter cannot express fragments"
        ),
        "{}",
        wrong[0]
    );
    let has = |rule: &str, what: &str| rendered(rule, None).expect("a choice is made").contains(what);
    assert!(has("drop tcp fragment kernel closed", "meta l4proto { 6 } counter drop"));
    assert!(!has("drop tcp fragment kernel open", "meta l4proto { 6 } counter drop"));
    assert!(has("accept tcp fragment kernel open", "meta l4proto { 6 } counter accept"));
    assert!(!has("accept tcp time mon local kernel closed", "meta l4proto { 6 } counter accept"));
}

#[test]
fn chains_nested_too_deep_are_refused() {
    let chains: String = (0..20).map(|n| format!("chain c{n}\njump c{}\n", n + 1)).collect();
    let filter = read(&format!("chain input\njump c5\n{chains}chain c20\naccept\n"));
    let wrong = filter.nftables(&[], None, true).expect_err("16 jumps");
    assert_eq!(wrong[0].what, "jumps that are nested so deep");
    assert!(read("chain input\njump a\nchain a\naccept").nftables(&[], None, true).is_ok());
}

#[test]
fn an_address_alone_is_compared_without_a_set() {
    let rendered = |rule: &str| {
        read(&format!("chain forward\n{rule}")).nftables(&[], None, true).expect("it can be said")
    };
    let alone = rendered("drop from !192.0.2.1 to 10.0.0.0/30");
    assert!(alone.contains("ip saddr != 192.0.2.1 ip daddr 10.0.0.0-10.0.0.3 counter drop"), "{alone}");
    assert!(!alone.contains("\tset "), "{alone}");
    let six = rendered("accept from 2001:db8::1");
    assert!(six.contains("ip6 saddr 2001:db8::1 counter accept") && !six.contains("\tset "), "{six}");
    assert!(rendered("drop from 192.0.2.1,192.0.2.9").contains("elements = { 192.0.2.1, 192.0.2.9 }"));
}

#[test]
fn the_highest_rates_and_bursts_are_taken() {
    if !nft_is_there() {
        return;
    }
    for rate in
        ["10000Gbit", "10000Gbit burst 4000MB", "150Gbit", "1bit burst 4000MB", "1pps burst 4000000000"]
    {
        let text = read(&format!("chain forward\npolice {rate}\ndrop rate over {rate} per source"));
        let text = text.nftables(&[], None, true).expect("it can be said");
        nft(&text).unwrap_or_else(|error| panic!("{rate}: {error}\n{text}"));
    }
}

#[test]
fn ports_are_not_looked_for_in_the_data_of_later_fragments() {
    let guarded = |rules: &str| {
        let text =
            read(&format!("chain forward\n{rules}")).nftables(&[], None, true).expect("it can be said");
        text.contains("@th,0,24 >= 0")
    };
    for rule in ["drop tcp to any port 80", "drop tcp flags syn", "drop icmp type echo-request"] {
        assert!(guarded(rule), "{rule}");
        assert!(!guarded(&format!("accept state established\n{rule}")), "{rule}");
    }
    assert!(!guarded("drop udp from 192.0.2.1"));
}

#[test]
fn what_is_met_in_mid_stream_is_new_or_invalid() {
    let lines = |rule: &str, pickup: bool| {
        let filter = read(&format!("chain forward\n{rule}"));
        let text = filter.nftables(&[], None, pickup).expect("it can be said");
        let of_rule = |line: &&str| line.contains("counter") && !line.contains("policy");
        let lines = text.lines().filter(of_rule).map(|line| {
            line.trim()
                .split(" counter")
                .next()
                .unwrap_or_default()
                .replace("tcp flags & (fin | syn | rst | ack)", "flags")
        });
        lines.collect::<Vec<String>>()
    };
    for (rule, on, off) in [
        ("accept state established,related", "ct state established,related", "ct state established,related"),
        ("accept state new,invalid", "ct state new,invalid", "ct state new,invalid"),
        (
            "accept state new,established",
            "ct state new,established",
            "ct state established; ct state new meta l4proto != 6; ct state new flags == syn",
        ),
        ("accept tcp state new", "meta l4proto { 6 } ct state new", "ct state new flags == syn"),
        ("accept udp state new", "meta l4proto { 17 } ct state new", "meta l4proto { 17 } ct state new"),
        ("drop state invalid", "ct state invalid", "ct state invalid; ct state new flags != syn"),
        (
            "drop proto !tcp state invalid",
            "meta l4proto != { 6 } ct state invalid",
            "meta l4proto != { 6 } ct state invalid",
        ),
    ] {
        assert_eq!(lines(rule, true).join("; "), on);
        assert_eq!(lines(rule, false).join("; "), off);
    }
}

#[test]
fn a_rate_is_one_however_many_lines_a_rule_comes_to() {
    let filter = read(
        "chain forward\naccept state new rate below 5pps\nlog at most 3pps police 7pps to 192.0.2.0/24,2001:db8::/32 state invalid\n\
         drop to 192.0.2.0/24,2001:db8::/32 rate over 9pps",
    );
    let text = filter.nftables(&[], None, false).expect("it can be said");
    let count = |what: &str| text.matches(what).count();
    for (name, definition, lines) in [
        ("rate0", "limit rate0 {\n\t\trate 5/second burst", 2),
        // In one chain for each family.
        ("log1", "limit log1 {\n\t\trate 3/second burst", 2),
        ("police1", "limit police1 {\n\t\trate over 7/second burst", 2),
        ("rate2", "limit rate2 {\n\t\trate over 9/second burst", 2),
    ] {
        let found = (count(definition), count(&format!("limit name \"{name}\"")));
        assert_eq!(found, (1, lines), "{name}: {text}");
    }
    // Each of these two chains is led to from two lines: nothing in it stands twice.
    assert_eq!(
        (count("chain r1_4 {"), count("jump r1_4 "), count("chain r1_6 {"), count("jump r1_6 ")),
        (1, 2, 1, 2)
    );
    let spread = read("chain forward\naccept state new rate below 5pps per source");
    let text = spread.nftables(&[], None, false).expect("it can be said");
    assert_eq!((text.matches("set m0_4 {").count(), text.matches("update @m0_4 ").count()), (1, 2));
}
