//! VLANs of bridges' members. Linux may say those of one in several messages: all are gathered
//! before they are compared.

use super::{Reading, Step, Subject};
use crate::model::{Changes, MemberVlans, Model};
use crate::netlink::vlan::VlansMessage;
use std::collections::HashMap;

/// What a dump has said of them so far, by member.
pub(super) type Gathered = HashMap<u32, MemberVlans>;

impl Step {
    pub(super) fn gather(&mut self, message: &VlansMessage) {
        let vlans = self.vlans.entry(message.ifindex).or_default();
        message.entries.iter().for_each(|entry| vlans.change(entry, true));
    }
}

impl Reading {
    /// The dump is over.
    pub(super) fn take_vlans(&mut self, step: &mut Step, model: &mut Model, changes: &mut Changes) {
        for (ifindex, vlans) in std::mem::take(&mut step.vlans) {
            let agrees = *model.links.vlans_of(ifindex) == vlans;
            let subject = Subject::Vlans(ifindex);
            let words = subject.in_words(model);
            if self.must_set(step, subject, agrees, || format!("{words} otherwise")) {
                model.set_vlans(ifindex, vlans, changes);
            }
        }
    }
}
