//! Where a fuzzer comes in: what the daemon reads of others' bytes.

use flow::{Settings, Table};
use wire::Mac;

use crate::control::{Filter, Question, Request};
use crate::daemon::{explain, flow_file};

/// A line of a client's, and the packet that it asks about.
pub fn control(line: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<Request>(line) {
        // Invariant: what was read can be written.
        let text = serde_json::to_string(&request).expect("a request");
        assert_eq!(serde_json::from_str::<Request>(&text).expect("the same"), request);
        if let Request::Explain(question) = &request {
            let _ = explain::frame(question, Mac::default());
        }
    }
    if let Ok(words) = std::str::from_utf8(line) {
        match words.parse::<Filter>() {
            Ok(filter) => assert_eq!(filter.to_string().parse::<Filter>().as_ref(), Ok(&filter)),
            Err(error) => drop(error.to_string()),
        }
        match words.parse::<Question>() {
            Ok(question) => drop(explain::frame(&question, Mac::default())),
            Err(error) => drop(error.to_string()),
        }
    }
}

/// The file of saved flows, which are put back; behind a first byte that is not 0, what is in a
/// block of it.
pub fn saved_flows(bytes: &[u8]) {
    let Some((how, bytes)) = bytes.split_first() else { return };
    if *how == 0 { put_back(bytes) } else { put_back(&flow_file::whole(bytes)) }
}

fn put_back(bytes: &[u8]) {
    let Ok(blocks) = flow_file::blocks(bytes) else { return };
    let settings = Settings { memory: 4 << 20, fragments: 1, ..Settings::default() };
    // Invariant: so little memory there is.
    let table = Table::new(&settings).expect("a small table");
    let mut worker = table.worker().expect("the first worker");
    let now = graph::steady_now();
    for (head, mut flows) in blocks.into_iter().rev() {
        for _ in 0..head.flows {
            let Ok(snapshot) = flow_file::next_flow(&mut flows) else { break };
            // It may not fit, or be there.
            let _ = worker.restore(&snapshot, now);
        }
    }
    worker.flows(0, u32::MAX, now, &mut |hit, _| {
        worker.snapshot(hit, now);
    });
}
