//! Real zebra tells its routes over FPM.

mod world;

use fib::NextHop;
use mirror::{FpmOptions, Options};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use world::{World, ip, quiet};

/// FRR's zebra and staticd, ended with the test.
struct Frr {
    daemons: Vec<Child>,
    folder: PathBuf,
}

impl Frr {
    fn start() -> Frr {
        let folder = std::env::temp_dir().join(format!("mirror-frr-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("zebra.conf"), "fpm address 127.0.0.1\nfpm use-next-hop-groups\n")
            .unwrap();
        std::fs::write(folder.join("staticd.conf"), "").unwrap();
        let owned = Command::new("chown").args(["-R", "frr:frr"]).arg(&folder).status().unwrap();
        assert!(owned.success());
        let mut frr = Frr { daemons: Vec::new(), folder };
        frr.run("zebra", &["-M", "dplane_fpm_nl"]);
        frr.wait_for("zebra.vty");
        frr.run("staticd", &[]);
        frr.wait_for("staticd.vty");
        frr
    }

    fn run(&mut self, daemon: &str, arguments: &[&str]) {
        let at = |name: &str| self.folder.join(name).into_os_string();
        let child = Command::new(Path::new("/usr/lib/frr").join(daemon))
            .args(["-u", "frr", "-g", "frr", "--log", "stdout"])
            .args(arguments)
            .arg("-f")
            .arg(at(&format!("{daemon}.conf")))
            .arg("-i")
            .arg(at(&format!("{daemon}.pid")))
            .arg("-z")
            .arg(at("zserv.api"))
            .arg("--vty_socket")
            .arg(&self.folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.daemons.push(child);
    }

    fn wait_for(&self, file: &str) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.folder.join(file).exists() {
            assert!(Instant::now() < deadline, "FRR does not start: no {file}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn configure(&self, lines: &[&str]) {
        let mut command = Command::new("vtysh");
        command.arg("--vty_socket").arg(&self.folder).args(["-c", "configure terminal"]);
        lines.iter().for_each(|line| {
            command.args(["-c", line]);
        });
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    fn stop(&mut self) {
        for mut daemon in self.daemons.drain(..).rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn zebras_routes_are_in_force_until_it_has_been_away_too_long() {
    let mut fpm = FpmOptions::new("127.0.0.1:2620".parse().unwrap());
    fpm.quiet = Duration::from_millis(800);
    fpm.hold = Duration::from_secs(2);
    let mut world = World::small(Options { fpm: Some(fpm), ..quiet() });
    let mut frr = Frr::start();
    frr.configure(&[
        "ip route 198.51.100.0/24 10.0.0.2",
        "ip route 203.0.113.0/24 10.0.0.2",
        "ip route 203.0.113.0/24 10.0.1.2",
        "ip route 192.0.2.0/24 blackhole",
        "ipv6 route 2001:db8:f::/48 2001:db8:1::2",
    ]);
    let state = |world: &World| world.mirror.status().fpm.unwrap();
    world.until("zebra has told all", |world| state(world).in_force);
    world.until("the routes are there", |world| world.ways("203.0.113.1").len() == 2);
    world.settle();
    assert_eq!(world.ways("198.51.100.1"), [(0, None)]);
    assert_eq!(world.decision("192.0.2.1"), NextHop::Blackhole);
    assert_eq!(world.ways("2001:db8:f::1"), [(1, None)]);
    let status = world.mirror.status();
    assert_eq!(status.source, "netlink+fpm");
    assert_eq!(status.fpm_origins.iter().map(|count| (count.ipv4, count.ipv6)).collect::<Vec<_>>(), [(3, 1)]);
    assert_eq!(state(&world).malformed, 0);
    // Routes of others come from Linux all the time, and Linux's copy of zebra's does not count.
    ip("route add 198.18.0.0/15 via 10.0.1.7");
    ip("route del 192.0.2.0/24 proto 196 metric 20");
    world.settle();
    assert_eq!(world.ways("198.18.0.1"), [(1, None)]);
    // An update never leaves a gap.
    let change = std::thread::spawn({
        let folder = frr.folder.clone();
        move || {
            let line = |gateway: &str, no: &str| format!("{no}ip route 198.51.100.0/24 {gateway}");
            for (new, old) in [("10.0.1.2", "10.0.0.2"), ("10.0.0.2", "10.0.1.2")].repeat(5) {
                let mut command = Command::new("vtysh");
                command.arg("--vty_socket").arg(&folder).args(["-c", "configure terminal"]);
                command.args(["-c", &line(new, ""), "-c", &line(old, "no ")]).stdout(Stdio::null());
                assert!(command.status().unwrap().success());
            }
        }
    });
    let (mut seen, start) = ([false; 2], Instant::now());
    while !change.is_finished() || start.elapsed() < Duration::from_secs(1) {
        world.turn();
        let ways = world.ways("198.51.100.1");
        assert!(!ways.is_empty(), "a gap: {:?}", world.decision("198.51.100.1"));
        ways.iter().for_each(|(port, _)| seen[usize::from(*port)] = true);
    }
    change.join().unwrap();
    assert_eq!(seen, [true; 2]);
    // Zebra dies: its routes stay, then Linux's word counts again.
    frr.stop();
    world.until("zebra is away", |world| state(world).state == "away");
    assert_eq!(world.ways("203.0.113.1").len(), 2);
    world.until("the patience is over", |world| !state(world).in_force);
    world.settle();
    let status = world.mirror.status();
    assert!(status.fpm_origins.is_empty() && state(&world).next_hop_objects == 0, "{status:?}");
    world.assert_equal_to_linux();
}

#[test]
fn hostile_bytes_close_the_connection_and_nothing_else() {
    use std::io::{Read, Write};
    let mut world =
        World::small(Options { fpm: Some(FpmOptions::new("127.0.0.1:0".parse().unwrap())), ..quiet() });
    let address = world.mirror.fpm_address().unwrap();
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[1, 1, 0, 3], &[1, 1, 0xff, 0xff], &[1, 1, 0, 8, 1, 2, 3, 4]]
    {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(bytes).unwrap();
        let connections = world.mirror.status().fpm.unwrap().connections;
        world.until("the connection is taken", |world| {
            world.mirror.status().fpm.unwrap().connections > connections
        });
        world.settle();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        world.until("it is over", |world| world.mirror.status().fpm.unwrap().state == "away");
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    }
    assert_eq!(world.decision("10.0.0.1"), NextHop::Local);
}

#[test]
fn who_takes_over_has_the_address_when_it_is_free() {
    let mut world = World::small(quiet());
    // In the world's own network.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut fpm = FpmOptions::new(taken.local_addr().unwrap());
    fpm.patient = true;
    world.mirror = mirror::Mirror::new(Options { fpm: Some(fpm), ..quiet() }).unwrap();
    assert_eq!(world.mirror.fpm_address(), None);
    let address = taken.local_addr().unwrap();
    drop(taken);
    world.until("it listens", |world| world.mirror.fpm_address() == Some(address));
}

#[test]
fn who_tells_nothing_changes_nothing_and_who_may_not_is_refused() {
    use std::io::{Read, Write};
    use std::os::unix::process::CommandExt;
    let mut fpm = FpmOptions::new("127.0.0.1:0".parse().unwrap());
    fpm.quiet = Duration::from_millis(100);
    let mut world = World::small(Options { fpm: Some(fpm), ..quiet() });
    let address = world.mirror.fpm_address().unwrap();
    let state = |world: &World| world.mirror.status().fpm.unwrap();
    // A user of this machine.
    let port = address.port().to_string();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r -u 3; exit 0");
    let mut other = Command::new("bash").args(["-c", &connect]).uid(65_534).spawn().unwrap();
    world.until("it is turned away", |_| other.try_wait().unwrap().is_some());
    assert_eq!(state(&world).connections, 0);
    // One that may, and is idle.
    let mut idle = std::net::TcpStream::connect(address).unwrap();
    world.until("it is taken", |world| state(world).connections == 1);
    let until = Instant::now() + Duration::from_millis(500);
    world.until("it was quiet for long", |_| Instant::now() >= until);
    assert!(!state(&world).in_force);
    // Others wait, and it goes on: a message that is none of ours is one all the same.
    let mut second = std::net::TcpStream::connect(address).unwrap();
    idle.write_all(&[&[1, 1, 0, 20, 16, 0, 0, 0, 99][..], &[0; 11]].concat()).unwrap();
    world.until("its telling counts", |world| state(world).in_force);
    assert_eq!(state(&world).connections, 1);
    idle.shutdown(std::net::Shutdown::Both).unwrap();
    world.until("the next one is taken", |world| state(world).connections == 2);
    assert!(state(&world).in_force);
    second.set_nonblocking(true).unwrap();
    assert_eq!(second.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}
