//! Why an experiment, or a part of it, could not be made.

use std::io;

/// Why an experiment, or a part of it, could not be made. Shown as it is.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// Namespaces, links, or what runs in them.
    #[error(transparent)]
    Lab(#[from] lab::LabError),
    /// The generator or its sink.
    #[error(transparent)]
    Traffic(#[from] traffic::TrafficError),
    /// A text of the generator's: a size, a range.
    #[error("{0}")]
    Words(String),
    /// Programs in the driver.
    #[error(transparent)]
    Driver(#[from] port::DriverError),
    /// The route tables.
    #[error(transparent)]
    Fib(#[from] fib::FibError),
    /// The filter and the flow table.
    #[error(transparent)]
    Plane(#[from] plane::PlaneError),
    /// A search of RFC 2544.
    #[error(transparent)]
    Trial(#[from] trial::RunError),
    /// A graph that was refused.
    #[error("{0}")]
    Graph(String),
    /// The system.
    #[error("{what}: {error}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        error: io::Error,
    },
    /// The machine has not what it takes.
    #[error("{0}")]
    Machine(String),
    /// What was measured makes no sense, so it is no figure.
    #[error("{0}")]
    Wrong(String),
}

impl ExperimentError {
    /// For `map_err`: the system's word on something.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> ExperimentError {
        let what = what.into();
        move |error| ExperimentError::Io { what, error }
    }
}

impl From<graph::Refusal> for ExperimentError {
    fn from(refusal: graph::Refusal) -> ExperimentError {
        ExperimentError::Graph(refusal.to_string())
    }
}
