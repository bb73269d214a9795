//! Services are told what changed, whole or not at all, and nobody's file is touched. The daemons'
//! own checks are the packages'; who starts them is a script that notes what it is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use config::{Cores, Machine, Router};
use services::{ServiceError, Step, go, plan, services, undo};

const PAGE: &str = include_str!("../../../docs/services.md");

/// `fail-UNIT` has it end as soon as it is started.
const MANAGER: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
case $1 in
  is-active) [ -e "run-$2" ] ;;
  restart) echo "restart $2" >> orders; [ -e "fail-$2" ] || touch "run-$2" ;;
  stop) echo "stop $2" >> orders; rm -f "run-$2" ;;
esac
"#;

struct Rig {
    root: tempfile::TempDir,
}

impl Rig {
    fn new() -> Rig {
        let rig = Rig { root: tempfile::tempdir().unwrap() };
        for folder in [
            "etc/kea",
            "etc/unbound/unbound.conf.d",
            "etc/chrony",
            "etc/rsyslog.d",
            "etc/lldpd.d",
            "var/lib/kea",
            "var/lib/bifrost",
            "etc/ssh/sshd_config.d",
        ] {
            fs::create_dir_all(rig.at(folder)).unwrap();
        }
        let include =
            format!("include-toplevel: \"{}/*.conf\"\n", rig.at("etc/unbound/unbound.conf.d").display());
        fs::write(rig.at("etc/unbound/unbound.conf"), include).unwrap();
        let include = format!("$IncludeConfig {}/*.conf\n", rig.at("etc/rsyslog.d").display());
        fs::write(rig.at("etc/rsyslog.conf"), include).unwrap();
        let include = format!("Include {}/*.conf\n", rig.at("etc/ssh/sshd_config.d").display());
        fs::write(rig.at("etc/ssh/sshd_config"), include).unwrap();
        fs::write(rig.manager(), MANAGER).unwrap();
        fs::set_permissions(rig.manager(), fs::Permissions::from_mode(0o755)).unwrap();
        rig
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn manager(&self) -> PathBuf {
        self.at("manager")
    }

    fn plan(&self, sections: &str) -> Result<Vec<Step>, ServiceError> {
        let text = format!("without_ports = \"on\"\n{sections}\n[service]\nroot = {:?}\n", self.root.path());
        let machine = Machine { cores: Cores(vec![0]) };
        let router = Router::read("router.toml", &text, &machine).unwrap_or_else(|wrong| panic!("{wrong}"));
        plan(&services(&router), Some(&self.manager()))
    }

    fn go(&self, sections: &str) -> Result<Vec<Step>, ServiceError> {
        let steps = self.plan(sections)?;
        go(&steps, Some(&self.manager()), false).map(|()| steps)
    }

    /// What the script was told since it was last asked.
    fn orders(&self) -> Vec<String> {
        let orders = fs::read_to_string(self.at("orders")).unwrap_or_default();
        let _ = fs::remove_file(self.at("orders"));
        orders.lines().map(str::to_owned).collect()
    }

    /// All files of the daemons.
    fn files(&self) -> Vec<(PathBuf, String)> {
        fn below(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => below(&path, found),
                    false => found.push((path.clone(), fs::read_to_string(&path).unwrap())),
                }
            }
        }
        let mut found = Vec::new();
        below(&self.at("etc"), &mut found);
        found.sort();
        found
    }
}

fn said(steps: &[Step]) -> Vec<String> {
    steps.iter().map(Step::to_string).collect()
}

/// The example of the page, at an interface that every machine has.
fn example() -> String {
    let (_, rest) = PAGE.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let (_, services) = example.split_once("[service").unwrap();
    format!("[service{services}").replace("\"lan0\"", "\"lo\"")
}

const NTP: &str = "[service.ntp]\nservers = [\"192.0.2.1\"]\nserve = [\"198.51.100.0/24\"]\n";

#[test]
fn only_what_changed_is_told_and_the_way_back_is_whole() {
    let rig = Rig::new();
    let bare = rig.files();
    let steps = rig.go(&example()).unwrap();
    assert_eq!(
        said(&steps),
        [
            "kea-dhcp4-server starts ([service.dhcp])",
            "unbound starts ([service.dns])",
            "chrony starts ([service.ntp])"
        ]
    );
    assert_eq!(rig.orders(), ["restart kea-dhcp4-server", "restart unbound", "restart chrony"]);
    let first = rig.files();
    assert!(rig.plan(&example()).unwrap().is_empty());

    let more = example()
        .replace("home.arpa\"\n\n[service.dhcp.subnet.lan.res", "lan\"\n\n[service.dhcp.subnet.lan.res");
    let steps = rig.go(&more).unwrap();
    assert_eq!(said(&steps), ["kea-dhcp4-server restarts ([service.dhcp]); leases stay"]);
    assert_eq!(rig.orders(), ["restart kea-dhcp4-server"]);
    assert_ne!(rig.files(), first);
    undo(&steps, Some(&rig.manager())).unwrap();
    assert_eq!(rig.files(), first);

    // Where unbound's own file is, it goes on without Bifrost's; the others have none.
    let steps = rig.go("").unwrap();
    assert_eq!(
        said(&steps),
        [
            "kea-dhcp4-server stops: there is no [service.dhcp]",
            "unbound restarts without [service.dns]; its cache is empty then",
            "chrony stops: there is no [service.ntp]"
        ]
    );
    assert_eq!(rig.files(), bare);
    undo(&steps, Some(&rig.manager())).unwrap();
    assert_eq!(rig.files(), first);
}

#[test]
fn what_is_refused_changes_nothing() {
    let rig = Rig::new();
    rig.go(NTP).unwrap();
    let (before, _) = (rig.files(), rig.orders());

    // A daemon's check: Kea knows no such option.
    let wrong = example().replace("domain = ", "options = { no-such-option = \"1\" }\ndomain = ");
    let refused = rig.go(&wrong).unwrap_err().to_string();
    assert!(
        refused.starts_with("[service.dhcp]: kea-dhcp4-server refuses it")
            && refused.contains("no-such-option")
    );
    // An interface that is not there.
    let refused = rig.go(&example().replace("\"lo\"", "\"nowhere\"")).unwrap_err().to_string();
    assert_eq!(refused, "[service.dhcp]: there is no interface nowhere");
    assert_eq!((rig.files(), rig.orders()), (before.clone(), vec![]));

    // A daemon that ends as soon as it is started, behind others that run.
    fs::write(rig.at("fail-unbound"), "").unwrap();
    let refused = rig.go(&example()).unwrap_err().to_string();
    assert_eq!(refused, "[service.dns]: unbound ends as soon as it is started: `journalctl -u unbound`");
    assert_eq!(rig.files(), before);
    let orders = ["restart kea-dhcp4-server", "restart unbound", "stop unbound", "stop kea-dhcp4-server"];
    assert_eq!(rig.orders(), orders);

    // A file of somebody's, and one that would not be read.
    let theirs = rig.at("etc/unbound/unbound.conf.d/bifrost.conf");
    fs::write(&theirs, "server:\n").unwrap();
    let refused = rig.go(&example()).unwrap_err().to_string();
    assert!(refused.contains("written by somebody else"), "{refused}");
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "server:\n");
    fs::remove_file(theirs).unwrap();
    fs::write(rig.at("etc/unbound/unbound.conf"), "# include unbound.conf.d\nserver:\n").unwrap();
    let refused = rig.go(&example()).unwrap_err().to_string();
    assert!(refused.contains("does not read"), "{refused}");
}

#[test]
fn who_was_killed_before_the_daemon_was_told_tells_it_later() {
    let rig = Rig::new();
    rig.go(NTP).unwrap();
    let file = rig.at("etc/chrony/chrony.conf");
    fs::write(file.with_extension("conf.bifrost-due"), "").unwrap();
    rig.orders();
    assert_eq!(said(&rig.go(NTP).unwrap()), ["chrony restarts ([service.ntp]); the clock goes on"]);
    assert_eq!(rig.orders(), ["restart chrony"]);
    assert!(rig.plan(NTP).unwrap().is_empty());
    // What somebody changed by hand in a file of Bifrost's is mended.
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("192.0.2.1", "192.0.2.2")).unwrap();
    rig.go(NTP).unwrap();
    assert!(fs::read_to_string(&file).unwrap().contains("server 192.0.2.1 iburst\nallow 198.51.100.0/24\n"));
}

#[test]
fn every_daemon_takes_every_key() {
    const EVERY: &str = include_str!("../../../fuzz/corpus/router_toml/every-key");
    let rig = Rig::new();
    let (_, every) = EVERY.split_once("[service.dhcp]").unwrap();
    let every = format!("[service.dhcp]{every}").replace("\"eth1\"", "\"lo\"").replace("\"eth2\"", "\"lo\"");
    let every = format!("{every}[control]\ngroup = \"bifrost-admin\"\n");
    assert_eq!(rig.go(&every).unwrap().len(), 8);
    let files: String = rig.files().into_iter().map(|(_, text)| text).collect();
    for told in [
        "\"id\": 3221225984",
        "\"boot-file-name\"",
        "\"2001:db8:1::1000 - 2001:db8:1::1fff\"",
        "\"sntp-servers\"",
        "\"duid\": \"00:03:00:01:02:00:00:00:00:08\"",
        "\"192.0.2.64 - 192.0.2.95\"",
        "forward-addr: 149.112.112.112@853#dns.quad9.net",
        "forward-addr: 9.9.9.9@853#dns.quad9.net",
        "local-data: \"printer.home.arpa. AAAA 2001:db8:1::9\"",
        "pool 2.debian.pool.ntp.org iburst nts",
        "local stratum 10",
        "configure system interface pattern lo\nconfigure system ip management pattern 192.0.2.1\n",
        "AuthorizedKeysFile .ssh/authorized_keys ",
        "Port 22\nListenAddress 192.0.2.1\nPasswordAuthentication no\n",
        "*.warning action(type=\"omfwd\" target=\"log.example.net\" port=\"514\" protocol=\"tcp\"",
    ] {
        assert!(files.contains(told), "{told}: {files}");
    }
}
