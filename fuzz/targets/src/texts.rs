//! Texts that an operator writes, or gets from somebody.

use std::io::{Error, ErrorKind};
use std::sync::Arc;

use config::{Cores, Machine, Router};
use elements::{basic, ethernet, icmp, ip, ip6, queues, transport};
use graph::language::{self, Report, Texts};
use graph::{Environment, Program, Registry};
use rules::expect::{Ground, Judge, Judgement, Sentence};
use rules::{Compiled, Context, Decision, Filter, Hook, Ledger, Now};
use wire::Headers;

/// A SYN from 10.0.0.1 to port 80 of 198.51.100.7.
const PACKET: [u8; 40] = [
    0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 198, 51, 100, 7, 0x9c, 0x40, 0, 80, 0, 0, 0, 1,
    0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0,
];

/// A configuration in Click's language: read, printed, expanded, and its elements made (but those
/// that open files, devices and sockets), though not started.
pub fn click(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (mut texts, mut report) = (Texts::new(), Report::new());
    let number = texts.add("fuzz", &text);
    let tree = language::parse(&texts, number, &mut report);
    let tidy = language::format(&tree);
    let _ = report.render(&texts);
    if !report.has_errors() {
        // What is tidy is left as it is.
        let (mut texts, mut report) = (Texts::new(), Report::new());
        let number = texts.add("tidy", &tidy);
        let tree = language::parse(&texts, number, &mut report);
        assert!(!report.has_errors(), "{}\n{tidy}", report.render(&texts));
        assert_eq!(language::format(&tree), tidy);
    }
    let mut registry = Registry::new();
    for classes in [
        basic::CLASSES,
        ethernet::CLASSES,
        icmp::CLASSES,
        ip::CLASSES,
        ip6::CLASSES,
        queues::CLASSES,
        transport::CLASSES,
    ] {
        registry.add(classes);
    }
    match Program::compile(texts, number, &[], &registry, &Environment::new()) {
        Ok(program) => drop((program.warnings(), language::unparse(program.flat()))),
        Err(refusal) => drop(refusal.to_string()),
    }
}

/// `router.toml`, and a file of tokens. Files that they name are not there.
pub fn router_toml(bytes: &[u8]) {
    let machine = Machine { cores: Cores(vec![0, 1]) };
    let text = String::from_utf8_lossy(bytes);
    // It would be opened, and be anything.
    config::fuzz_tokens(bytes);
    if ["file", "include", "certificate", "private_key", "tokens"].iter().any(|key| text.contains(key)) {
        return;
    }
    match Router::read("router.toml", &text, &machine) {
        Ok(router) => drop(format!("{router:?}")),
        Err(mistakes) => drop(mistakes.to_string()),
    }
}

/// Rules of the filter: read, printed, checked, compiled, translated for the kernel; and compiled
/// they say what they say read.
pub fn rules(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let filter = match Filter::read("fuzz", &text, &mut |_| Err(Error::from(ErrorKind::NotFound))) {
        Ok(filter) => filter,
        Err(mistakes) => return drop(mistakes.to_string()),
    };
    for (_, rule) in filter.rules() {
        let _ = rule.to_string();
    }
    let _ = filter.nftables(&["eth0".to_owned()], None, false);
    if let Ok(warnings) = filter.check() {
        warnings.iter().for_each(|warning| drop(warning.to_string()));
    }
    let filter = Arc::new(filter);
    // Each has its rates for itself.
    let [accounts, others] = [(); 2].map(|()| Ledger::new(1).open(&filter));
    let Ok(compiled) = Compiled::new(filter.clone(), accounts) else { return };
    let (now, context) = (Now::default(), Context::default());
    // Invariant: it is one.
    let headers = Headers::parse(&PACKET).expect("a packet");
    for hook in Hook::ALL {
        let mut decisions = [Decision::default()];
        compiled.classify(0, hook, &now, &[headers], &[context], &mut decisions);
        let read = filter.evaluate(hook, &headers, &context, &now, Some(&others));
        assert_eq!((decisions[0].outcome, decisions[0].mark), (read.outcome, read.mark), "at {hook:?}");
    }
}

/// Rules of the filter, and behind a line of `---` sentences that are to stay true by them: read,
/// judged, and what breaks one is shown.
pub fn expect(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (rules, sentences) = text.split_once("---\n").unwrap_or(("", &text));
    let filter = Filter::read("fuzz", rules, &mut |_| Err(Error::from(ErrorKind::NotFound)));
    let filter = filter.unwrap_or_default();
    match Sentence::read("fuzz", sentences, &filter) {
        Ok(sentences) => {
            let ground = Ground::default();
            let judge = Judge::new(&filter, &ground);
            for sentence in sentences.iter().take(20) {
                if let Judgement::Broken(breach) = judge.judge(sentence) {
                    assert!(!breach.packet.is_empty() && !breach.why.is_empty(), "{sentence}: {breach:?}");
                }
            }
        }
        Err(mistakes) => drop(mistakes.to_string()),
    }
}
