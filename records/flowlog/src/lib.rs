//! The flow log: what passed the router, flow by flow.
//!
//! | module | what is there |
//! |---|---|
//! | [`record`] | one ended flow, or a slice of a long one |
//! | [`Accounts`] | records of what the flow table says |
//! | [`Sender`], [`FlowLog`] | from the forwarding core's queues to every way out |
//! | [`export`] | IPFIX and NetFlow 9 to collectors |
//! | [`sflow`] | sFlow: sampled packets and interface counters |
//! | [`store`] | files: a journal, and Parquet made of it |
//! | [`query`] | `bifrost flows`: filters, sums, tables |
//! | [`private`] | files that nobody else reads or chooses |
//! | [`settings`] | what an operator says about all this |
//!
//! The core is held up by nothing here: it leaves a record in a queue of its own and goes on.
//! Behind it, each way out has its own thread and its own bounded queue. What is lost anywhere is
//! counted there, with a reason ([`tally`]).

mod accounts;
mod clock;
pub mod export;
mod output;
mod pipeline;
pub mod private;
pub mod query;
mod queue;
pub mod record;
#[cfg(test)]
mod samples;
pub mod settings;
pub mod sflow;
mod sink;
pub mod store;
pub mod tally;
#[cfg(test)]
mod tools;

pub use accounts::Accounts;
pub use output::StartError;
pub use pipeline::{FlowLog, Names, Status};
pub use queue::Sender;
pub use record::Record;
