//! IPOutputCombo: what a router does with IPv4 packets that go out.
//!
//! Group: ip
//! Usage: `IPOutputCombo(COLOR, IPADDR, MTU)`
//! Ports: 1 input, 5 outputs; push
//!
//! Expects marked headers, as [IPInputCombo] leaves them. One element for these:
//!
//! ```text
//! DropBroadcasts -> PaintTee(COLOR) -> IPGWOptions(IPADDR) -> FixIPSrc(IPADDR) -> DecIPTTL
//! ```
//!
//! By output 1 leave copies of what goes out where it came in, by output 2 packets with wrong
//! options, by output 3 those that have expired, by output 4 those that are larger than `MTU`, for
//! an [IPFragmenter]; all others by output 0. It cuts none itself.
//!
//! - `COLOR` (byte): what packets are painted with that came in by this interface
//! - `IPADDR` (IPv4 address): of the interface
//! - `MTU` (bytes): the largest packet that leaves by output 0
//!
//! See also: [DropBroadcasts], [PaintTee], [IPGWOptions], [FixIPSrc], [DecIPTTL], [IPFragmenter],
//! [IPInputCombo]

use graph::arguments::{Arguments, Refused, offset};
use graph::{Batch, Class, Context, Element, Setup};
use wire::{Reason, ipv4};

use super::fix_ip_src::FixIpSrc;
use super::ip_gw_options::Options;
use crate::basic::paint::Color;
use crate::basic::tee;
use crate::ethernet::drop_broadcasts;

/// See [`IpOutputCombo`].
pub const CLASS: Class = Class {
    name: "IPOutputCombo",
    ports: "1/5",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ip_output_combo.rs"),
    make,
};

/// Checks and changes what leaves.
struct IpOutputCombo {
    color: Color,
    options: Options,
    fix: FixIpSrc,
    mtu: usize,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let color = args.mandatory("COLOR");
    let address = args.mandatory("IPADDR");
    let mtu = args.mandatory::<u32>("MTU");
    args.finish()?;
    let address = address.ok_or(Refused)?;
    Ok(Box::new(IpOutputCombo {
        color: Color { color: color.ok_or(Refused)?, anno: offset::PAINT },
        options: Options::new(address, Vec::new()),
        fix: FixIpSrc { address },
        mtu: mtu.ok_or(Refused)? as usize,
    }))
}

impl Element for IpOutputCombo {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, _: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let group = drop_broadcasts::group(batch);
        batch.take(group, |_, packet| cx.drop(packet, Reason::Filtered));
        tee::copies(1, batch, self.color.of(batch), cx);
        let wrong = self.options.fill_in_all(batch, cx);
        cx.emit_some(2, batch, wrong);
        self.fix.fix_all(batch);
        let mut expired = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            let alive = packet.network_mut().first_chunk_mut().is_some_and(ipv4::decrement_ttl);
            expired |= u64::from(!alive) << index;
        }
        batch.take(expired, |_, packet| {
            if packet.network().len() < ipv4::HEADER {
                cx.drop(packet, Reason::Malformed);
            } else {
                cx.emit(3, packet);
            }
        });
        let mut large = 0u64;
        for (index, packet) in batch.packets().iter().enumerate() {
            large |= u64::from(packet.total_len() > self.mtu) << index;
        }
        cx.emit_some(4, batch, large);
        cx.emit_batch(0, batch);
    }
}
