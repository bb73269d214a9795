//! Sections of the configuration, and how a change of several becomes one step: all of them, or
//! none.
//!
//! A part of the daemon that a section is for implements [`Section`]. A change asks each part to
//! prepare: that may fail, and touches nothing that anybody sees. When all have, each applies,
//! which cannot fail; when one refuses, those before it abort, and the configuration is what it
//! was. Before all that each kind of part judges the file, without the daemon being there:
//! [`examine`](super::verdict::examine).
//!
//! The order matters twice. Parts prepare in the order of the list, and whoever can be judged only
//! by trying stands last. They apply in the opposite order: rules hold before ports are taken for
//! which they are. Three parts cannot prepare beside what is in force: whether Linux takes
//! interfaces and routes, FRR its lines, and a service what it is told, is known only when they
//! have them. They prepare last of all, and take them back if they must.

use config::Router;
use elements::router::Sampling;
use graph::Registry;

use super::forwarding::Forwarding;

/// From one configuration to another.
pub(crate) struct Change {
    pub before: Router,
    pub after: Router,
    /// What will choose packets for sFlow; known when that part has prepared.
    pub sampling: Option<Sampling>,
}

impl Change {
    pub(super) fn new(before: &Router, after: Router) -> Change {
        Change { before: before.clone(), after, sampling: None }
    }

    /// Whether a part of the configuration changes.
    pub(super) fn differs<T: PartialEq>(&self, part: impl Fn(&Router) -> &T) -> bool {
        part(&self.before) != part(&self.after)
    }
}

/// A part of the daemon that one or several sections of the configuration are for.
pub(crate) trait Section {
    /// Judges its sections of a configuration that was read, alone: no part of the daemon is there.
    /// Warnings, a line each.
    ///
    /// # Errors
    /// What is wrong, for the operator.
    fn check(_router: &Router, _registry: &Registry) -> Result<Vec<String>, String>
    where
        Self: Sized,
    {
        Ok(Vec::new())
    }

    /// What the change will do here, for the operator: a line each, none where nothing changes.
    fn effects(&self, change: &Change) -> Vec<String>;

    /// Makes all that may be refused, beside what is in force.
    ///
    /// # Errors
    /// Why it cannot be, for the operator. Then nothing has changed here.
    fn prepare(&mut self, change: &mut Change, forwarding: &mut Forwarding) -> Result<(), String>;

    /// Puts in force what was prepared. The configuration of `forwarding` is the new one already.
    fn apply(&mut self, change: &Change, forwarding: &mut Forwarding);

    /// Takes back what was prepared.
    fn abort(&mut self, forwarding: &mut Forwarding);
}

/// Puts a change in force as a whole. `point` is done when all are prepared: it commits what is
/// beside the daemon, and the last that may fail.
///
/// # Errors
/// Why one of the sections refused, or `point` did; then all is as it was.
pub(super) fn put_in_force(
    sections: &mut [&mut dyn Section],
    mut change: Change,
    forwarding: &mut Forwarding,
    point: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    for number in 0..sections.len() {
        if let Err(wrong) = sections[number].prepare(&mut change, forwarding) {
            sections[..number].iter_mut().rev().for_each(|section| section.abort(forwarding));
            return Err(wrong);
        }
    }
    if let Err(wrong) = point() {
        sections.iter_mut().rev().for_each(|section| section.abort(forwarding));
        return Err(wrong);
    }
    forwarding.router = change.after.clone();
    sections.iter_mut().rev().for_each(|section| section.apply(&change, forwarding));
    Ok(())
}

/// What a change will do, a line each.
pub(super) fn effects(sections: &[&mut dyn Section], change: &Change) -> Vec<String> {
    sections.iter().rev().flat_map(|section| section.effects(change)).collect()
}
