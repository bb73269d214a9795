//! Trials over shared memory, both ends in this process.

use std::time::Duration;

use traffic::{Port, Stream, Trial};

#[test]
fn packets_pass_through_shared_memory() {
    let socket = std::env::temp_dir().join(format!("bifrost-traffic-{}.sock", std::process::id()));
    let socket = socket.display();
    let to = Port::open(&format!("memif:{socket},id=7"), false).unwrap();
    let from = Port::open(&format!("memif:{socket},id=7,role=client,ring=2048"), false).unwrap();
    let streams = "[[stream]]\nrate = '200kpps'\nflows = 1000\nsource = '10.0.0.0/16'\n[[stream]]\nsize = '100-4000'\nrate = '10kpps'";
    let trial = Trial {
        streams: Stream::parse_all(streams).unwrap(),
        to: Some(to),
        duration: Some(Duration::from_millis(300)),
        ..Trial::new(from)
    };
    let report = trial.run().unwrap();
    for (stream, sent) in report.streams.iter().zip([60_000, 3000]) {
        assert_eq!(stream.sent.packets, sent);
        assert_eq!(
            (stream.corrupt, stream.duplicates, stream.reordering.unwrap().packets),
            (Some(0), Some(0), 0)
        );
        // The ring is finite, and a sink that is not let run finds it full: then packets are lost,
        // as on any wire.
        assert_eq!(stream.received.unwrap().packets + stream.lost.unwrap(), sent);
        assert!(stream.loss_ratio.unwrap() < 0.9);
    }
}

#[test]
fn settings_that_make_no_sense_are_refused_in_words() {
    for text in [
        "memif:",
        "memif:/x,role=king",
        "memif:/x,id",
        "memif:/tmp/x,ring=3",
        "memif:/tmp/x,queues=0",
        "memif:/x,trusted=x",
    ] {
        let error = Port::open(text, false).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{text}` is no port: ")), "{error}");
    }
}

#[test]
fn packets_longer_than_a_ring_are_refused() {
    let socket = std::env::temp_dir().join(format!("bifrost-long-{}.sock", std::process::id()));
    let port = |more: &str| Port::open(&format!("memif:{},id=7{more}", socket.display()), false).unwrap();
    let (server, client) = (port(""), port(",role=client,ring=4,buffer=64"));
    for (from, to) in [(&server, &client), (&client, &server)] {
        let trial = |size| Trial {
            streams: Stream::parse_all(&format!("[[stream]]\nrate = '100pps'\nsize = '64,{size}'")).unwrap(),
            to: Some(to.clone()),
            count: Some(10),
            ..Trial::new(from.clone())
        };
        // Four buffers of 64 bytes, and the check sequence, which no memory is for.
        let report = trial(260).run().unwrap();
        assert_eq!((report.streams[0].sent.packets, report.streams[0].lost), (10, Some(0)));
        assert!(!report.notes.iter().any(|note| note.contains("buffers")), "{:?}", report.notes);
        let refused = trial(261).run().unwrap_err().to_string();
        assert!(
            refused.contains("261 bytes are more than all buffers") && refused.contains("(260)"),
            "{refused}"
        );
    }
}

#[test]
fn what_lies_in_a_ring_is_waited_for_and_told() {
    let socket = std::env::temp_dir().join(format!("bifrost-untaken-{}.sock", std::process::id()));
    let port = |more: &str| Port::open(&format!("memif:{},id=6{more}", socket.display()), false).unwrap();
    let (server, client) = (port(""), port(",role=client"));
    for (from, to) in [(&server, &client), (&client, &server)] {
        let trial = |to: Option<&Port>| Trial {
            streams: vec![Stream::default()],
            to: to.cloned(),
            count: Some(40),
            ..Trial::new(from.clone())
        };
        let untaken = trial(None).run().unwrap();
        assert_eq!(untaken.streams[0].sent.packets, 40);
        assert!(
            untaken.notes.iter().any(|note| note.starts_with("40 of the buffers")),
            "{:?}",
            untaken.notes
        );
        // Whoever begins to take when all has been sent is waited for.
        let running = trial(None).start().unwrap();
        while running.report().streams[0].sent.packets < 40 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(60));
        let taken = trial(Some(to)).run().unwrap();
        assert_eq!(taken.streams[0].lost, Some(0));
        let notes = running.wait().unwrap().notes;
        assert!(!notes.iter().any(|note| note.contains("buffers")), "{notes:?}");
    }
}

#[test]
fn a_peer_that_leaves_is_told_of_and_the_rate_is_not_blamed() {
    let socket = std::env::temp_dir().join(format!("bifrost-leaves-{}.sock", std::process::id()));
    let port = |more: &str| Port::open(&format!("memif:{},id=8{more}", socket.display()), false).unwrap();
    let (from, peer) = (port(""), port(",role=client"));
    let trial = Trial {
        streams: Stream::parse_all("[[stream]]\nrate = '10kpps'").unwrap(),
        duration: Some(Duration::from_millis(800)),
        ..Trial::new(from)
    };
    let running = trial.start().unwrap();
    // In the middle of it, and whole until then: what nobody takes fills the ring of 1,024.
    while running.report().streams[0].sent.packets < 1000 {
        assert!(!running.is_over(), "{:?}", running.report());
        std::thread::yield_now();
    }
    drop(peer);
    let report = running.wait().unwrap();
    let why = report.interrupted.unwrap();
    assert!(why.contains(",id=8 broke 0.") && why.contains("no peer"), "{why}");
    assert!(report.streams[0].offered > report.streams[0].sent.packets + 1000, "{:?}", report.streams[0]);
    let blameless = "what was lost with that is neither the rate's fault nor the device's";
    assert_eq!(report.notes, [format!("{why}; {blameless}")]);
}

#[test]
fn a_peer_that_leaves_and_comes_back_at_once_is_told_of() {
    let socket = std::env::temp_dir().join(format!("bifrost-back-{}.sock", std::process::id()));
    let port = |more: &str| Port::open(&format!("memif:{},id=9{more}", socket.display()), false).unwrap();
    let (from, peer) = (port(""), port(",role=client"));
    let trial = Trial {
        streams: Stream::parse_all("[[stream]]\nrate = '1kpps'").unwrap(),
        duration: Some(Duration::from_millis(600)),
        ..Trial::new(from)
    };
    let running = trial.start().unwrap();
    while running.report().streams[0].sent.packets < 100 {
        assert!(!running.is_over(), "{:?}", running.report());
        std::thread::yield_now();
    }
    drop(peer);
    let _another = port(",role=client");
    let report = running.wait().unwrap();
    let why = report.interrupted.unwrap();
    assert!(why.contains(",id=9 broke 0."), "{why}");
    // Where somebody looked while there was none, that is what is told.
    assert!(why.ends_with("its peer left, and one came back") || why.contains("no peer"), "{why}");
}
