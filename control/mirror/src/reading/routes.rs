//! Routes, of which there are a million: read by prefix, swept in pieces.

use super::{PASSES, Phase, Progress, Purpose, Reading, Step, Subject};
use crate::model::{Changes, Effect, Model, SourceId};
use crate::netlink::request::What;
use crate::netlink::route;
use ipnet::IpNet;

/// Prefixes that one step of a sweep looks at.
const SWEEP: usize = 4096;

impl Reading {
    /// Routes of one prefix and table arrive together, and are compared together.
    pub(super) fn route(
        &mut self,
        step: &mut Step,
        message: &route::RouteMessage,
        model: &mut Model,
        changes: &mut Changes,
    ) {
        let Some(route) = model.routes.route(message, SourceId::Netlink) else {
            *step.other_tables.entry(message.table).or_default() += 1;
            return;
        };
        let of = (message.prefix, route.table);
        if step.group_of != Some(of) {
            self.flush(step, model, changes);
            step.group_of = Some(of);
        }
        step.group.push(route);
    }

    pub(super) fn flush(&mut self, step: &mut Step, model: &mut Model, changes: &mut Changes) {
        let Some((prefix, table)) = step.group_of.take() else {
            return;
        };
        step.tell_once(model);
        let subject = Subject::Prefix(prefix);
        if self.passes_over(&subject) {
            step.group.drain(..).for_each(|route| model.routes.targets.release(route.target));
            return;
        }
        let repair = match &self.purpose {
            Purpose::Load => true,
            Purpose::Compare => false,
            Purpose::Confirm(suspects) => suspects.contains(&subject),
        };
        let before =
            matches!(self.purpose, Purpose::Confirm(_)).then(|| model.in_words(model.routes.at(&prefix)));
        if model.routes.settle(prefix, table, &mut step.group, repair) != Effect::Changed {
            return;
        }
        step.news = true;
        if repair {
            changes.prefixes.push((prefix, table));
        }
        let now = model.in_words(model.routes.at(&prefix));
        self.found(subject, || {
            let had = before.unwrap_or_default();
            format!("{prefix} in table {}: Linux has {now}, Bifrost had {had}", table.name())
        });
    }

    pub(super) fn sweep_routes(
        &mut self,
        step: &mut Step,
        after: Option<IpNet>,
        model: &mut Model,
        changes: &mut Changes,
    ) -> Progress {
        let ipv6 = step.what == What::Routes6;
        let (gone, last) = model.routes.unseen(ipv6, SourceId::Netlink, after, SWEEP);
        for (prefix, table) in gone {
            let subject = Subject::Prefix(prefix);
            if self.passes_over(&subject) {
                continue;
            }
            let had = || model.in_words(model.routes.at(&prefix));
            let says =
                || format!("{prefix} in table {}: Linux has no route, Bifrost had {}", table.name(), had());
            if self.found(subject, says) {
                model.routes.sweep(prefix, table, SourceId::Netlink);
                changes.prefixes.push((prefix, table));
            }
        }
        match last {
            // A sweep that began may go on without another drain: what is touched later is in
            // `touched`.
            Some(last) => {
                step.phase = Phase::Sweeping(Some(last));
                Progress::More
            }
            None => Progress::Done,
        }
    }

    /// Whether the dump that ended told something new, or did not mention something, while the
    /// table changed so that Linux may have left prefixes out of it.
    pub(super) fn may_have_left_out(&self, step: &Step, model: &Model) -> bool {
        let changed = |subject: &Subject| matches!(subject, Subject::Prefix(IpNet::V6(_)));
        // A comparison only collects suspects, which are read again anyway.
        step.what == What::Routes6
            && self.purpose != Purpose::Compare
            && step.passes < PASSES
            && self.touched.iter().any(changed)
            && (step.news || self.leaves_out(model))
    }

    /// Whether the model has IPv6 routes of which the read says nothing.
    fn leaves_out(&self, model: &Model) -> bool {
        let (gone, _) = model.routes.unseen(true, SourceId::Netlink, None, usize::MAX);
        gone.iter().any(|(prefix, _)| !self.passes_over(&Subject::Prefix(*prefix)))
    }
}

impl Step {
    /// A prefix whose routes ended one datagram, and which the next begins with again, is told
    /// twice.
    fn tell_once(&mut self, model: &mut Model) {
        let before = std::mem::take(&mut self.group_before);
        let (earlier, later) = self.group.split_at(before);
        let again = before > 0
            && later.len() >= before
            && earlier.iter().zip(later).all(|(one, other)| one.same(other));
        if again {
            self.group.drain(..before).for_each(|route| model.routes.targets.release(route.target));
        }
    }
}
