//! IP6Print: prints IPv6 packets.
//!
//! Group: ip6
//! Usage: `IP6Print([LABEL, CONTENTS, NBYTES])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Prints source, destination, payload length, next header and hop limit of every packet, whose
//! network header must be marked, and lets it pass.
//!
//! - `LABEL` (string): stands in front, with a colon
//! - `CONTENTS` (boolean): whether to print the packet's bytes, too; default false
//! - `NBYTES` (number): how many of them at most; default 1500
//!
//! See also: [IPPrint], [Print]

use std::fmt::Write as _;

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};
use port::Packet;
use wire::ipv6;

pub const CLASS: Class = Class {
    name: "IP6Print",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ip6_print.rs"),
    make,
};

struct Ip6Print {
    label: String,
    contents: bool,
    bytes: usize,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let label = args.optional("LABEL").unwrap_or_default();
    let contents = args.keyword("CONTENTS").unwrap_or(false);
    let bytes = args.keyword::<u32>("NBYTES").unwrap_or(1500) as usize;
    args.finish()?;
    Ok(Box::new(Ip6Print { label, contents, bytes }))
}

impl Ip6Print {
    fn text(&self, packet: &Packet) -> String {
        let mut text = if self.label.is_empty() { String::new() } else { format!("{}: ", self.label) };
        let Ok(ip) = ipv6::Packet::parse(packet.network()) else { return text + "(not an IPv6 packet)" };
        let (from, to, length) = (ip.source(), ip.destination(), ip.payload_len());
        let _ = writeln!(
            text,
            "{from} -> {to} plen {length}, next {}, hlim {}",
            ip.next_header(),
            ip.hop_limit()
        );
        if self.contents {
            text.push_str("  ");
            for (index, byte) in packet.segments().flatten().take(self.bytes).enumerate() {
                let _ = write!(text, "{byte:02x}");
                match index {
                    _ if index % 24 == 23 => text.push_str("\n  "),
                    _ if index % 4 == 3 => text.push(' '),
                    _ => {}
                }
            }
        }
        text
    }
}

impl Element for Ip6Print {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        for packet in batch.packets() {
            cx.say(self.text(packet).trim_end_matches('\n'));
        }
    }
}
