//! Handlers: what can be read and written of an element by name, while the graph runs.

use std::borrow::Cow;

/// One handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// Its name, unique in the element.
    pub name: Cow<'static, str>,
    /// Whether it can be read.
    pub reads: bool,
    /// Whether it can be written.
    pub writes: bool,
    /// Whether reading takes an argument.
    pub takes_argument: bool,
    /// Whether it is for use inside the configuration only: not listed, not open to the outside.
    pub private: bool,
    /// Whether its value changes only when it is written.
    pub calm: bool,
    /// The argument of the element's configuration that writing it replaces.
    pub replaces: Option<Replaces>,
}

/// An argument that a handler replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaces {
    /// Its place in a configuration that gives it by position; `None`: it has none.
    pub position: Option<usize>,
    /// Its keyword.
    pub keyword: &'static str,
}

impl Handler {
    /// One to be read.
    pub fn read(name: impl Into<Cow<'static, str>>) -> Handler {
        Handler {
            name: name.into(),
            reads: true,
            writes: false,
            takes_argument: false,
            private: false,
            calm: false,
            replaces: None,
        }
    }

    /// One to be written.
    pub fn write(name: impl Into<Cow<'static, str>>) -> Handler {
        Handler { reads: false, writes: true, ..Handler::read(name) }
    }

    /// One to be read and written.
    pub fn read_write(name: impl Into<Cow<'static, str>>) -> Handler {
        Handler { writes: true, ..Handler::read(name) }
    }

    /// The same, taking an argument when read.
    pub fn with_argument(self) -> Handler {
        Handler { takes_argument: true, ..self }
    }

    /// The same; writing it gives the element another argument, as if its whole configuration were
    /// written ([`Element::reconfigures`](crate::Element::reconfigures)).
    pub fn replacing(self, position: Option<usize>, keyword: &'static str) -> Handler {
        Handler { writes: true, replaces: Some(Replaces { position, keyword }), ..self }
    }

    /// The same, for use inside the configuration only.
    pub fn private(self) -> Handler {
        Handler { private: true, ..self }
    }
}

/// Why a handler was not read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// There is no such element.
    #[error("no element named '{0}'")]
    NoElement(String),
    /// The element has no such handler.
    #[error("no '{0}' handler")]
    NoHandler(String),
    /// It cannot be read.
    #[error("'{0}' is a write handler")]
    WriteOnly(String),
    /// It cannot be written.
    #[error("'{0}' is a read handler")]
    ReadOnly(String),
    /// It was given an argument, and takes none.
    #[error("read handler '{0}' does not take parameters")]
    NoArgument(String),
    /// The element is in the middle of something that led to this call.
    #[error("'{0}' is busy: its handlers cannot be called from what it does itself")]
    Busy(String),
    /// The element refused, and says why.
    #[error("{0}")]
    Refused(String),
}

impl HandlerError {
    /// For an element that was asked for a handler it does not know.
    pub fn unknown(handler: &str) -> HandlerError {
        HandlerError::NoHandler(handler.to_owned())
    }

    /// For an element that refuses.
    pub fn refused(message: impl Into<String>) -> HandlerError {
        HandlerError::Refused(message.into())
    }
}
