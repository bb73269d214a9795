//! Connections: so many at once, so many from one address, and none that stands still.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::Shared;

/// Connections at once.
const CONNECTIONS: usize = 64;
/// The same of one address (of IPv6: of a /64).
const OF_ONE: usize = 16;
/// How long the handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long the head of a request may take; as well, how long a connection may be idle.
const HEAD: Duration = Duration::from_secs(20);
/// How long a client may take nothing of its answer.
const STUCK: Duration = Duration::from_secs(15);
/// Longest head of a request.
const LONGEST_HEAD: usize = 32 * 1024;

/// Who sent a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct From(pub SocketAddr);

/// How many connections there are, by network: of all and of one network only so many.
#[derive(Clone, Default)]
pub(super) struct ConnectionLimit(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// The right to one connection, given back when it is dropped.
struct Permit {
    limit: ConnectionLimit,
    of: IpAddr,
}

impl ConnectionLimit {
    fn take(&self, address: IpAddr) -> Option<Permit> {
        let of = network(address);
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let own = taken.get(&of).copied().unwrap_or(0);
        if all >= CONNECTIONS || own >= OF_ONE {
            return None;
        }
        taken.insert(of, own + 1);
        Some(Permit { limit: self.clone(), of })
    }

    pub fn taken(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.limit.0.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.of) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(taken.remove(&self.of)),
        }
    }
}

/// Whose an address is: a host of IPv6 has a whole /64.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => match six.to_ipv4_mapped() {
            Some(four) => four.into(),
            None => Ipv6Addr::from(u128::from(six) & !u128::from(u64::MAX)).into(),
        },
        four => four,
    }
}

/// Takes connections for ever.
pub(super) async fn accept(listener: TcpListener, tls: Arc<ServerConfig>, app: Router, shared: Arc<Shared>) {
    let acceptor = TlsAcceptor::from(tls);
    loop {
        match listener.accept().await {
            Ok((stream, from)) => match shared.connection_limit.take(from.ip()) {
                Some(permit) => {
                    let serving = serve(stream, from, acceptor.clone(), app.clone());
                    tokio::spawn(async move {
                        let _permit = permit;
                        serving.await;
                    });
                }
                None => drop(shared.figures.refused_connections.fetch_add(1, Relaxed)),
            },
            // Out of file descriptors, or a client that left at once.
            Err(_) => sleep(Duration::from_millis(200)).await,
        }
    }
}

async fn serve(stream: TcpStream, from: SocketAddr, acceptor: TlsAcceptor, app: Router) {
    // That small answers wait for others to fill a packet is of no use here.
    let _ = stream.set_nodelay(true);
    let stream = Moving { stream, stuck: None };
    let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
    let from = SocketAddr::new(from.ip().to_canonical(), from.port());
    let service = TowerToHyperService::new(app.layer(Extension(From(from))));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    // A client that leaves early, or is let go, is no trouble of the router's.
    let _ = served.await;
}

/// A connection that ends when its client takes nothing any more.
struct Moving {
    stream: TcpStream,
    stuck: Option<Pin<Box<Sleep>>>,
}

impl Moving {
    fn judge<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stuck = None;
            return done;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(STUCK)));
        match stuck.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Moving {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Moving {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(cx, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judge(cx, done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_take_all_connections() {
        let limit = ConnectionLimit::default();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let own: Vec<_> = (0..OF_ONE).map(|_| limit.take(address("2001:db8::1")).unwrap()).collect();
        assert!(limit.take(address("2001:db8::ffff:2")).is_none(), "the same /64");
        let others: Vec<_> = (0..255).map_while(|n| limit.take(address(&format!("192.0.2.{n}")))).collect();
        assert_eq!(own.len() + others.len(), CONNECTIONS);
        drop(own);
        assert_eq!(limit.taken(), CONNECTIONS - OF_ONE);
        assert!(limit.take(address("2001:db8::2")).is_some());
        drop(others);
        assert_eq!(limit.taken(), 0);
        assert_eq!(network(address("::ffff:192.0.2.1")), address("192.0.2.1"));
    }
}
