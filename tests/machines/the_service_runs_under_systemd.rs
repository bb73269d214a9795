//! A Debian machine that systemd runs is made a router by the package's files, and has the name,
//! the settings and the accounts that the file says. Who logs in by SSH may do what his role is. An
//! upgrade, a crash and a stop are systemd's to see. (A guest with two cards on a cable, the second
//! of which is that of a host `away`.)

use std::time::{Duration, Instant};

use lab::{Hardware, Machine, Nic, wait_for};

use crate::network::turn;

/// An emulated machine takes its time.
const LONG: Duration = Duration::from_secs(120);
const SOON: Duration = Duration::from_secs(60);

/// Programs of the driver take an emulated kernel many seconds to check.
const PATIENCE: &str = "
# Who is not root may log in when the machine is up.
systemctl start systemd-user-sessions
mkdir -p /etc/systemd/system/bifrost.service.d
printf '[Service]\nTimeoutStartSec=300\nWatchdogSec=120\n' >/etc/systemd/system/bifrost.service.d/slow.conf
";

const AWAY: &str = "
set -e
ip netns add away
ip link set nic1 netns away
ip -n away link set nic1 up
ip -n away address add 192.0.2.9/24 dev nic1
ip link set nic0 up
rm -f /root/key; ssh-keygen -q -t ed25519 -N '' -f /root/key -C ann@laptop
groupadd --system bifrost-admin
groupadd --system bifrost-operator
";

const FILE: &str = r#"
[[port]]
name = "nic0"
[interface.nic0]
addresses = ["192.0.2.1/24"]
[control]
group = "bifrost-admin"
operate_group = "bifrost-operator"
"#;

const SYSTEM: &str = r#"
[system]
hostname = "r1.example.net"
time_zone = "Europe/Stockholm"
name_servers = ["192.0.2.53", "2001:db8::53"]
search = ["example.net"]
banner = """
Only for Example Networks.
"""
[system.sysctl]
"net.ipv4.conf.nic0.rp_filter" = 2
"net.ipv4.tcp_rmem" = "4096 100000 6000000"
[system.user.ann]
role = "admin"
keys = ["KEY"]
[system.user.night]
role = "operator"
password = "HASH"
keys = ["KEY"]
shell = "bash"
[system.ssh]
listen = ["192.0.2.1"]
passwords = false
root = "no"
[service.ntp]
local_stratum = 7
[service.lldp]
interfaces = ["nic0"]
management = ["192.0.2.1"]
interval = 1
"#;

struct Guest {
    machine: Machine,
}

impl Guest {
    fn boot() -> Guest {
        let cards = [0, 0].map(|cable| Nic::virtio(1).cable(cable));
        let hardware = cards.into_iter().fold(Hardware::new("6.12").systemd(), Hardware::nic);
        let guest = Guest { machine: hardware.boot().unwrap() };
        guest.run(PATIENCE);
        guest.run(AWAY);
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let program = std::env::current_exe().unwrap();
        let program = program.parent().and_then(|deps| deps.parent()).unwrap().join("bifrost");
        guest.run(&format!("cd {root} && lab/install.sh '' /usr/local {}", program.display()));
        guest
    }

    fn run(&self, script: &str) -> String {
        self.try_to(script).unwrap_or_else(|wrong| panic!("{wrong}\n{}", self.log()))
    }

    /// Runs a script that may fail; once more while an emulated router is too busy to answer.
    fn try_to(&self, script: &str) -> Result<String, String> {
        let began = Instant::now();
        loop {
            match self.machine.run(script, LONG) {
                Ok(said) => return Ok(said),
                Err(wrong) if began.elapsed() < LONG && wrong.to_string().contains("too busy to answer") => {}
                Err(wrong) => return Err(wrong.to_string()),
            }
        }
    }

    fn log(&self) -> String {
        let log = "journalctl --no-pager -n 60 -u bifrost -u bifrost-system -u ssh";
        self.machine.run(log, LONG).unwrap_or_else(|wrong| wrong.to_string())
    }

    fn write(&self, system: &str) {
        self.run(&format!("cat >/etc/bifrost/router.toml <<'END'\n{FILE}{system}\nEND"));
    }

    /// A commit; afterwards there is nothing left to do.
    fn commit(&self, system: &str) -> Result<String, String> {
        self.write(system);
        let said = self.try_to("bifrost commit 2>&1")?;
        let left = self.run("bifrost commit --check");
        assert!(left.contains("nothing changes"), "{left}");
        Ok(said)
    }

    /// What somebody is told who logs in and says a line.
    fn ssh(&self, name: &str, line: &str) -> String {
        self.run(&format!("ip netns exec away ssh {OPTIONS} {name}@192.0.2.1 '{line}' 2>&1 || true"))
    }

    /// All that settings are to change, and nothing else is.
    fn state(&self) -> String {
        self.run(
            "(hostname; cat /etc/hosts /etc/hostname /etc/issue /etc/issue.net /etc/resolv.conf; \
             readlink /etc/localtime; sysctl net.ipv4.tcp_rmem net.ipv4.conf.nic0.rp_filter; \
             ls /etc/ssh /etc/ssh/sshd_config.d; cut -d: -f1,7 /etc/passwd) 2>&1",
        )
    }

    fn pid(&self) -> String {
        self.run("systemctl show --property MainPID --value bifrost").trim().to_owned()
    }
}

const OPTIONS: &str =
    "-i /root/key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null";

#[test]
fn on_6_12() {
    let _turn = turn();
    let guest = Guest::boot();
    guest.write("");
    guest.run("systemctl start bifrost");
    let before = guest.state();

    // A commit tells what it will do, and does it, by units that systemd starts.
    let key = guest.run("cat /root/key.pub");
    let hash = guest.run("openssl passwd -6 words");
    let system = SYSTEM.replace("KEY", key.trim()).replace("HASH", hash.trim());
    guest.write(&system);
    let told = guest.run("bifrost commit --check");
    for step in ["bifrost-system starts ([system])", "([system.ssh])", "([service.ntp])", "([service.lldp])"]
    {
        assert!(told.contains(step), "{told}");
    }
    guest.commit(&system).unwrap_or_else(|wrong| panic!("{wrong}\n{}", guest.log()));
    guest.run("systemctl is-active bifrost-system ssh chrony lldpd");
    let state = guest.state();
    for text in [
        "r1.example.net\n",
        "127.0.1.1\tr1.example.net r1\n",
        "Only for Example Networks.\n",
        "search example.net\nnameserver 192.0.2.53\nnameserver 2001:db8::53\n",
        "/usr/share/zoneinfo/Europe/Stockholm\n",
        "net.ipv4.tcp_rmem = 4096\t100000\t6000000\n",
        "net.ipv4.conf.nic0.rp_filter = 2\n",
        "night:/bin/bash\n",
    ] {
        assert!(state.contains(text), "{text}: {state}");
    }

    // An admin has the router's command line; an operator may do less, and neither is root.
    let version = guest.run("bifrost --version");
    wait_for("SSH", SOON, || match guest.ssh("ann", "show version") {
        said if said.contains("Only for Example")
            && said.contains(version.trim().trim_start_matches("bifrost ")) =>
        {
            Ok(())
        }
        said => Err(format!("{said}\n{}", guest.log())),
    })
    .unwrap();
    let said = guest.ssh("ann", "reload");
    assert!(!said.contains("you may"), "{said}");
    let said =
        guest.ssh("night", "id -u; /usr/local/sbin/bifrost show ports; /usr/local/sbin/bifrost reload");
    assert!(said.contains("nic0") && said.contains("you may not change the configuration here"), "{said}");
    assert!(!said.lines().any(|line| line == "0"), "{said}");
    assert!(guest.ssh("root", "true").contains("Permission denied"));
    assert!(guest.run("grep ^night: /etc/shadow").contains(hash.trim()));
    assert!(!guest.run("bifrost show config").contains(hash.trim()));

    // A neighbour hears of it, and it of the neighbour.
    guest.run("ip netns exec away lldpd -d -u /run/away.lldp -O /dev/null -I nic1 >/dev/null 2>&1 & true");
    for (socket, words) in [("/run/away.lldp", "192.0.2.1"), ("/run/lldpd.socket", "nic1")] {
        wait_for(words, SOON, || match guest.try_to(&format!("lldpcli -u {socket} show neighbors")) {
            Ok(said) if said.contains(words) => Ok(()),
            said => Err(format!("{said:?}")),
        })
        .unwrap();
    }

    // What this machine cannot have is refused before anything is done; what the kernel refuses
    // takes back what was done before it.
    for (from, to, why) in [
        ("Europe/Stockholm", "Europe/Atlantis", "there is no time zone Europe/Atlantis here"),
        ("net.ipv4.tcp_rmem", "net.ipv4.tcp_rmen", "net.ipv4.tcp_rmen cannot be set: the kernel has no such"),
        ("system.user.ann", "system.user.daemon", "there is a user \"daemon\" already"),
        ("4096 100000 6000000", "many", "net.ipv4.tcp_rmem cannot be set: "),
    ] {
        let said = guest.commit(&system.replace(from, to).replace("r1.", "r2.")).unwrap_err();
        assert!(said.contains(why), "{said}");
        assert_eq!(guest.state(), state, "{why}");
    }
    guest.commit(&system).unwrap();

    // Somebody who is gone is logged out, and his home stays. The others are as they were.
    guest.run(&format!(
        "ip netns exec away ssh {OPTIONS} night@192.0.2.1 'touch begun; sleep 1000' >/dev/null 2>&1 & echo $! >/run/session"
    ));
    wait_for("a session", SOON, || match guest.run("ls /home/night") {
        said if said.contains("begun") => Ok(()),
        said => Err(said),
    })
    .unwrap();
    let other =
        system.replace("[system.user.night]\nrole = \"operator\"", "[system.user.day]\nrole = \"admin\"");
    guest.commit(&other).unwrap();
    guest.run(
        "for turn in $(seq 100); do [ -e /proc/$(cat /run/session) ] || exit 0; sleep 0.2; done; exit 1",
    );
    assert!(guest.ssh("night", "true").contains("Permission denied"));
    assert!(guest.ssh("day", "echo good").contains("good"));
    guest.run("ls -d /home/night");

    // An upgrade is one to systemd as well, and the process that took over may do the same.
    let pid = guest.pid();
    guest.run("bifrost upgrade");
    assert_ne!(guest.pid(), pid);
    guest.run("systemctl is-active bifrost");
    guest.commit(&system).unwrap();
    guest.run("systemctl reload bifrost");

    // One that is killed comes back, and touches nothing that is as the file says.
    let (state, pid) = (guest.state(), guest.pid());
    guest.run("systemctl kill --signal KILL bifrost");
    wait_for("the router again", LONG, || match guest.try_to("bifrost show ports") {
        Ok(_) if guest.pid() != pid => Ok(()),
        said => Err(format!("{said:?}")),
    })
    .unwrap();
    assert_eq!(guest.state(), state);

    // Whatever somebody changed meanwhile, what was before comes back.
    guest.run("sed -i s/Only/None/ /etc/issue.net");
    guest.commit("").unwrap();
    assert_eq!(guest.state(), before);
    guest.run("systemctl stop bifrost && ! systemctl is-active bifrost");
    guest.run("ping -c 1 -W 5 192.0.2.9");
}
