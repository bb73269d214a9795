//! The control socket: several clients at once, and none that can hurt another.

mod rig;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use bifrost::control::status::*;
use bifrost::control::*;
use rig::{Fake, Rig, access, directory, eventually};

fn raw(rig: &Rig) -> (BufReader<UnixStream>, UnixStream) {
    let stream = UnixStream::connect(rig.socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    (BufReader::new(stream.try_clone().unwrap()), stream)
}

fn read_line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line
}

#[test]
fn a_request_is_a_line_and_so_is_its_reply() {
    let rig = Rig::start("line", Fake { routes: 3, ..Fake::default() });
    let (mut reader, mut writer) = raw(&rig);
    writer.write_all(b"{\"ask\":\"version\"}\n").unwrap();
    assert_eq!(
        read_line(&mut reader),
        "{\"ok\":{\"version\":\"0.1.0\",\"pid\":4711,\"uptime_seconds\":187,\
         \"configuration\":\"/etc/bifrost/router.toml\"}}\n"
    );
    writer.write_all(b"{\"ask\":\"routes\",\"within\":\"10.0.0.0/31\"}\n").unwrap();
    assert!(read_line(&mut reader).starts_with("{\"item\":{\"prefix\":\"10.0.0.0/32\",\"origin\":\"bgp\""));
    assert!(read_line(&mut reader).starts_with("{\"item\":{\"prefix\":\"10.0.0.1/32\""));
    assert_eq!(read_line(&mut reader), "{\"end\":{\"items\":2,\"missed\":0}}\n");
}

#[test]
fn what_is_no_request_gets_an_error_and_another_chance() {
    let rig = Rig::start("nonsense", Fake::default());
    let (mut reader, mut writer) = raw(&rig);
    for nonsense in
        ["hello\n", "{\"ask\":\"nothing\"}\n", "{}\n", "{\"ask\":\"routes\",\"within\":\"x\"}\n", "\u{0}\n"]
    {
        writer.write_all(nonsense.as_bytes()).unwrap();
        assert!(read_line(&mut reader).starts_with("{\"error\":\"not a request: "), "{nonsense}");
    }
    writer.write_all(b"{\"ask\":\"workers\"}\n").unwrap();
    assert!(read_line(&mut reader).starts_with("{\"ok\":["));
}

#[test]
fn an_endless_request_is_cut_off() {
    let rig = Rig::start("endless", Fake::default());
    let (mut reader, mut writer) = raw(&rig);
    let _ = writer.write_all(&vec![b'x'; LONGEST_REQUEST + 100_000]);
    assert_eq!(read_line(&mut reader), "{\"error\":\"a request has at most 16777216 bytes\"}\n");
    let _ = reader.read_to_end(&mut Vec::new());
    assert_eq!(rig.client().subject::<Version>("version").unwrap().pid, 4711);
}

#[test]
fn random_bytes_do_no_harm() {
    let rig = Rig::start("random", Fake::default());
    let mut random = chance::Random(5);
    for _ in 0..50 {
        let (_, mut writer) = raw(&rig);
        let bytes: Vec<u8> =
            (0..2_000).map(|_| if random.one_in(16) { b'\n' } else { random.next() as u8 }).collect();
        let _ = writer.write_all(&bytes);
    }
    assert_eq!(rig.client().subject::<Version>("version").unwrap().pid, 4711);
}

#[test]
fn fifty_clients_are_answered_while_one_is_stuck() {
    let rig = Rig::start("fifty", Fake { routes: 500_000, ..Fake::default() });
    // It asks for half a million routes and reads none of them.
    let (_, mut stuck) = raw(&rig);
    stuck.write_all(b"{\"ask\":\"routes\"}\n").unwrap();
    eventually("the stuck client is being served", || rig.fake.pages.load(Relaxed) > 0);

    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                let mut client = rig.client();
                for _ in 0..20 {
                    assert_eq!(client.subject::<Vec<PortStatus>>("ports").unwrap().len(), 2);
                    assert_eq!(client.subject::<Version>("version").unwrap().pid, 4711);
                }
            });
        }
    });
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let pages = rig.fake.pages.load(Relaxed);
    assert!(pages < 20, "the stuck client's answer is not piled up: {pages} pages");
}

#[test]
fn a_stuck_client_is_thrown_out() {
    let rig = Rig::start("stuck", Fake { routes: 100_000, ..Fake::default() });
    let (mut reader, mut stuck) = raw(&rig);
    stuck.write_all(b"{\"ask\":\"routes\"}\n").unwrap();
    // Longer than the daemon waits for it.
    thread::sleep(Duration::from_secs(9));
    let mut rest = String::new();
    let _ = reader.read_to_string(&mut rest);
    assert!(!rest.contains("\"end\""), "it was served to the end");
}

#[test]
fn at_the_limit_the_longest_idle_makes_room() {
    let rig = Rig::start("limit", Fake::default());
    let mut idle: Vec<_> = (0..MAX_CLIENTS).map(|_| raw(&rig)).collect();
    // All are in when those behind the first have been answered. It asks nothing, so it is idle
    // from the moment on in which it came: who was answered is so from a moment later on, which
    // cannot be seen from here.
    for (reader, writer) in &mut idle[1..] {
        writer.write_all(b"{\"ask\":\"version\"}\n").unwrap();
        read_line(reader);
    }
    assert_eq!(rig.client().subject::<Version>("version").unwrap().pid, 4711);
    let (reader, _) = &mut idle[0];
    assert_eq!(reader.read(&mut [0]).unwrap(), 0, "the first has been idle for longest");
    let (reader, writer) = &mut idle[MAX_CLIENTS - 1];
    writer.write_all(b"{\"ask\":\"version\"}\n").unwrap();
    assert!(read_line(reader).starts_with("{\"ok\""));
}

#[test]
fn when_all_are_busy_another_is_told_so() {
    let rig = Rig::start("busy", Fake::default());
    let mut busy: Vec<_> = (0..MAX_CLIENTS).map(|_| raw(&rig)).collect();
    for (reader, writer) in &mut busy {
        writer.write_all(b"{\"ask\":\"watch\",\"interval_ms\":60000}\n").unwrap();
        read_line(reader);
    }
    let error = rig.client().subject::<Version>("version").unwrap_err();
    assert_eq!(error.to_string(), format!("busy: {MAX_CLIENTS} clients are being answered; try again"));
}

#[test]
fn a_million_routes_are_streamed_in_pages() {
    let rig = Rig::start("million", Fake { routes: 1_000_000, ..Fake::default() });
    let before = memory();
    let mut client = rig.client();
    let mut stream = client.stream::<RouteEntry>(&Request::Routes(RouteQuery::default()), None).unwrap();
    let mut last = None;
    let mut count = 0u64;
    for entry in stream.by_ref() {
        let prefix = entry.unwrap().prefix;
        assert!(last < Some(prefix));
        last = Some(prefix);
        count += 1;
    }
    assert_eq!((count, stream.end()), (1_000_000, Some(End { items: 1_000_000, missed: 0 })));
    assert!(memory() < before + 64 * 1024, "memory grew from {before} to {} kB", memory());
}

/// Resident memory of this process, kB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn routes_are_chosen_by_the_server() {
    let rig = Rig::start("query", Fake { routes: 100_000, ..Fake::default() });
    let mut client = rig.client();
    let mut ask = |query: RouteQuery| -> Vec<String> {
        let stream = client.stream::<RouteEntry>(&Request::Routes(query), None).unwrap();
        stream.map(|entry| entry.unwrap().prefix.to_string()).collect()
    };
    assert_eq!(ask(RouteQuery { limit: Some(5_000), ..RouteQuery::default() }).len(), 5_000);
    assert_eq!(ask(RouteQuery { within: "10.0.1.0/24".parse().ok(), ..RouteQuery::default() }).len(), 256);
    assert_eq!(
        ask(RouteQuery { address: "10.0.0.7".parse().ok(), ..RouteQuery::default() }),
        ["10.0.0.7/32"]
    );
}

#[test]
fn a_trace_ends_after_its_packets_and_its_observer_goes() {
    let rig = Rig::start("trace", Fake::default());
    let mut client = rig.client();
    let request = Request::Trace(TraceRequest { filter: Filter::default(), count: 3, seconds: 10 });
    let steps: Vec<TraceStep> = client.live(&request, None).unwrap().map(Result::unwrap).collect();
    assert_eq!(steps.len(), 6);
    assert_eq!(steps[5].fate.as_deref(), Some("sent by eth1"));
    eventually("the observer is told to go", || rig.fake.closed.load(Relaxed) == 1);
    // The connection is as good as new.
    assert_eq!(client.subject::<Version>("version").unwrap().pid, 4711);
}

#[test]
fn a_client_that_leaves_ends_its_capture() {
    let rig = Rig::start("leave", Fake::default());
    let (mut reader, mut writer) = raw(&rig);
    writer
        .write_all(
            b"{\"ask\":\"capture\",\"filter\":{},\"at\":null,\"count\":null,\"seconds\":null,\"snap\":96}\n",
        )
        .unwrap();
    assert_eq!(read_line(&mut reader), "{\"begun\":null}\n");
    assert!(read_line(&mut reader).starts_with("{\"item\":{\"time_ns\":"));
    drop((reader, writer));
    eventually("the observer is told to go", || rig.fake.closed.load(Relaxed) == 1);
}

#[test]
fn a_capture_is_stopped_by_its_client_and_says_how_it_ended() {
    let rig = Rig::start("stop", Fake { flood: 2_000_000, ..Fake::default() });
    let mut client = rig.client();
    let stopper = client.stopper().unwrap();
    let request = Request::Capture(CaptureRequest { snap: 96, ..CaptureRequest::default() });
    let mut stream = client.live::<CapturedPacket>(&request, None).unwrap();
    assert!(stream.next().unwrap().is_ok());
    // Nobody reads now: the feed overflows, and says so.
    thread::sleep(Duration::from_millis(300));
    stopper.stop();
    let rest = stream.by_ref().filter(|packet| packet.is_ok()).count() as u64;
    let end = stream.end().unwrap();
    assert_eq!(end.items, rest + 1);
    assert!(end.missed > 0, "{end:?}");
    assert_eq!(client.subject::<Version>("version").unwrap().pid, 4711);
}

#[test]
fn an_error_of_the_daemon_reaches_the_client_as_it_is() {
    let rig = Rig::start("error", Fake::default());
    rig.fake.broken.store(true, Relaxed);
    let error = rig.client().subject::<Vec<PortStatus>>("ports").unwrap_err();
    assert_eq!(error.to_string(), "the control thread does not answer");
    let error =
        rig.client().stream::<Snapshot>(&Request::Watch { interval_ms: 100 }, None).unwrap().next().unwrap();
    assert_eq!(error.unwrap_err().to_string(), "the control thread does not answer");
}

#[test]
fn the_socket_has_the_permissions_that_were_asked_for() {
    let directory = directory("mode");
    let path = directory.join("made").join("control.sock");
    let group = nix::unistd::Group::from_gid(nix::unistd::getegid()).unwrap().unwrap().name;
    let access = Access { socket: path.clone(), mode: 0o620, group: Some(group), ..access(path.clone()) };
    let server = Server::start(&access, Fake::default().into_answer()).unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o620);
    assert_eq!(metadata.gid(), nix::unistd::getegid().as_raw());
    drop(server);
    assert!(!path.exists(), "it is gone with its server");

    let access = Access { group: Some("no-such-group".into()), ..access };
    let error = Server::start(&access, Fake::default().into_answer()).err().unwrap();
    assert!(error.to_string().starts_with("there is no group \"no-such-group\""));
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 0, "nothing is left behind");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let directory = directory("stale");
    let path = directory.join("control.sock");
    drop(UnixListener::bind(&path).unwrap()); // what a killed daemon leaves
    let server = Server::start(&access(path.clone()), Fake::default().into_answer()).unwrap();
    assert!(Client::connect(&path).is_ok());

    let error = Server::start(&access(path.clone()), Fake::default().into_answer()).err().unwrap();
    assert_eq!(error.to_string(), format!("another Bifrost is running: it answers on {}", path.display()));
    assert_eq!(Client::connect(&path).unwrap().subject::<Version>("version").unwrap().pid, 4711);
    drop(server);

    std::fs::write(&path, "precious").unwrap();
    let error = Server::start(&access(path.clone()), Fake::default().into_answer()).err().unwrap();
    assert!(error.to_string().contains("is not a socket"));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn the_server_stops_at_once_with_clients_in_it() {
    let mut rig = Rig::start("drop", Fake { routes: 1_000_000, ..Fake::default() });
    let (_idle, mut stuck) = raw(&rig);
    stuck.write_all(b"{\"ask\":\"routes\"}\n").unwrap();
    let mut watcher = rig.client();
    let mut stream = watcher.stream::<Snapshot>(&Request::Watch { interval_ms: 100 }, None).unwrap();
    assert!(stream.next().unwrap().is_ok());
    let began = Instant::now();
    drop(rig.server.take());
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(!rig.socket().exists());
    for item in stream {
        if item.is_err() {
            return;
        }
    }
}

trait IntoAnswer {
    fn into_answer(self) -> std::sync::Arc<dyn Answer>;
}

impl IntoAnswer for Fake {
    fn into_answer(self) -> std::sync::Arc<dyn Answer> {
        std::sync::Arc::new(self)
    }
}

/// `bifrost`, as another user in these groups.
fn as_another(groups: &str, socket: &std::path::Path, words: &[&str]) -> (bool, String) {
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--groups", groups]);
    let output =
        command.arg(env!("CARGO_BIN_EXE_bifrost")).arg("--socket").arg(socket).args(words).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn groups_that_operate_and_read_change_no_configuration() {
    assert!(nix::unistd::geteuid().is_root(), "this test becomes other users: run it as root");
    let directory = directory("read-group");
    let path = directory.join("control.sock");
    let name = |gid: u32| nix::unistd::Group::from_gid(gid.into()).unwrap().unwrap().name;
    let (group, operate_group, read_group) = (Some(name(1)), Some(name(3)), Some(name(2)));
    let access = Access { socket: path.clone(), mode: 0o660, group, operate_group, read_group };
    let server = Server::start(&access, Fake::default().into_answer()).unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!((metadata.permissions().mode() & 0o777, metadata.gid()), (0o666, 1));
    let shown = ["show", "ports"];
    // A text of his own would tell a reader which secrets it has right.
    let own: [&str; 2] = ["compare", "/etc/passwd"];
    let changing: [&[&str]; 5] = [&["reload"], &["upgrade"], &["commit"], &["rollback", "7"], &own];
    let operating: [&[&str]; 2] = [&["set", "x", "--add", "10.0.0.0/8"], &["clear", "flows", "--all"]];
    // The groups that a process has besides its first count as well.
    const READS: &str = "you may only read here (control.read_group)";
    const OPERATES: &str = "you may not change the configuration here (control.operate_group)";
    for (groups, operates, changes) in
        [("1", "", ""), ("100,1", "", ""), ("2,3", "", OPERATES), ("2", READS, READS)]
    {
        let (done, said) = as_another(groups, &path, &shown);
        assert!(done, "{groups}: {said}");
        let all = changing.map(|words| (words, changes)).into_iter();
        for (words, denied) in all.chain(operating.map(|words| (words, operates))) {
            let (_, said) = as_another(groups, &path, words);
            let found = [READS, OPERATES].into_iter().find(|denied| said.contains(denied));
            assert_eq!(found.unwrap_or_default(), denied, "{groups}: {words:?}: {said}");
        }
    }
    for words in [&shown[..], &["reload"]] {
        let (done, said) = as_another("100", &path, words);
        assert!(!done && said.contains("you may not use this socket"), "{said}");
    }
    assert!(Client::connect(&path).unwrap().subject::<Vec<PortStatus>>("ports").is_ok(), "root may");
    drop(server);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn whoever_helps_gets_one_archive() {
    let rig = Rig::start("support", Fake::default());
    let directory = directory("archive");
    let file = directory.join("a.tar.gz");
    let run = |program: &str| {
        let mut command = std::process::Command::new(program);
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    };
    let mut support = run(env!("CARGO_BIN_EXE_bifrost"));
    support.arg("--socket").arg(rig.socket()).arg("support").arg(&file);
    let output = support.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let listed = String::from_utf8(run("tar").arg("tzf").arg(&file).output().unwrap().stdout).unwrap();
    for inner in [
        "/router.toml",
        "/show/ports.json",
        "/show/history.json",
        "/doctor.json",
        "/machine/links",
        "/missing",
    ] {
        assert!(listed.lines().any(|line| line.ends_with(inner)), "{inner}: {listed}");
    }
    // Nothing that is there is lost.
    assert!(!support.output().unwrap().status.success());
    std::fs::remove_dir_all(directory).unwrap();
}
