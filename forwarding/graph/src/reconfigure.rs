//! Another configuration for an element that runs: Click's live reconfiguration.
//!
//! Writing an element's `config` handler makes a new element of its class. It has the same name and
//! ports, begins, and takes the old one's place with what that one knew. When the arguments are
//! wrong, or the new one cannot begin, the old one stays as it is. Some handlers write one argument
//! only.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::arguments::{Arguments, Scope, replace};
use crate::handler::Replaces;
use crate::language::{Report, split_arguments, unparse};
use crate::{Class, Context, Element, Environment, HandlerError, NodeId, Setup};

/// What the elements of a graph were made of. Empty for a graph that no text describes.
#[derive(Default)]
pub(crate) struct Origin {
    /// By node.
    classes: Vec<&'static Class>,
    environment: Environment,
    /// Configurations that were written since. Locked by handlers only, never for packets.
    written: Mutex<HashMap<NodeId, String>>,
}

impl Origin {
    pub(crate) fn new(classes: Vec<&'static Class>, environment: Environment) -> Origin {
        Origin { classes, environment, written: Mutex::default() }
    }

    /// The configuration that was written to an element.
    pub(crate) fn written(&self, node: NodeId) -> Option<String> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).get(&node).cloned()
    }
}

impl Context<'_> {
    /// An element's present configuration.
    pub(crate) fn configuration(&self, node: NodeId) -> String {
        let described = self.wiring.description.nodes.get(node.0);
        let given = || described.map_or(String::new(), |node| node.configuration.clone());
        self.wiring.origin.written(node).unwrap_or_else(given)
    }

    /// The configuration without compounds, with what was written to elements.
    pub(crate) fn flat_configuration(&self) -> String {
        let mut flat = self.wiring.about.flat.clone();
        for (node, element) in flat.elements.iter_mut().enumerate() {
            element.configuration = self.configuration(NodeId(node));
        }
        unparse(&flat)
    }

    /// Gives an element another configuration.
    pub(crate) fn reconfigure(&mut self, node: NodeId, text: &str) -> Result<(), HandlerError> {
        let may = self.with_element(node, |element, _| element.reconfigures());
        if !may.ok_or_else(|| self.busy(node))? {
            return Err(HandlerError::ReadOnly("config".to_owned()));
        }
        let mut new = self.make(node, text)?;
        let old = self.machine.elements[node.0].take().ok_or_else(|| self.busy(node))?;
        let begun = match self.of(node) {
            Some(mut cx) => new.initialize(&mut cx),
            None => Ok(()),
        };
        if let Err(reason) = begun {
            self.machine.elements[node.0] = Some(old);
            return Err(HandlerError::Refused(reason));
        }
        if let Some(mut cx) = self.of(node) {
            new.succeed(old, &mut cx);
            if new.full() == Some(false) {
                cx.room_again();
            }
        }
        self.machine.elements[node.0] = Some(new);
        let mut written = self.wiring.origin.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.insert(node, text.to_owned());
        Ok(())
    }

    /// Gives an element another value of one argument.
    pub(crate) fn replace(
        &mut self,
        node: NodeId,
        argument: Replaces,
        value: &str,
    ) -> Result<(), HandlerError> {
        if split_arguments(value).len() > 1 {
            return Err(HandlerError::refused(format!("{}: too many arguments", argument.keyword)));
        }
        let text = replace(&self.configuration(node), argument.position, argument.keyword, value.trim());
        self.reconfigure(node, &text)
    }

    fn make(&mut self, node: NodeId, text: &str) -> Result<Box<dyn Element>, HandlerError> {
        let (wiring, mut report) = (self.wiring, Report::new());
        let described = wiring.description.nodes.get(node.0).zip(wiring.origin.classes.get(node.0));
        let (described, class) = described.ok_or_else(|| HandlerError::ReadOnly("config".to_owned()))?;
        let mut setup = Setup {
            name: &described.name,
            inputs: described.inputs.len(),
            outputs: described.outputs.len(),
            environment: &wiring.origin.environment,
        };
        let scope = Scope::new(&wiring.about.names, &described.name);
        let made = (class.make)(&mut Arguments::new(text, scope, &mut report), &mut setup);
        let said = report.messages().iter().map(|message| message.message.as_str());
        match made {
            Ok(element) => {
                said.for_each(|line| (self.machine.voice)(&format!("  warning: {line}")));
                Ok(element)
            }
            Err(_) => Err(HandlerError::refused(said.collect::<Vec<_>>().join("\n"))),
        }
    }
}
