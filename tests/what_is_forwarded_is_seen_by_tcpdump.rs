//! What Bifrost forwards passes no packet socket of Linux's, and yet is seen: by `bifrost tcpdump`,
//! by tshark as one of its own interfaces (extcap), and behind a mirror port. In either lane, in
//! both directions, with what the router sends itself; the packets keep to their lane, and when
//! nobody watches any more nothing is left of it. (The network of `network.rs`.)

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use lab::{Capture, Process, Signal, wait_for};

use crate::network::{LANES, Line, ports};

const LIMIT: Duration = Duration::from_secs(10);

/// Begins `bifrost tcpdump` on the router; each has a name of its own.
fn tcpdump(net: &Line, name: &str, options: &[&str]) -> Process {
    let mut command = net.router.command();
    command.arg("tcpdump").args(options);
    let tcpdump = net.router.host().spawn(name, command).unwrap();
    contains(&tcpdump, "listening on", 1);
    tcpdump
}

/// Waits until it has printed a text so many times, and then no more.
fn contains(process: &Process, text: &str, times: usize) {
    wait_for(text, LIMIT, || match process.output().matches(text).count() {
        found if found >= times => Ok(()),
        found => Err(format!("{found} times in:\n{}", process.output())),
    })
    .unwrap();
    assert_eq!(process.output().matches(text).count(), times, "{text}: {}", process.output());
}

fn ping(net: &Line, count: usize) {
    net.customer.run(&format!("ping -c {count} -i 0.05 -W 2 10.2.0.2")).unwrap();
}

/// The names of the XDP programs of both ports.
fn programs(net: &Line) -> Vec<String> {
    let name = |port| net.router.host().run(&format!("ip -d link show {port}")).unwrap();
    let name =
        |port| name(port).split_once("prog/xdp").unwrap().1.split_whitespace().nth(3).unwrap().to_owned();
    vec![name("left"), name("right")]
}

#[test]
fn in_both_lanes() {
    for lane in LANES {
        let net = Line::new("seen", lane);
        if !net.router.is_bifrost() {
            return;
        }
        let before = programs(&net);
        let mut all = tcpdump(&net, "seen-all", &["-lni", "any", "icmp and host 10.2.0.2"]);
        assert_ne!(programs(&net), before);
        let lanes = net.lanes();
        ping(&net, 5);
        for line in [
            "left  In  IP 10.1.0.2 > 10.2.0.2: ICMP echo request",
            "right Out IP 10.1.0.2 > 10.2.0.2: ICMP echo request",
            "right In  IP 10.2.0.2 > 10.1.0.2: ICMP echo reply",
            "left  Out IP 10.2.0.2 > 10.1.0.2: ICMP echo reply",
        ] {
            contains(&all, line, 5);
        }
        let (express, worker) = net.lanes();
        let carried = (express - lanes.0, worker - lanes.1);
        match lane {
            "express" => assert!(carried.0 >= 10 && carried.1 < 5, "{carried:?}"),
            _ => assert!(carried.0 == 0 && carried.1 >= 10, "{carried:?}"),
        }

        // One direction of one port; what the router sends itself; with link headers.
        let mut out =
            tcpdump(&net, "seen-out", &["-lnei", "right", "-Q", "out", "icmp[icmptype] == icmp-echo"]);
        net.router.host().run("ping -c 2 -i 0.05 -W 2 10.2.0.2").unwrap();
        ping(&net, 1);
        contains(&out, "10.2.0.1 > 10.2.0.2: ICMP echo request", 2);
        contains(&out, "10.1.0.2 > 10.2.0.2: ICMP echo request", 1);
        assert!(out.output().contains("ethertype IPv4 (0x0800)"), "{}", out.output());
        assert!(!out.output().contains("echo reply"), "{}", out.output());

        // A number of packets, into a file of tcpdump's.
        let file = net.router.host().folder().join("seen.pcap");
        let mut some = tcpdump(
            &net,
            "seen-some",
            &["-Z", "root", "-i", "left", "-c", "3", "-w", &file.display().to_string(), "icmp"],
        );
        ping(&net, 4);
        assert!(some.wait(LIMIT).unwrap().success(), "{}", some.output());
        let read = net.router.host().run(&format!("tshark -r {} 2>/dev/null", file.display())).unwrap();
        assert_eq!(read.lines().count(), 3, "{read}");

        // Their end, by Ctrl-C or not, is the end of it all.
        for process in [&mut all, &mut out] {
            process.signal(Signal::SIGINT);
            process.wait(LIMIT).unwrap();
        }
        // Those three, and the four that went into the file as well.
        contains(&out, "7 packets captured", 1);
        wait_for("the ports' own programs", LIMIT, || match programs(&net) {
            now if now == before => Ok(()),
            now => Err(format!("{now:?}")),
        })
        .unwrap();
        ping(&net, 3);
    }
}

#[test]
fn a_wrong_filter_or_port_is_refused() {
    let net = Line::new("seen-not", "express");
    if !net.router.is_bifrost() {
        return;
    }
    let fails = |words: &[&str]| {
        let mut command = net.router.command();
        let output = command.arg("tcpdump").args(words).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(fails(&["host", "and"]).contains("is no filter of tcpdump's"));
    assert!(fails(&["-i", "lo"]).contains("lo is no port of Bifrost's (there are: left right)"));
    assert!(fails(&["-r", "file"]).contains("use tcpdump itself"));
    assert_eq!(programs(&net).len(), 2);
}

#[test]
fn and_by_wireshark() {
    let net = Line::new("seen-tshark", "express");
    if !net.router.is_bifrost() {
        return;
    }
    // The folder of a user of Wireshark's; `make install` fills the system's.
    let home = net.router.host().folder().join("home");
    let folder = home.join(".config/wireshark/extcap");
    std::fs::create_dir_all(&folder).unwrap();
    let script = folder.join("bifrost");
    let program = net.router.command();
    let words: Vec<String> =
        program.get_args().skip(3).map(|word| word.to_string_lossy().into_owned()).collect();
    std::fs::write(&script, format!("#!/bin/sh\nexec {} extcap \"$@\"\n", words.join(" "))).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let tshark = |options: &str| format!("unset XDG_CONFIG_HOME; HOME={} tshark {options}", home.display());
    let listed = net.router.host().run(&tshark("-D 2>/dev/null")).unwrap();
    assert!(listed.contains("bifrost-left (Bifrost: left)") && listed.contains("bifrost-any"), "{listed}");

    let mut command = net.router.host().command("sh");
    let fields = "-T fields -e frame.interface_name -e frame.packet_flags_direction -e ip.src -e icmp.type";
    command.args(["-c", &tshark(&format!("-l -i bifrost-any -f 'icmp and host 10.2.0.2' -c 4 {fields}"))]);
    let mut tshark = net.router.host().spawn("tshark", command).unwrap();
    // It has read the beginning of the file, which is written when the programs are in place that
    // copy.
    wait_for("tshark to capture", LIMIT, || match tshark.output() {
        said if said.contains("Capture started") => Ok(()),
        said => Err(said),
    })
    .unwrap();
    ping(&net, 1);
    tshark.wait(LIMIT).unwrap();
    let said = tshark.output();
    for line in ["left\t0x00000001\t10.1.0.2\t8", "right\t0x00000002\t10.1.0.2\t8"] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
fn and_behind_a_mirror_port() {
    let config = |mirror: &str| ports("express", &["left", "right"]) + mirror;
    let mirror =
        |filter: &str| format!("[mirror]\nto = \"copies\"\nfilter = \"{filter}\"\ndirection = \"in\"\n");
    let net = Line::stopped("seen-mirror", &config(&mirror("icmp")));
    if !net.router.is_bifrost() {
        return;
    }
    let watcher = net.lab.host("watcher").unwrap();
    net.lab.link(watcher.end("eth0"), net.router.host().end("copies")).unwrap();
    let net = net.started();
    let mut capture = Capture::start(&watcher, "eth0", "icmp and host 10.2.0.2").unwrap();
    ping(&net, 5);
    capture.has_caught(10, LIMIT).unwrap();
    capture.stop().unwrap();
    let shown = net.router.show("mirror-port").unwrap();
    assert!(
        shown["sent"].as_u64().unwrap() >= 10 && shown["up"] == true && shown["to"] == "copies",
        "{shown}"
    );

    // A mirror port that is down loses copies, never packets.
    net.router.host().run("ip link set copies down").unwrap();
    ping(&net, 5);
    wait_for("lost copies", LIMIT, || match net.router.show("mirror-port").unwrap() {
        shown if shown["down"].as_u64().unwrap() >= 10 => Ok(()),
        shown => Err(shown.to_string()),
    })
    .unwrap();
    net.router.host().run("ip link set copies up").unwrap();

    // Another filter, a wrong one, and none, by reload.
    net.router.configure(&config(&mirror("udp"))).unwrap();
    net.router.ask("reload").unwrap();
    ping(&net, 3);
    let shown = net.router.show("mirror-port").unwrap();
    assert_eq!((&shown["sent"], &shown["filter"]), (&0.into(), &"udp".into()), "{shown}");
    net.router.configure(&config(&mirror("udpp"))).unwrap();
    let refused = net.router.ask("reload").unwrap_err().to_string();
    assert!(refused.contains("[mirror] filter: \"udpp\" is no filter of tcpdump's"), "{refused}");
    assert_eq!(net.router.show("mirror-port").unwrap()["filter"], "udp");
    net.router.configure(&config("")).unwrap();
    net.router.ask("reload").unwrap();
    assert!(net.router.show("mirror-port").unwrap().is_null());
}
