//! A trial: streams sent out of one port and received by another.

use std::time::Duration;

use crate::{Port, Report, Stream, TrafficError};

/// Streams, where they are sent and received, and for how long.
///
/// ```no_run
/// # fn main() -> Result<(), traffic::TrafficError> {
/// use std::time::Duration;
/// use traffic::{Port, Stream, Trial};
///
/// let stream = Stream { rate: "1Mpps".parse().expect("a rate"), flows: 65_536, ..Stream::default() };
/// let trial = Trial {
///     streams: vec![stream],
///     to: Some(Port::open("veth1@sink", false)?),
///     duration: Some(Duration::from_secs(10)),
///     ..Trial::new(Port::open("veth0@source", false)?)
/// };
/// println!("{:?}", trial.run()?.loss_ratio());
/// # Ok(())
/// # }
/// ```
///
/// Trials in both directions, or over several pairs of ports, are several trials started together: a [`Port`] is a handle
/// that may be cloned, and may send in one trial and receive in another at the same time.
#[derive(Clone)]
pub struct Trial {
    /// What is sent; 1 to [`MOST_STREAMS`](crate::stream::MOST_STREAMS).
    pub streams: Vec<Stream>,
    /// Where it is sent.
    pub from: Port,
    /// Where it arrives; nothing is known of what arrives without it.
    pub to: Option<Port>,
    /// How long packets are sent; until [`Running::stop`] when neither this nor `count` is given.
    pub duration: Option<Duration>,
    /// Packets of each stream at most.
    pub count: Option<u64>,
    /// Cores that send, each its part of every stream's flows; one thread on any core when empty.
    pub cores: Vec<usize>,
    /// The core that receives, where packets are received by a thread; any when not given.
    pub sink_core: Option<usize>,
    /// How long to wait for stragglers after the last packet was sent.
    pub drain: Duration,
    /// What the line carries, in bits a second, for rates in percent; what the port says when not given.
    pub line: Option<f64>,
}

impl Trial {
    /// No streams yet, out of this port, for ever; stragglers are waited for for 200 ms.
    pub fn new(from: Port) -> Trial {
        Trial {
            streams: Vec::new(),
            from,
            to: None,
            duration: None,
            count: None,
            cores: Vec::new(),
            sink_core: None,
            drain: Duration::from_millis(200),
            line: None,
        }
    }

    /// Runs it to its end.
    pub fn run(self) -> Result<Report, TrafficError> {
        self.start()?.wait()
    }

    /// Starts it and returns as soon as packets may leave.
    ///
    /// # Errors
    /// Anything wrong with a stream, a port or the kernel; nothing has been sent then.
    pub fn start(self) -> Result<Running, TrafficError> {
        Err(TrafficError::NoStreams)
    }
}

/// A trial under way. Dropping it stops it.
pub struct Running {}

impl Running {
    /// How it stands.
    pub fn report(&self) -> Report {
        Report::default()
    }

    /// Whether everything has been sent and received.
    pub fn is_over(&self) -> bool {
        true
    }

    /// Ends it early: nothing more is sent. May be called from a signal's thread.
    pub fn stop(&self) {}

    /// Waits for its end.
    pub fn wait(self) -> Result<Report, TrafficError> {
        Ok(self.report())
    }
}
