//! Machines that were made up, whole ones and broken ones.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use port::device::{Channels, XdpFeatures};
use proptest::prelude::*;

use super::*;

/// A directory that goes when the test ends.
struct Root(PathBuf);

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A machine from its text: `@ PATH`, then what the file has.
fn machine(name: &str, text: &str) -> Root {
    let root = Root(std::env::temp_dir().join(format!("doctor-{name}-{}", std::process::id())));
    let _ = std::fs::remove_dir_all(&root.0);
    for file in text.split("@ ").skip(1) {
        let (path, content) = file.split_once('\n').unwrap();
        write(&root.0, path, content.as_bytes());
    }
    root
}

fn write(root: &Path, path: &str, content: &[u8]) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// A driver that says this of every interface.
struct Made {
    driver: &'static str,
    features: u64,
    queues: Option<(u32, u32)>,
    rss: u32,
    offloads: Offloads,
    rings: Rings,
    pause: Pause,
}

impl Devices for Made {
    fn driver(&self, _: &str) -> Result<String, String> {
        Ok(self.driver.to_owned())
    }

    fn channels(&self, _: &str) -> Result<Channels, String> {
        let (combined, max) = self.queues.ok_or("the driver does not tell")?;
        Ok(Channels { rx: 0, tx: 0, combined, max })
    }

    fn rss(&self, _: &str) -> Result<Vec<u32>, String> {
        Ok((0..128).map(|slot| slot % self.rss).collect())
    }

    fn offloads(&self, _: &str) -> Result<Offloads, String> {
        Ok(self.offloads)
    }

    fn rings(&self, _: &str) -> Result<Rings, String> {
        Ok(self.rings)
    }

    fn pause(&self, _: &str) -> Result<Pause, String> {
        Ok(self.pause)
    }

    fn xdp(&self, _: &str) -> Result<XdpFeatures, String> {
        Ok(XdpFeatures(self.features))
    }
}

fn ice() -> Made {
    Made {
        driver: "ice",
        features: 0xf,
        queues: Some((15, 32)),
        rss: 15,
        offloads: Offloads { gro: false, lro: false, rx_vlan: false },
        rings: Rings { rx: 2048, rx_max: 8160, tx: 2048, tx_max: 8160 },
        pause: Pause::default(),
    }
}

fn examined(name: &str, text: &str, devices: &dyn Devices) -> Examination {
    let root = machine(name, text);
    examine(&Place::new(&root.0), devices, &Options { quick: true, ..Options::default() })
}

/// Subjects of a level, as `port/subject` where there is a port.
fn of(examination: &Examination, level: Level) -> Vec<String> {
    let name = |finding: &Finding| match &finding.port {
        Some(port) => format!("{port}/{}", finding.subject),
        None => finding.subject.to_owned(),
    };
    examination.findings.iter().filter(|finding| finding.level == level).map(name).collect()
}

#[test]
fn a_good_server_is_well() {
    let examination = examined("server", include_str!("../machines/server.txt"), &ice());
    let bad: Vec<_> = examination.findings.iter().filter(|finding| finding.level != Level::Ok).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(examination.machine.contains(&("cores".to_owned(), "32 cores in 2 sockets".to_owned())));
    assert!(
        examination.machine.contains(&("caches".to_owned(), "L1 48 KiB, L2 1 MiB, L3 36 MiB".to_owned()))
    );
    let said = |subject| {
        examination.findings.iter().find(|finding| finding.subject == subject).unwrap().text.clone()
    };
    assert!(said("slot").contains("about 110 Gb/s"), "{}", said("slot"));
    assert_eq!(said("interrupts"), "15 queues on cores 1-15");
    let json: serde_json::Value = serde_json::to_value(&examination).unwrap();
    assert_eq!((&json["schema"], &json["findings"][0]["level"]), (&SCHEMA.into(), &"ok".into()));
}

#[test]
fn a_namespace_is_not_told_to_write_what_it_can_only_read() {
    let root = machine("namespace", "@ proc/sys/net/core/rmem_max\n212992\n");
    let path = root.0.join("proc/sys/net/core/rmem_max");
    let options = Options { quick: true, ..Options::default() };
    for (mode, wanted) in [(0o644, "sysctl -w"), (0o444, "in the machine's own namespace: sysctl -w")] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let examination = examine(&Place::new(&root.0), &ice(), &options);
        let finding = examination.findings.iter().find(|finding| finding.subject == "rmem_max").unwrap();
        let mend = finding.mend.as_deref().unwrap();
        assert!(mend.starts_with(wanted), "{mend}");
    }
}

#[test]
fn a_neglected_server_is_told_what_to_do() {
    let devices = Made {
        features: 1,
        queues: Some((4, 32)),
        rss: 2,
        offloads: Offloads { gro: true, lro: true, rx_vlan: true },
        rings: Rings { rx: 512, rx_max: 8160, tx: 512, tx_max: 8160 },
        pause: Pause { rx: true, tx: true },
        ..ice()
    };
    let examination = examined("neglected", include_str!("../machines/neglected.txt"), &devices);
    assert!(examination.has_problem());
    let problems = of(&examination, Level::Problem);
    for subject in [
        "release",
        "BPF",
        "AF_XDP",
        "clock",
        "nodes",
        "IPv4",
        "IPv6",
        "ARP table",
        "conntrack",
        "ens1f0np0/slot",
        "ens1f0np0/LRO",
        "ens1f1np1/link",
    ] {
        assert!(problems.contains(&subject.to_owned()), "{subject} is not among {problems:?}");
    }
    let advice = of(&examination, Level::Advice);
    for subject in [
        "threads",
        "frequency",
        "sleep",
        "isolation",
        "mitigations",
        "huge pages",
        "transparent huge pages",
        "BTF",
        "rp_filter",
        "ND table",
        "multipath",
        "rmem_max",
        "ens1f0np0/driver",
        "ens1f0np0/queues",
        "ens1f0np0/RSS",
        "ens1f0np0/interrupts",
        "ens1f0np0/rings",
        "ens1f0np0/flow control",
        "ens1f0np0/GRO",
        "ens1f0np0/losses",
        "ens1f1np1/losses",
        "ens1f1np1/interrupts",
        "nodes",
    ] {
        assert!(advice.contains(&subject.to_owned()), "{subject} is not among {advice:?}");
    }
    let mend = |subject| {
        examination.findings.iter().find(|finding| finding.subject == subject).unwrap().mend.clone().unwrap()
    };
    assert_eq!(mend("queues"), "ethtool -L ens1f0np0 combined 15");
    assert_eq!(mend("rings"), "ethtool -G ens1f0np0 rx 2048");
    assert_eq!(mend("clock"), "echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource");
    assert_eq!(mend("rp_filter"), "sysctl -w net.ipv4.conf.all.rp_filter=2");
}

/// Commands that were followed have mended what they say.
#[test]
fn a_reverse_path_is_as_strict_as_the_kernel_takes_it() {
    let judged = |all: u8, own: u8| {
        let names = [("all", all), ("default", 0), ("eth0", own), ("eth0.7", own), ("eth1", 2)];
        let file = |(name, mode)| format!("@ proc/sys/net/ipv4/conf/{name}/rp_filter\n{mode}\n");
        let examination = examined("reverse", &names.map(file).concat(), &ice());
        let finding = examination.findings.into_iter().find(|finding| finding.subject == "rp_filter");
        finding.unwrap().mend
    };
    assert_eq!([judged(0, 0), judged(2, 1), judged(2, 0), judged(0, 2)], [const { None }; 4]);
    assert_eq!(judged(1, 0).unwrap(), "sysctl -w net.ipv4.conf.all.rp_filter=2");
    let each = "sysctl -w net.ipv4.conf.eth0.rp_filter=2 net.ipv4.conf.eth0/7.rp_filter=2";
    assert_eq!(judged(0, 1).unwrap(), each);
}

/// What was set aside on a machine without it took the last of its memory.
#[test]
fn huge_pages_are_not_advised_where_they_would_take_most_of_what_is_free() {
    let advised = |available: u64, pages: u64, size: u64| {
        let text = format!(
            "@ proc/meminfo\nMemAvailable: {available} kB\nHugePages_Total: {pages}\nHugepagesize: {size} kB\n"
        );
        let examination = examined("pages", &text, &ice());
        let found = examination.findings.into_iter().find(|finding| finding.subject == "huge pages").unwrap();
        assert_eq!(found.level, Level::Advice);
        found.mend
    };
    assert_eq!((advised(700_000, 0, 2048), advised(2_000_000, 0, 1 << 20)), (None, None));
    assert_eq!(advised(2_100_000, 0, 2048).unwrap(), "sysctl -w vm.nr_hugepages=512");
    assert_eq!(advised(1_100_000, 256, 2048).unwrap(), "sysctl -w vm.nr_hugepages=512");
    assert_eq!(advised(2_100_000, 0, 1 << 20).unwrap(), "sysctl -w vm.nr_hugepages=1");
}

#[test]
fn names_stand_in_commands_as_one_word() {
    let text = "@ sys/class/net/a$(id)/operstate\ndown\n@ sys/class/net/dev/operstate\ndown\n";
    let root = machine("names", text);
    let ports = ["a$(id)", "dev", "a;b@c d"].map(str::to_owned).to_vec();
    let examination = examine(&Place::new(&root.0), &ice(), &Options { ports, quick: true });
    let named = |finding: &&Finding| ["link", "interface"].contains(&finding.subject);
    let mends = examination.findings.iter().filter(named).filter_map(|finding| finding.mend.as_deref());
    let mends: Vec<&str> = mends.collect();
    let other = "ip netns exec 'c d' bifrost doctor 'a;b'";
    assert_eq!(mends, ["ip link set dev 'a$(id)' up", "ip link set dev dev up", other]);
}

/// Of several queues of one core, by cards whose interrupts are their own and by virtio's.
#[test]
fn interrupts_are_spread_over_the_cores_that_are_there() {
    for folder in ["device/msi_irqs", "device/../msi_irqs"] {
        let mut text = "@ sys/devices/system/cpu/online\n0-1,4\n@ sys/class/net/eth0/device/x\n\n".to_owned();
        text += "@ proc/interrupts\n";
        for number in 30..35 {
            text += &format!(" {number}: 1 2 3 PCI-MSIX eth0-rx-{number}\n");
        }
        for number in 30..35 {
            text += &format!(
                "@ sys/class/net/eth0/{folder}/{number}\nmsix\n@ proc/irq/{number}/smp_affinity_list\n0\n"
            );
        }
        let examination = examined("interrupts", &text, &ice());
        let found = examination.findings.iter().find(|finding| finding.subject == "interrupts").unwrap();
        assert_eq!(found.text, "5 of 5 queues interrupt the same core");
        let each =
            "for i in 30:0 31:1 32:4 33:0 34:1; do echo ${i#*:} >/proc/irq/${i%:*}/smp_affinity_list; done";
        assert_eq!(found.mend.as_deref().unwrap(), format!("systemctl stop irqbalance; {each}"));
        // Where each has been told to go, though no interrupt has come since.
        for (number, core) in (30..35).zip([0, 1, 4, 0, 1]) {
            let file = |name| format!("proc/irq/{number}/{name}");
            text = text.replace(&format!("@ {}\n0\n", file("smp_affinity_list")), "");
            text += &format!("@ {}\n{core}\n", file("smp_affinity_list"));
            text += &format!("@ {}\n0\n", file("effective_affinity_list"));
        }
        let examination = examined("interrupts", &text, &ice());
        let found = examination.findings.iter().find(|finding| finding.subject == "interrupts").unwrap();
        assert_eq!((found.level, found.text.as_str()), (Level::Ok, "5 queues on cores 0-1,4"));
    }
}

/// Of a container, say: a network namespace, or files that are hidden.
#[test]
fn what_cannot_be_seen_is_not_taken_for_missing() {
    let level = |text: &str, subject: &str| {
        let devices = Made { queues: Some((0, 1)), ..ice() };
        let examination = examined("hidden", text, &devices);
        let mut findings = examination.findings.iter().filter(|finding| finding.subject == subject);
        findings.next().map(|finding| finding.level)
    };
    let bpf = "@ proc/sys/kernel/unprivileged_bpf_disabled\n2\n";
    let machine = "@ proc/sys/net/core/netdev_budget\n300\n";
    assert_eq!(level("", "BPF"), Some(Level::Unknown));
    assert_eq!(level(bpf, "BPF"), Some(Level::Unknown), "a namespace");
    assert_eq!(level(&format!("{bpf}{machine}"), "BPF"), Some(Level::Problem), "no compiler");
    assert_eq!(level(machine, "BPF"), Some(Level::Problem), "no programs at all");
    assert_eq!(level("", "interfaces"), Some(Level::Unknown));
    let tap = "@ sys/class/net/tap0/device/vendor\nx\n";
    assert_eq!((level(tap, "interfaces"), level(tap, "queues")), (None, Some(Level::Ok)));
}

#[test]
fn a_virtual_machine_is_judged_by_what_it_has() {
    let devices = Made { driver: "virtio_net", features: 7, queues: Some((1, 1)), rss: 1, ..ice() };
    let examination = examined("virtual", include_str!("../machines/virtual.txt"), &devices);
    assert_eq!(of(&examination, Level::Problem), Vec::<String>::new());
    assert_eq!(of(&examination, Level::Unknown), ["frequency"]);
    assert_eq!(of(&examination, Level::Advice), ["eth0/driver"]);
}

#[test]
fn this_machine_can_be_examined_by_anybody() {
    let options =
        Options { ports: vec!["lo".to_owned(), "../../etc".to_owned(), String::new()], quick: true };
    let examination = examine(&Place::new("/"), &Kernel, &options);
    assert!(examination.machine.iter().any(|(name, _)| name == "kernel"));
    assert_eq!(
        examination.findings.iter().filter(|finding| finding.text.contains("no such interface")).count(),
        2
    );
}

#[test]
fn a_machine_without_anything_is_unknown() {
    let root = machine("empty", "");
    let examination = examine(&Place::new(&root.0), &Kernel, &Options { quick: true, ..Options::default() });
    let unknown = of(&examination, Level::Unknown);
    assert!(unknown.len() > 5 && unknown.contains(&"BTF".to_owned()), "{examination:#?}");
    // Where nothing can be seen nothing is well.
    assert_eq!(of(&examination, Level::Ok), Vec::<String>::new());
}

#[test]
fn files_that_are_none_do_no_harm() {
    let root = machine("hostile", include_str!("../machines/server.txt"));
    // A directory for a file, a file for a directory, no end, no text.
    std::fs::remove_file(root.0.join("proc/meminfo")).unwrap();
    std::fs::create_dir(root.0.join("proc/meminfo")).unwrap();
    std::fs::remove_dir_all(root.0.join("sys/devices/system/cpu/cpu0/cpuidle")).unwrap();
    write(&root.0, "sys/devices/system/cpu/cpu0/cpuidle", b"\xff\xfe");
    std::os::unix::fs::symlink("/dev/zero", root.0.join("sys/class/net/lo/speed")).unwrap();
    let pipe = root.0.join("sys/class/net/lo/duplex");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let options = Options { ports: vec!["lo".to_owned()], quick: true };
    let examination = examine(&Place::new(&root.0), &ice(), &options);
    assert!(of(&examination, Level::Unknown).contains(&"huge pages".to_owned()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any file may have anything in it.
    #[test]
    fn garbage_does_no_harm(
        seed in 0..1000usize,
        garbage in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200).boxed(),
            "[-0-9, \n:a-zKM%.]{0,60}".prop_map(String::into_bytes).boxed(),
            prop_oneof![Just("18446744073709551615"), Just("-9223372036854775808"), Just("0-99999999"), Just("9223372036854775807")]
                .prop_map(|text| text.as_bytes().to_vec()).boxed(),
        ],
        numbers: [u32; 6],
    ) {
        // The server has hundreds of files, which take long to write.
        let text = match seed % 16 {
            0 => include_str!("../machines/server.txt"),
            _ => include_str!("../machines/virtual.txt"),
        };
        let root = machine("garbage", text);
        let paths: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("@ ")).collect();
        // Every seventh file, another seventh each time.
        for path in paths.iter().skip(seed % 7).step_by(7) {
            write(&root.0, path, &garbage);
        }
        let devices = Made {
            features: numbers[0].into(),
            queues: Some((numbers[1], numbers[2])),
            rss: numbers[3].max(1),
            rings: Rings { rx: numbers[4], rx_max: numbers[5], tx: 0, tx_max: 0 },
            ..ice()
        };
        let examination = examine(&Place::new(&root.0), &devices, &Options { quick: true, ..Options::default() });
        prop_assert!(examination.findings.len() > 10);
        prop_assert!(serde_json::to_string(&examination).is_ok());
    }
}
