//! `bifrost click`, run as Click's users run `click`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bifrost"));
    command.arg("click").args(args);
    command
}

/// What it prints, what it says, and how it ends.
fn click(args: &[&str]) -> (String, String, Option<i32>) {
    let Output { stdout, stderr, status } = command(args).output().unwrap();
    (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), status.code())
}

fn prints(args: &[&str], expected: &str) {
    assert_eq!(click(args), (expected.to_owned(), String::new(), Some(0)), "{args:?}");
}

#[test]
fn handlers_are_printed_after_the_run() {
    let text = "s :: InfiniteSource(LIMIT 7, STOP true) -> c :: Counter -> d :: Discard";
    prints(&["-e", text, "-h", "c.count"], "7\n");
    prints(&["-e", text, "-h", "c.count", "-h", "d.class"], "c.count:\n7\n\nd.class:\nDiscard\n\n");
    prints(&["-qe", text, "-h", "*.name"], "s.name:\ns\n\nc.name:\nc\n\nd.name:\nd\n\n");
    prints(
        &["-qe", text, "-h", "s.scheduled", "-h", "s.home_thread"],
        "s.scheduled:\ntrue\n\ns.home_thread:\n0\n\n",
    );
    prints(
        &["-qe", text, "-h", "Counter.ports"],
        "c.ports:\n1 input\npush~\t-\ts [0]\n1 output\npush~\t-\t[0] d\n\n",
    );
    assert_eq!(click(&["-qe", text, "-h", "x.y"]), (String::new(), "no element 'x'\n".to_owned(), Some(1)));
    assert_eq!(click(&["-qe", text, "-h", "c.y"]), (String::new(), "no 'c.y' handler\n".to_owned(), Some(1)));
}

#[test]
fn a_script_works_out_and_ends_the_run() {
    let text = "Script(set x 0, label again, print $x, set x $(add $x 1), goto again $(lt $x 3), printn \"end\", stop)";
    prints(&["-e", text], "0\n1\n2\nend");
    prints(&["-e", "Script(print \"$n\", stop)", "n=five"], "five\n");
    prints(
        &["--simtime", "-e", "Script(print $(now), wait 1h, print $(now), stop)"],
        "1000000000.000000\n1000003600.000000\n",
    );
    prints(
        &["--simtime", "-e", "DriverManager(pause, wait 2, print \"last\"); Script(wait 1, stop)"],
        "last\n",
    );
    let text =
        "s :: InfiniteSource -> c :: Counter -> Discard; Script(write s.active false, read c.class, stop)";
    assert_eq!(click(&["-e", text]), (String::new(), "c.class:\nCounter\n".to_owned(), Some(0)));
    let passive = "a :: Script(TYPE PASSIVE, return $(mul $1 $2)); Script(print $(a.run 6 7), stop)";
    prints(&["-e", passive], "42\n");
    let looping = click(&["--simtime", "-e", "s :: Script(label a, goto a); Script(wait 1, stop)"]);
    assert_eq!(looping.1, "s :: Script: too many jumps, giving up\n");
}

#[test]
fn a_configuration_that_a_script_ends_with_goes_on_in_its_time() {
    let next = "RatedSource(x, LIMIT 1, STOP true) -> Print(y, TIMESTAMP true) -> Discard";
    let text = format!("DriverManager(wait 5, writeq hotconfig \"{next}\")");
    let (_, said, code) = click(&["-R", "--simtime", "-e", &text]);
    assert_eq!((said.as_str(), code), ("y: 1000000005.000000:    1 | 78\n", Some(0)));
}

#[test]
fn it_ends_as_click_does() {
    let exit = |handler: &str| click(&["-e", "s :: Script(stop)", "-x", handler]).2;
    assert_eq!(exit("s.add 1 2"), Some(3));
    assert_eq!((exit("s.eq 1 1"), exit("s.eq 1 2"), exit("s.none")), (Some(0), Some(1), Some(255)));
    assert_eq!(click(&["-e", ""]).1, "warning: config: configuration has no elements, exiting\n");
    assert_eq!(click(&["-e", "a", "-e", "b"]).2, Some(1));
    assert_eq!(click(&["--no-such-option"]).2, Some(1));
    assert_eq!(
        click(&["/no/such/file"]),
        (String::new(), "/no/such/file: No such file or directory\n".to_owned(), Some(1))
    );
    let (_, said, code) = click(&["-e", "Idle -> Print(x, FOO 1) -> Idle"]);
    assert_eq!((said.lines().next(), code), (Some("config:1: FOO: unknown argument"), Some(1)));
    assert!(said.ends_with("Router could not be initialized!\n"), "{said}");
}

#[test]
fn programs_read_mistakes_in_click_s_form() {
    let said = |text: &str| click(&["-qe", text]).1;
    assert_eq!(said("\nIdle -> Foo;"), "config:2: undeclared element 'Foo'\n");
    assert_eq!(
        said("RandomSample(0) -> Discard"),
        "config:1: 'RandomSample@1 :: RandomSample' input 0 unused\nRouter could not be initialized!\n"
    );
    let warned = "RED(5, 1, 1)";
    assert!(!said(warned).contains('^'), "{}", said(warned));
}

#[test]
fn a_device_gives_the_frames_of_one_protocol() {
    // Numbers for experiments; on the loopback device what is sent comes back.
    let text = "FromDevice(lo, PROTOCOL 0x88b5) -> a :: Counter -> Discard;
        FromDevice(lo, PROTOCOL 0x88b6) -> b :: Counter -> Discard;
        InfiniteSource(\\<000000000000 000000000000 88b5 0000>, LIMIT 3) -> Queue -> ToDevice(lo);
        Script(label more, wait 5ms, goto more $(lt $(a.count) 3), print $(a.count), print $(b.count), stop);";
    prints(&["-e", text], "3\n0\n");
}

#[test]
fn arguments_have_click_s_names_and_addresses_those_of_devices() {
    let text = "Idle -> r :: RandomSample(P .25) -> Discard; Idle -> s :: RandomSample(SAMPLE .5) -> Discard";
    prints(
        &["-qe", text, "-h", "r.sampling_prob", "-h", "s.sampling_prob"],
        "r.sampling_prob:\n0.25\n\ns.sampling_prob:\n0.5\n\n",
    );
    let text = "AddressInfo(a lo, b lo:bcast); Idle -> e :: StoreIPAddress(b, dst) -> StoreIPAddress(a, src) -> Discard";
    prints(&["-qe", text, "-h", "e.class"], "StoreIPAddress\n");
    prints(&["--affinity=0", "-e", "Script(print 1, stop)"], "1\n");
}

#[test]
fn a_packet_is_as_long_as_its_memory() {
    let text = "s :: InfiniteSource(LENGTH 69120, LIMIT 2, STOP true) -> c :: Counter -> Discard";
    prints(&["-e", text, "-h", "c.byte_count"], "138240\n");
    let (_, said, _) = click(&["-qe", &text.replace("69120", "69121")]);
    assert!(said.starts_with("config:1: LENGTH: longer than any packet\n"), "{said}");
}

#[test]
fn a_text_in_latin_1_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("latin");
    std::fs::write(&file, b"// caf\xe9\nScript(print \"\xe4\", stop)").unwrap();
    prints(&[file.to_str().unwrap()], "\u{e4}\n");
}

#[test]
fn threads_lose_no_packet() {
    let text = "a :: InfiniteSource(LIMIT 20000) -> q :: ThreadSafeQueue(100);
        b :: InfiniteSource(LIMIT 20000) -> q -> u :: Unqueue -> c :: Counter -> Discard;
        StaticThreadSched(a 0, b 1, u 2);
        Script(label more, wait 5ms, goto more $(lt $(c.count) 40000), print $(c.count), print $(q.drops), stop);";
    prints(&["-j", "3", "--packets", "2048", "-e", text], "40000\n0\n");
}

/// A program that is killed when the test is done with it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_control_socket_reads_writes_and_changes_the_configuration() {
    let directory = std::env::temp_dir().join(format!("bifrost-click-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("port");
    let text = format!(
        "Idle -> s :: Switch(0) -> Idle; s[1] -> Idle;
         Script(print >{} click_driver@@ControlSocket.port); Script(wait 20s, stop)",
        file.display()
    );
    let _running =
        Running(command(&["-R", "-p", "41900+", "-e", &text]).stderr(Stdio::null()).spawn().unwrap());
    let end = Instant::now() + Duration::from_secs(15);
    let port: u16 = loop {
        if let Ok(port) = std::fs::read_to_string(&file).unwrap_or_default().trim().parse() {
            break port;
        }
        assert!(Instant::now() < end, "it says no port");
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    let requests = "read s.config\nwrite hotconfig Idle -> s :: Switch(1) -> Idle; s[1] -> Idle; \
                    Script(TYPE SIGNAL USR1)\nread s.config\nwrite hotconfig Print\nread x.y\nsing\nwrite s.switch 9x\nquit\n";
    stream.write_all(requests.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    let expected = "Click::ControlSocket/1.3\r\n200 Read handler 's.config' OK\r\nDATA 1\r\n0\
        200 Write handler 'hotconfig' OK\r\n200 Read handler 's.config' OK\r\nDATA 1\r\n1\
        520-Write handler 'hotconfig' error:\r\n520-config:1: 'Print@1 :: Print' input 0 unused\r\n\
        520-config:1: 'Print@1 :: Print' output 0 unused\r\n520 Router could not be initialized!\r\n\
        510 No element named 'x'\r\n501 Command 'SING' unimplemented\r\n\
        520-Write handler 's.switch' error:\r\n520 syntax error\r\n200 Goodbye!\r\n";
    assert_eq!(said, expected);
    std::fs::remove_dir_all(&directory).unwrap();
}
