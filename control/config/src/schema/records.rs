//! What is told to others, or kept: the flow log, sFlow, copies of packets.

use super::*;

pub(super) static FLOW_LOG: &[Key] = &[
    number("sample", 1, 1_000_000, "log one flow in so many").or("1"),
    number("queue", 64, 16_777_216, "records that may wait for the log's own thread").or("65536"),
    key(
        "collector",
        Shape::Listed { by: "address", keys: COLLECTOR, inline: false },
        "where records are sent",
    ),
    key("files", Shape::Table(FILES), "where records are kept"),
];

static COLLECTOR: &[Key] = &[
    text("address", What::Endpoint, "the collector").needed(),
    word("protocol", &["ipfix", "netflow9"], "IPFIX or NetFlow 9").or("\"ipfix\""),
    word("transport", &["udp", "tcp"], "how; tcp is of IPFIX only").or("\"udp\""),
    text("source", What::Address, "address to send from; else as Linux routes it"),
    number("mtu", 576, 9_000, "largest IP packet").or("1500"),
    number("domain", 0, U32, "observation domain, or source id").or("1"),
    flag("biflow", "one record a connection (RFC 5103), and not one for each direction").or("false"),
    word("times", &["milliseconds", "nanoseconds"], "the unit of times").or("\"milliseconds\""),
    text("templates", What::Time, "how often templates are sent again over UDP").or("\"60s\""),
    number("queue", 1_024, 16_777_216, "records that may wait for it").or("65536"),
];

static FILES: &[Key] = &[
    text("directory", What::Path, "where").or("\"/var/lib/bifrost/flows\""),
    text("rotate", What::Time, "a new file after this time").or("\"15m\""),
    text("size", What::Size, "or at this size of the journal").or("\"256MiB\""),
    text("sync", What::Time, "how often the journal is forced to the disk; 0s leaves it to Linux")
        .or("\"5s\""),
    text("keep", What::Time, "remove older files"),
    text("keep_size", What::Size, "remove the oldest when all together are larger"),
    number("queue", 1_024, 16_777_216, "records that may wait for the disk").or("262144"),
];

pub(super) static SFLOW: &[Key] = &[
    text("agent", What::Address, "an address of this router, by which collectors know it").needed(),
    list("collectors", What::Endpoint, "where samples are sent").needed(),
    number("sample", 1, 16_777_216, "one packet in so many").or("1000"),
    number("header", 64, 256, "bytes of each that are sent").or("128"),
    text("counters", What::Time, "how often the ports' counters are sent").or("\"20s\""),
    number("mtu", 576, 9_000, "largest IP packet").or("1500"),
];

pub(super) static MIRROR: &[Key] = &[
    text("to", What::Interface, "the interface that copies leave by").needed(),
    text("filter", What::Words, "of which packets, in tcpdump's language; else all"),
    list("ports", What::Port, "of which ports; else all"),
    word("direction", &["both", "in", "out"], "of what comes in, leaves, or both").or("\"both\""),
];
