//! SetVLANAnno: notes in packets which VLAN tag they are to get.
//!
//! Group: ethernet
//! Usage: `SetVLANAnno([VLAN_TCI, VLAN_PCP, VLAN_ID])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Sets the VLAN annotation, which [VLANEncap] and [EtherVLANEncap] follow when they are told
//! `ANNO`.
//!
//! - `VLAN_TCI` (number to 0xffff): the whole tag
//! - `VLAN_PCP` (0 to 7): the priority; default 0
//! - `VLAN_ID` (number to 0xfff): the VLAN's number, where `VLAN_TCI` is not given
//!
//! Handlers:
//! - `vlan_tci` (read, write): the annotation that is set
//! - `vlan_id`, `vlan_pcp` (read, write): its parts; another `vlan_id` counts where `VLAN_TCI` is
//!   not given
//! - `config` (read, write): its arguments
//!
//! See also: [VLANEncap], [EtherVLANEncap]
//!
//! # SetVlanAnno: the old name of SetVLANAnno.
//!
//! Group: ethernet
//! Usage: `SetVlanAnno([VLAN_TCI, VLAN_PCP, VLAN_ID])`
//! Ports: 1 input, 1 output; agnostic
//!
//! See [SetVLANAnno].
//!
//! See also: [SetVLANAnno]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

use super::vlan_tag::{ID, annotate, plain, within};

pub const CLASS: Class = Class {
    name: "SetVLANAnno",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("set_vlan_anno.rs"),
    make,
};

/// The class `SetVlanAnno`.
pub const OLD_NAME: Class = Class { name: "SetVlanAnno", ..CLASS };

struct SetVlanAnno(u16);

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let tci = args.optional_with("VLAN_TCI", |text, _| within(text, 0, 0xffff));
    let tci = plain(args, tci);
    args.finish()?;
    Ok(Box::new(SetVlanAnno(tci)))
}

impl Element for SetVlanAnno {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.packets_mut().iter_mut().for_each(|packet| annotate(packet, self.0));
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![
            Handler::read("config"),
            Handler::read("vlan_tci").replacing(None, "VLAN_TCI"),
            Handler::read("vlan_id").replacing(None, "VLAN_ID"),
            Handler::read("vlan_pcp").replacing(None, "VLAN_PCP"),
        ]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        let (id, priority) = (self.0 & ID, self.0 >> 13);
        match handler {
            "config" => Ok(format!("VLAN_ID {id}, VLAN_PCP {priority}")),
            "vlan_tci" => Ok(self.0.to_string()),
            "vlan_id" => Ok(id.to_string()),
            "vlan_pcp" => Ok(priority.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
