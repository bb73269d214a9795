//! Requests and answers of one byte over TCP, one after the other, as netperf's TCP_RR makes them:
//! what a routing daemon or an operator's shell feels of the router's load.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lab::Host;

use crate::ExperimentError;
use crate::measure::{pin, quantile};

const PORT: u16 = 5001;
/// How long either end waits before it looks whether all is over.
const LOOK: Duration = Duration::from_millis(100);
/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a client saw.
#[derive(Clone, Copy, Debug)]
pub struct Transactions {
    /// Transactions a second.
    pub rate: f64,
    /// How long half of them took at most, in microseconds; and 99 of 100. NaN when there was none.
    pub half: f64,
    pub most: f64,
}

/// Answers transactions, on a host.
pub struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on all of the host's addresses; answers on `core`.
    pub fn start(host: &Host, core: usize) -> Result<Server, ExperimentError> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let (ready, bound) = std::sync::mpsc::channel();
        let thread = host.inside(move || {
            let listener = pin(0, core).and_then(|()| {
                let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))
                    .map_err(ExperimentError::io("listening"))?;
                listener.set_nonblocking(true).map_err(ExperimentError::io("listening"))?;
                Ok(listener)
            });
            match listener {
                Ok(listener) => {
                    let _starter_waits = ready.send(Ok(()));
                    serve(&listener, &seen);
                }
                Err(error) => {
                    let _starter_waits = ready.send(Err(error));
                }
            }
        })?;
        let server = Server { stop, thread: Some(thread) };
        bound.recv().unwrap_or_else(|_| Err(ExperimentError::Wrong("the server ended".to_owned())))?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _nobody_asks = thread.join();
        }
    }
}

/// One connection after the other.
fn serve(listener: &TcpListener, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        // A connection that breaks is the client's to notice.
        let _broken = answer(stream, stop);
    }
}

fn answer(mut stream: TcpStream, stop: &AtomicBool) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK))?;
    let mut byte = [0];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut byte) {
            Ok(0) => return Ok(()),
            Ok(_) => stream.write_all(&byte)?,
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Makes transactions from a host, on a core, for a while. None at all is an answer, too: a router
/// whose control is dead.
pub fn transact(
    host: &Host,
    core: usize,
    server: &str,
    time: Duration,
) -> Result<Transactions, ExperimentError> {
    let address: Ipv4Addr =
        server.parse().map_err(|_| ExperimentError::Words(format!("`{server}` is no address")))?;
    let work = move || {
        pin(0, core)?;
        Ok(client((address, PORT).into(), time))
    };
    host.inside(work)?
        .join()
        .unwrap_or_else(|_| Err(ExperimentError::Wrong("the client panicked".to_owned())))
}

fn client(server: SocketAddr, time: Duration) -> Transactions {
    let begin = Instant::now();
    let mut took = Vec::new();
    let connected = TcpStream::connect_timeout(&server, PATIENCE);
    let mut seconds = time.as_secs_f64();
    if let Ok(mut stream) = connected {
        // What a connection takes is not what is measured.
        let start = Instant::now();
        // A connection that breaks leaves the transactions that it had.
        let _broken = converse(&mut stream, start + time, &mut took);
        seconds = start.elapsed().as_secs_f64();
    } else {
        seconds = seconds.max(begin.elapsed().as_secs_f64());
    }
    Transactions {
        rate: took.len() as f64 / seconds,
        half: quantile(&took, 0.5),
        most: quantile(&took, 0.99),
    }
}

fn converse(stream: &mut TcpStream, end: Instant, took: &mut Vec<f64>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK))?;
    let mut byte = [7];
    while Instant::now() < end {
        let begin = Instant::now();
        stream.write_all(&byte)?;
        loop {
            match stream.read(&mut byte) {
                Ok(0) => return Ok(()),
                Ok(_) => break,
                Err(error) if is_timeout(&error) && Instant::now() < end => {}
                Err(error) => return Err(error),
            }
        }
        took.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_made_and_none_is_an_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            scope.spawn(|| serve(&listener, &stop));
            let seen = client(address, Duration::from_millis(100));
            stop.store(true, Ordering::Relaxed);
            seen
        });
        assert!(seen.rate > 10.0 && seen.half > 0.0 && seen.most >= seen.half, "{seen:?}");
        drop(listener);
        let seen = client(address, Duration::from_millis(10));
        assert!(seen.rate == 0.0 && seen.half.is_nan(), "{seen:?}");
    }
}
