//! Kinds of elements, as the language knows them: by name, with their ports, their arguments and
//! how one is made.
//!
//! A crate lists its classes in a table; a program puts the tables that it wants into a
//! [`Registry`]. The documentation of a class is the head of its source file, so that it stands
//! where the code does.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::Element;
use crate::arguments::{Arguments, Refused};

/// A kind of element.
#[derive(Debug)]
pub struct Class {
    /// Its name in the language.
    pub name: &'static str,
    /// How many inputs and outputs it may have, in Click's form: `1/1`, `1/1-2`, `-/1` (any
    /// number), `0/0`, `=` on the right (as many outputs as inputs), `=+` (one more). `!` behind
    /// the inputs: packets enter there from outside the graph ([`Graph::run`](crate::Graph::run)),
    /// and they need not be connected.
    pub ports: &'static str,
    /// Who passes packets on at each port, in Click's form: inputs, a slash, outputs; `h` push, `l`
    /// pull, `a` agnostic; the last letter stands for all further ports: `a/ah`, `h/l`.
    pub processing: &'static str,
    /// Which outputs packets from an input can leave by, in Click's form: `x/x` (any), `#/#` (the
    /// one of the same number), `x/y` (none). Agnostic ports between which packets pass are of one
    /// kind.
    pub flow: &'static str,
    /// The source text of the file it is in, whose leading `//!` lines document it.
    pub source: &'static str,
    /// Makes an element from its arguments. Mistakes are noted in the arguments' report.
    pub make: Make,
}

/// How an element is made from its arguments.
pub type Make = fn(&mut Arguments<'_>, &mut Setup<'_>) -> Result<Box<dyn Element>, Refused>;

impl Class {
    /// What most are: one input, one output, agnostic.
    pub const AGNOSTIC: &'static str = "a/a";
    /// Packets are pushed.
    pub const PUSH: &'static str = "h/h";
    /// Packets are pulled.
    pub const PULL: &'static str = "l/l";
    /// Pushed in, pulled out: a queue.
    pub const PUSH_TO_PULL: &'static str = "h/l";
    /// Pulled in, pushed out: it moves packets by its own task.
    pub const PULL_TO_PUSH: &'static str = "l/h";
    /// A packet from any input may leave by any output.
    pub const COMPLETE_FLOW: &'static str = "x/x";
}

/// What an element may know of its context while it is made.
pub struct Setup<'a> {
    /// Its name.
    pub name: &'a str,
    /// How many of its inputs are connected.
    pub inputs: usize,
    /// How many of its outputs are connected.
    pub outputs: usize,
    /// What elements of this program share.
    pub environment: &'a Environment,
}

/// What elements of a program share: tables, devices, services, one of each type.
#[derive(Clone, Default)]
pub struct Environment {
    shared: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Environment {
    /// Nothing shared.
    pub fn new() -> Environment {
        Environment::default()
    }

    /// Shares a thing, instead of the one of this type that was shared before.
    pub fn share<T: Any + Send + Sync>(&mut self, thing: T) -> &mut Self {
        self.shared.insert(TypeId::of::<T>(), Arc::new(thing));
        self
    }

    /// What is shared of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.shared.get(&TypeId::of::<T>()).cloned()?.downcast().ok()
    }
}

/// The classes that a program knows.
#[derive(Clone, Default)]
pub struct Registry {
    classes: BTreeMap<&'static str, &'static Class>,
}

impl Registry {
    /// None.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds classes. One of the same name as another replaces it.
    pub fn add(&mut self, classes: &[&'static Class]) -> &mut Self {
        self.classes.extend(classes.iter().map(|class| (class.name, *class)));
        self
    }

    /// The class of a name.
    pub fn find(&self, name: &str) -> Option<&'static Class> {
        self.classes.get(name).copied()
    }

    /// The class whose name is most like `name`, if one is like it at all.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        let lower = name.to_lowercase();
        let like = |class: &&'static str| strsim::damerau_levenshtein(&class.to_lowercase(), &lower);
        let nearest = self.classes.keys().copied().min_by_key(like)?;
        (like(&nearest) <= name.len().div_ceil(3)).then_some(nearest)
    }

    /// All classes, by name.
    pub fn classes(&self) -> impl Iterator<Item = &'static Class> + '_ {
        self.classes.values().copied()
    }
}
