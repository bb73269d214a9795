//! IP summary dumps: what is written is read as the same, as text and in binary.

use graph::language::Texts;
use graph::{Driver, Environment, Manner, Program, Sinks};
use port::Pool;

/// A place for this test's files.
fn place(name: &str) -> String {
    let directory = std::env::temp_dir().join(format!("summary-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    directory.join(name).display().to_string()
}

fn run(configuration: &str) {
    Pool::heap(256).install();
    let mut texts = Texts::new();
    let text = texts.add("test", configuration);
    let environment = Environment::new();
    let program = Program::compile(texts, text, &[], &elements::registry(), &environment)
        .unwrap_or_else(|refusal| panic!("{}", refusal.text));
    let mut sinks = Sinks::new();
    let manner = Manner { batches: false, ..Manner::default() };
    let graph =
        program.start(&environment, manner, &mut sinks).unwrap_or_else(|refusal| panic!("{}", refusal.text));
    Driver::new(graph, sinks).run();
}

/// The lines about packets.
fn lines(path: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.starts_with('!')).map(str::to_owned).collect()
}

#[test]
fn what_is_written_is_read_as_the_same() {
    let fields = "timestamp ip_src ip_dst ip_proto ip_ttl ip_tos ip_id ip_fragoff ip_len ip_opt sport dport tcp_seq \
                  tcp_ack tcp_flags tcp_window tcp_opt icmp_type icmp_code link count aggregate";
    let packets = [
        "1.500000 10.0.0.1 10.0.0.2 T 9 4 77 0! 300 rr{1.2.3.4}+1 80 443 12 34 SA 512 mss1460;wscale7 - - 3 1 5",
        "2.000000 10.0.0.1 10.0.0.2 U 64 0 1 0 28 . 53 54 - - - - - - - 0 1 0",
        "3.000001 10.0.0.3 10.0.0.2 I 64 0 2 0 28 . - - - - - - - 8 0 1 2 0",
        "4.000000 10.0.0.3 10.0.0.2 U 64 0 3 24+ 100 . - - - - - - - - - 0 1 0",
        "5.000000 10.0.0.3 10.0.0.2 89 64 0 3 0 1000 . - - - - - - - - - 0 1 0",
    ];
    let (first, binary, text, last) = (place("in"), place("binary"), place("text"), place("last"));
    std::fs::write(&first, format!("!data {fields}\n{}\n", packets.join("\n"))).unwrap();
    run(&format!(
        "FromIPSummaryDump({first}, STOP true)
         -> ToIPSummaryDump({text}, FIELDS {fields})
         -> ToIPSummaryDump({binary}, FIELDS {fields}, BINARY true)"
    ));
    assert_eq!(lines(&text), packets);
    run(&format!("FromIPSummaryDump({binary}, STOP true) -> ToIPSummaryDump({last}, FIELDS {fields})"));
    let read_back = lines(&last);
    for (packet, read) in packets.iter().zip(&read_back) {
        // In binary what a packet does not have is 0, so another protocol's fields may not tell the
        // difference.
        let known = |line: &str| line.split(' ').take(9).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(known(packet), known(read));
    }
}

#[test]
fn what_is_cut_off_is_bad() {
    let (first, out) = (place("whole"), place("cut"));
    let text = "!data sport dport tcp_urp tcp_opt\n1 2 3 wscale10\n";
    std::fs::write(&first, text).unwrap();
    let said = |length: usize| {
        run(&format!(
            "FromIPSummaryDump({first}, STOP true) -> Truncate({length})
             -> ToIPSummaryDump({out}, HEADER false, BAD_PACKETS true, CAREFUL_TRUNC false, FIELDS sport dport tcp_urp tcp_opt)"
        ));
        std::fs::read_to_string(&out).unwrap()
    };
    assert_eq!(said(44), "1 2 3 wscale10\n");
    assert_eq!(said(41), "!bad truncated TCP header capture\n1 2 3 -\n");
    assert_eq!(said(22), "!bad truncated TCP/UDP header capture\n1 - - -\n");
    assert_eq!(said(20), "!bad truncated TCP/UDP header capture\n- - - -\n");
    assert_eq!(said(10), "!bad truncated TCP/UDP header capture\n- - - -\n");
    assert_eq!(said(3), "!bad truncated IP header\n- - - -\n");
}

#[test]
fn any_file_is_read_to_its_end() {
    let path = place("fuzz");
    let mut random = chance::Random(1);
    for round in 0..60 {
        let mut text = b"!data ip_src sport payload tcp_opt ip_opt ip_len payload_len\n".to_vec();
        if round % 3 == 0 {
            text.extend(b"!binary\n");
        }
        for _ in 0..300 {
            let signs = b"0123456789. -\"\\n{}^+!;,rs=\n#\0\xff";
            text.push(random.pick(signs));
        }
        std::fs::write(&path, &text).unwrap();
        run(&format!("FromIPSummaryDump({path}, STOP true, CHECKSUM true) -> Discard"));
    }
}
