//! Batches, the Element trait and the executor.
//!
//! Everything that happens to a packet is an [`Element`] in a [`Graph`]. A worker has its own
//! instance of the graph; nothing in it is shared but tables to read and counters to be read.
//!
//! | file | what it is |
//! |---|---|
//! | [`batch`] | up to 64 packets on their way together |
//! | [`element`] | what an element is |
//! | [`context`] | what an element may do with a packet: emit, drop, transmit, punt |
//! | [`builder`] | naming and connecting elements, and the checks before a graph runs |
//! | [`executor`] | running a batch through the graph |
//! | [`driver`] | running a graph until it is asked to stop |
//! | [`sinks`] | where packets end up that leave the graph |
//! | [`counters`] | what passed, what was dropped and why, what it cost; readable from any thread |
//! | [`observer`] | following packets, for trace and capture |
//! | [`description`] | the graph as nodes and edges, and as text |
//! | [`drawing`] | a graph as a picture, for Graphviz and as SVG |
//! | [`reference`] | the elements' documentation, for the terminal and as HTML |
//! | [`bench`] | the cost of the framework itself |

pub mod arguments;
pub mod batch;
pub mod bench;
pub mod builder;
pub mod calls;
pub mod class;
pub mod clock;
pub mod context;
pub mod counters;
pub mod description;
pub mod drawing;
pub mod driver;
pub mod element;
pub mod executor;
mod fabric;
pub mod handler;
pub mod language;
mod markup;
pub mod observer;
mod processing;
pub mod program;
mod reconfigure;
pub mod reference;
mod room;
mod schedule;
pub mod sinks;
mod swap;
mod threads;

pub use batch::{BATCH, Batch};
pub use bench::{Direct, null_chain};
pub use builder::{GraphBuilder, GraphError, NodeId};
pub use calls::About;
pub use class::{Class, Environment, Registry, Setup};
pub use clock::{Clock, steady_now};
pub use context::Context;
pub use counters::{GraphCounters, NodeCounters};
pub use description::{Description, Edge, Flow, Node};
pub use driver::Driver;
pub use element::Element;
pub use executor::{Compile, Graph, Manner, cycles};
pub use handler::{Handler, HandlerError};
pub use observer::Observer;
pub use program::{Program, Refusal, Sources};
pub use sinks::{Hand, Sinks};
