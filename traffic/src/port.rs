//! Where packets go and come from.
//!
//! A port is named by a text:
//!
//! | text | port |
//! |---|---|
//! | `eth1` | an interface: zero-copy AF_XDP where its driver has it, else XDP live frames out and a counting XDP program in |
//! | `eth1@NAME` | an interface in a network namespace (`ip netns`) |
//! | `xsk:eth1` | an interface by AF_XDP, copying if need be |
//! | `live:eth1` | an interface by live frames and the counting program |
//! | `memif:SOCKET[,id=N][,role=server]...` | shared memory |
//! | `pcap:FILE` | a file, written |
//! | `memory` | a pipe in this process: what is sent there is received there |

use std::sync::{Arc, Mutex};

use crate::TrafficError;

/// An open port: a handle that may be cloned.
#[derive(Clone)]
pub struct Port(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) queues: Vec<Mutex<Box<dyn ::port::Queue>>>,
}

impl Port {
    /// Opens the port that a text names. An interface that the machine itself lives on is refused unless `force`.
    pub fn open(name: &str, force: bool) -> Result<Port, TrafficError> {
        let _ = force;
        Err(TrafficError::PortName { text: name.to_owned(), reason: "nothing is known yet".to_owned() })
    }

    /// A port of queues that are open already, which take packets of any pool: memif, memory, files. Each sending
    /// core uses its own queue as far as there are enough.
    pub fn of_queues(name: &str, queues: Vec<Box<dyn ::port::Queue>>) -> Port {
        Port(Arc::new(Inner { name: name.to_owned(), queues: queues.into_iter().map(Mutex::new).collect() }))
    }

    /// What it was called.
    pub fn name(&self) -> &str {
        &self.0.name
    }
}
