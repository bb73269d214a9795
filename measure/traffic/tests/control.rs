//! Two ends that agree over TCP; and peers that are no generators.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fib::PortId;
use lab::Lab;
use port::{Packet, Queue, QueueCounters};
use traffic::control::{Event, listen, serve};
use traffic::{Control, Port, Stream, Trial};

const TOKEN: &str = "a token of some length";

/// A sink that serves while something is done with its address; what it told.
fn serving(to: Port, work: impl FnOnce(String)) -> Vec<String> {
    let listener = listen("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (stop, told) = (Arc::new(AtomicBool::new(false)), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let (stopped, told) = (stop.clone(), &told);
        let tell = move |event: Event| told.lock().unwrap().push(format!("{event:?}"));
        scope.spawn(move || serve(&listener, TOKEN, &to, &stopped, tell).unwrap());
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(address)));
        stop.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    told.into_inner().unwrap()
}

#[test]
fn a_trial_between_two_that_agree() {
    let lab = Lab::new("trc").unwrap();
    let hosts = [lab.host("a").unwrap(), lab.host("b").unwrap()];
    lab.link(hosts[0].end("veth0"), hosts[1].end("veth1")).unwrap();
    let port = |end: usize| Port::open(&format!("veth{end}@{}", hosts[end].namespace()), false).unwrap();
    let told = serving(port(1), |address| {
        for name in ["first", "second"] {
            let control = Some(Control { address: address.clone(), token: TOKEN.to_owned() });
            let streams = Stream::parse_all(&format!(
                "[[stream]]\nname = '{name}'\nrate = '20kpps'\nflows = 9\nsource_port = '1-9'"
            ))
            .unwrap();
            let duration = Some(Duration::from_millis(200));
            let trial = Trial { streams, control, duration, ..Trial::new(port(0)) };
            // The first sink is attached only when the generator asks; its other end polls by GRO.
            let report = trial.run().unwrap();
            let only = &report.streams[0];
            assert_eq!((only.sent.packets, only.lost, only.received), (4000, Some(0), Some(only.sent)));
            assert_eq!(only.latency.as_ref().unwrap().count, 4000);
            assert!(report.clock_uncertainty > 0, "clocks are compared");
            assert_eq!(report.receiver.as_deref(), Some("program in the driver of another machine"));
        }
    });
    assert_eq!(told.iter().filter(|event| event.starts_with("Begins")).count(), 2, "{told:?}");
    assert_eq!(told.iter().filter(|event| event.starts_with("Ended")).count(), 2, "{told:?}");
}

#[test]
fn a_sink_whose_port_breaks_says_so() {
    let lab = Lab::new("trk").unwrap();
    let hosts = [lab.host("a").unwrap(), lab.host("b").unwrap()];
    lab.link(hosts[0].end("veth0"), hosts[1].end("veth1")).unwrap();
    let name = format!("veth1@{}", hosts[1].namespace());
    let told = serving(Port::open(&name, false).unwrap(), |address| {
        let trial = Trial {
            streams: Stream::parse_all("[[stream]]\nrate = '10kpps'").unwrap(),
            control: Some(Control { address, token: TOKEN.to_owned() }),
            duration: Some(Duration::from_secs(1)),
            // Nothing ails the port here.
            ..Trial::new(Port::open("memory", false).unwrap())
        };
        let running = trial.start().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        hosts[0].run("ip link set veth0 down").unwrap();
        let report = running.wait().unwrap();
        let why = report.interrupted.unwrap();
        assert!(why.starts_with(&format!("port {name} of the sink broke 0.")), "{why}");
        assert!(why.ends_with("no carrier"), "{why}");
    });
    let ended = told.iter().find(|event| event.starts_with("Ended")).unwrap();
    assert!(ended.contains("no carrier"), "{ended}");
}

/// A queue that nothing comes by, and that has no room for one frame after the other.
struct Full(AtomicU64);

impl Queue for Full {
    fn port(&self) -> PortId {
        PortId::NONE
    }

    fn receive(&mut self, _: &mut Vec<Packet>, _: usize) -> usize {
        0
    }

    fn transmit(&mut self, _: &mut Vec<Packet>) -> usize {
        0
    }

    fn kick(&mut self) {}

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> QueueCounters {
        let rx_ring_full = self.0.fetch_add(1, Ordering::Relaxed);
        QueueCounters { rx_ring_full, ..QueueCounters::default() }
    }
}

#[test]
fn what_a_sink_elsewhere_loses_is_told_at_both_ends() {
    let to = Port::of_queues("full", vec![Box::new(Full(AtomicU64::new(0)))]);
    let mut missed = 0;
    let told = serving(to, |address| {
        let trial = Trial {
            streams: vec![Stream::default()],
            control: Some(Control { address, token: TOKEN.to_owned() }),
            count: Some(10),
            ..Trial::new(Port::open("memory", false).unwrap())
        };
        missed = trial.run().unwrap().missed;
    });
    let ended = told.iter().find(|event| event.starts_with("Ended")).unwrap();
    assert!(missed > 0 && ended.contains(&format!("missed: {missed},")), "{missed}: {ended}");
}

#[test]
fn what_came_of_a_trial_that_is_cut_is_told_with_who_cut_it() {
    let socket = std::env::temp_dir().join(format!("bifrost-cut-{}.sock", std::process::id()));
    let port = |more: &str| Port::open(&format!("memif:{}{more}", socket.display()), false).unwrap();
    // By a generator that begins another one, by one that goes, and by the sink's own end.
    let say = |stream: &mut TcpStream, text: &str| {
        stream.write_all(format!("{text}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer
    };
    let hello = format!("{{\"hello\":{{\"version\":3,\"token\":\"{TOKEN}\"}}}}");
    let prepare = "{\"prepare\":{\"mark\":1,\"lanes\":1,\"offset\":0,\"names\":[\"cut\"]}}";
    let peer = port(",role=client");
    let mut last = None;
    let told = serving(port(""), |address| {
        let mut first = TcpStream::connect(&address).unwrap();
        for text in [hello.as_str(), prepare] {
            say(&mut first, text);
        }
        // Frames of somebody else's trial: foreign ones.
        let strange = Trial { streams: vec![Stream::default()], count: Some(7), ..Trial::new(peer.clone()) };
        strange.run().unwrap();
        assert!(say(&mut first, prepare).contains("ready"));
        drop(first);
        let mut second = TcpStream::connect(&address).unwrap();
        while !say(&mut second, &hello).contains("welcome") {
            // The sink has not noticed yet that the first is gone.
            second = TcpStream::connect(&address).unwrap();
        }
        assert!(say(&mut second, prepare).contains("ready"));
        last = Some(second);
    });
    let ended: Vec<&String> = told.iter().filter(|event| event.starts_with("Ended")).collect();
    assert_eq!(ended.len(), 3, "{told:?}");
    let middle = "in the middle of the trial";
    for (event, who) in
        ended.iter().zip(["the generator began another", "the generator went", "the sink was ended"])
    {
        assert!(event.contains(&format!("{who} {middle}")), "{event}");
    }
    assert!(ended[0].contains("packets: 7"), "{}", ended[0]);
    assert!(!told.iter().any(|event| event.starts_with("Lost")), "{told:?}");
}

/// A sink that says welcome, and then nothing more, or hangs up after so many of its answers.
fn unsteady(answers: usize, silent: bool) -> Control {
    let listener = listen("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut stream = stream;
        for number in 0..answers {
            let Some(Ok(request)) = lines.next() else { return };
            let answer = match request.as_str() {
                "\"clock\"" => "{\"clock\":{\"now\":1}}",
                "\"progress\"" => "{\"arrived\":{\"lanes\":[],\"foreign\":{\"packets\":0,\"bytes\":0}}}",
                _ if number == 0 => "{\"welcome\":{\"mac\":null}}",
                _ => "{\"ready\":{\"means\":\"nothing\"}}",
            };
            writeln!(stream, "{answer}").unwrap();
        }
        if silent {
            std::thread::sleep(Duration::from_secs(60));
        }
    });
    Control { address, token: TOKEN.to_owned() }
}

#[test]
fn a_sink_that_is_lost_ends_the_trial_at_once() {
    // It is welcome, clocks are compared 32 times, it is prepared, and progress has been asked for
    // once.
    for (silent, within) in [(false, 3), (true, 10)] {
        let began = Instant::now();
        let trial = Trial {
            streams: Stream::parse_all("[[stream]]\nrate = '1kpps'").unwrap(),
            control: Some(unsteady(35, silent)),
            duration: Some(Duration::from_secs(40)),
            ..Trial::new(Port::open("memory", false).unwrap())
        };
        let error = trial.run().unwrap_err().to_string();
        assert!(error.starts_with("the sink is lost"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(within), "{:?}", began.elapsed());
    }
}

/// A trial of two seconds with someone between the two who passes each question on after a while;
/// what was asked.
fn overheard(pause: Duration) -> Vec<String> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let listener = listen("127.0.0.1:0").unwrap();
    let to_sink = listener.local_addr().unwrap();
    let between = listen("127.0.0.1:0").unwrap();
    let address = between.local_addr().unwrap().to_string();
    let (stop, heard) = (Arc::new(AtomicBool::new(false)), asked.clone());
    let port = Port::open("memory", false).unwrap();
    std::thread::scope(|scope| {
        let (stopped, to) = (stop.clone(), port.clone());
        scope.spawn(move || serve(&listener, TOKEN, &to, &stopped, |_| {}).unwrap());
        scope.spawn(move || {
            let (generator, _) = between.accept().unwrap();
            let mut sink = TcpStream::connect(to_sink).unwrap();
            [&generator, &sink].into_iter().for_each(|stream| stream.set_nodelay(true).unwrap());
            let (mut answers, mut back) = (sink.try_clone().unwrap(), generator.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
            for line in BufReader::new(generator).lines() {
                let Ok(line) = line else { break };
                std::thread::sleep(pause);
                writeln!(sink, "{line}").unwrap();
                heard.lock().unwrap().push(line);
            }
        });
        let trial = Trial {
            streams: Stream::parse_all("[[stream]]\nrate = '1kpps'").unwrap(),
            control: Some(Control { address, token: TOKEN.to_owned() }),
            duration: Some(Duration::from_secs(2)),
            ..Trial::new(port)
        };
        let report = trial.run();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(report.unwrap().lost(), Some(0));
    });
    Arc::into_inner(asked).unwrap().into_inner().unwrap()
}

fn count(asked: &[String], what: &str) -> usize {
    asked.iter().filter(|line| line.contains(what)).count()
}

#[test]
fn a_sink_is_asked_how_it_stands_though_nobody_looks_on() {
    let asked = overheard(Duration::ZERO);
    assert!((5..=15).contains(&count(&asked, "progress")), "{asked:?}");
    assert_eq!(count(&asked, "clock"), 64, "before and after");
}

#[test]
fn clocks_are_compared_for_a_second_where_answers_are_slow() {
    let asked = overheard(Duration::from_millis(100));
    assert!((8..=22).contains(&count(&asked, "clock")), "{asked:?}");
}

#[test]
fn strangers_and_garbage_are_refused() {
    let to = Port::of_queues("none", Vec::new());
    let told = serving(to, |address| {
        let say = |bytes: &[u8]| {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            // The sink may hang up before all is said.
            let _ = stream.write_all(bytes);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            String::from_utf8_lossy(&answer).into_owned()
        };
        let wrong = say(b"{\"hello\":{\"version\":3,\"token\":\"another token of length\"}}\n");
        assert!(wrong.contains("another token"), "{wrong}");
        assert!(say(b"{\"hello\":{\"version\":9,\"token\":\"x\"}}\n").contains("version 9"));
        assert!(say(b"\"clock\"\n").contains("the token comes first"));
        assert!(say(b"GET / HTTP/1.1\r\n\r\n").contains("makes no sense"));
        say(&[b'x'; 100_000]);
        let mut random = chance::Random(1);
        for length in 1..60 {
            let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).chain([b'\n']).collect();
            say(&bytes);
        }
        let control = Control { address: address.clone(), token: "not the sink's".to_owned() };
        let streams = vec![Stream::default()];
        let trial = Trial {
            streams,
            control: Some(control),
            count: Some(1),
            ..Trial::new(Port::of_queues("none", Vec::new()))
        };
        let error = trial.run().unwrap_err().to_string();
        assert_eq!(error, "the sink refuses: another token than the sink's");
        // A friend is served after all that.
        let answer = say(format!("{{\"hello\":{{\"version\":3,\"token\":\"{TOKEN}\"}}}}\n{{\"prepare\":{{\"mark\":1,\"lanes\":60000,\"offset\":0,\"names\":[]}}}}\n\"progress\"\nrubbish\n").as_bytes());
        assert!(
            answer.contains("welcome")
                && answer.contains("60000 lanes are more")
                && answer.contains("nothing has been prepared"),
            "{answer}"
        );
    });
    assert!(told.iter().all(|event| event.starts_with("Refused") || event.starts_with("Lost")), "{told:?}");
}

/// Who sends a byte now and then keeps nobody waiting, and is hung up on when its time is over.
#[test]
fn a_slow_stranger_holds_up_nobody() {
    let told = serving(Port::open("memory", false).unwrap(), |address| {
        let began = Instant::now();
        let mut slow = TcpStream::connect(&address).unwrap();
        slow.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        slow.write_all(b"{").unwrap();
        let mut generator = TcpStream::connect(&address).unwrap();
        writeln!(generator, r#"{{"hello":{{"version":3,"token":"{TOKEN}"}}}}"#).unwrap();
        let mut answer = String::new();
        BufReader::new(generator).read_line(&mut answer).unwrap();
        assert!(answer.contains("welcome"), "{answer}");
        assert!(
            began.elapsed() < Duration::from_millis(1500),
            "it waited for the other: {:?}",
            began.elapsed()
        );
        let mut heard = Vec::new();
        while slow.read_to_end(&mut heard).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            assert!(began.elapsed() < Duration::from_secs(20), "it is never hung up on");
            let _ = slow.write_all(b" ");
        }
    });
    assert!(told.iter().any(|event| event.contains("no word for too long")), "{told:?}");
}
