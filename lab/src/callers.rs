//! Hosts that call, and hosts that tell who called: so a test sees which address a connection seems
//! to come from, behind whatever translates.

use std::{
    io::{self, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::mpsc::channel,
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        socket::{
            AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, bind, connect, recv, send,
            setsockopt, socket, sockopt,
        },
        time::TimeVal,
    },
};

use crate::{Host, LabError, Result};

/// What tells by datagrams, whatever else it listens at.
const DATAGRAMS: u16 = 7;
/// How long somebody who calls waits, each time that it has to.
const PATIENCE: Duration = Duration::from_secs(4);

/// Tells everybody who calls which address calls, until it is dropped.
pub struct Teller {
    _until: UnixStream,
}

impl Host {
    /// Starts a [`Teller`] at these ports of TCP and at port 7 of UDP.
    ///
    /// # Errors
    /// One of the ports is taken.
    pub fn tells(&self, ports: &[u16]) -> Result<Teller> {
        let failed = || LabError::io(format!("ports of {}", self.name()));
        let (until, end) = UnixStream::pair().map_err(failed())?;
        let ports = ports.to_vec();
        let (ready, listens) = channel();
        self.inside(move || {
            let any = |port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
            let ends: io::Result<Vec<_>> = ports.iter().map(|port| TcpListener::bind(any(*port))).collect();
            let both = ends.and_then(|ends| Ok((ends, UdpSocket::bind(any(DATAGRAMS))?)));
            let made = both.map(|(ends, datagrams)| (ready.send(Ok(())), ends, datagrams));
            match made {
                Ok((_, ends, datagrams)) => tell(&ends, &datagrams, &end),
                Err(error) => drop(ready.send(Err(error))),
            }
        })?;
        listens.recv().map_err(io::Error::other).and_then(|made| made).map_err(failed())?;
        Ok(Teller { _until: until })
    }

    /// Calls by `tcp` or `udp` from an address (empty: any) and port (0: any). Returns which
    /// address is said to have called; `-`: nobody answers.
    ///
    /// # Errors
    /// What was given is no address.
    pub fn call(&self, protocol: &str, (from, own): (&str, u16), (to, port): (&str, u16)) -> Result<String> {
        let address = |text: &str| text.parse().map_err(|e| LabError::io(text)(io::Error::other(e)));
        let to: IpAddr = address(to)?;
        let from = match from {
            "" if to.is_ipv4() => Ipv4Addr::UNSPECIFIED.into(),
            "" => Ipv6Addr::UNSPECIFIED.into(),
            from => address(from)?,
        };
        let kind = if protocol == "udp" { SockType::Datagram } else { SockType::Stream };
        let (from, to) = (SocketAddr::new(from, own), SocketAddr::new(to, port));
        let calling = self.inside(move || told(kind, from, to))?;
        let told = calling.join().map_err(|_| LabError::io("a call")(io::Error::other("it panicked")))?;
        Ok(told.unwrap_or_else(|_| "-".to_owned()))
    }
}

/// Until the other side of `end` is gone.
fn tell(ends: &[TcpListener], datagrams: &UdpSocket, end: &UnixStream) {
    loop {
        let all = ends.iter().map(AsFd::as_fd).chain([datagrams.as_fd(), end.as_fd()]);
        let mut all: Vec<PollFd> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        if poll(&mut all, PollTimeout::NONE).is_err() {
            continue;
        }
        let comes: Vec<bool> = all.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        if comes[ends.len() + 1] {
            return;
        }
        // Who is gone by now need not be told.
        for (listener, _) in ends.iter().zip(&comes).filter(|(_, comes)| **comes) {
            if let Ok((mut call, who)) = listener.accept() {
                let _gone = call.write_all(who.ip().to_canonical().to_string().as_bytes());
            }
        }
        if comes[ends.len()]
            && let Ok((_, who)) = datagrams.recv_from(&mut [0; 100])
        {
            let _gone = datagrams.send_to(who.ip().to_canonical().to_string().as_bytes(), who);
        }
    }
}

/// Calls, and returns what it is told.
fn told(kind: SockType, from: SocketAddr, to: SocketAddr) -> nix::Result<String> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let end: OwnedFd = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    let patience = TimeVal::from(nix::libc::timeval { tv_sec: PATIENCE.as_secs() as i64, tv_usec: 0 });
    setsockopt(&end, sockopt::ReuseAddr, &true)?;
    setsockopt(&end, sockopt::ReceiveTimeout, &patience)?;
    setsockopt(&end, sockopt::SendTimeout, &patience)?;
    let end = end.as_raw_fd();
    bind(end, &SockaddrStorage::from(from))?;
    connect(end, &SockaddrStorage::from(to))?;
    if kind == SockType::Datagram {
        send(end, b"?", MsgFlags::empty())?;
    }
    let mut said = [0; 100];
    let length = recv(end, &mut said, MsgFlags::empty())?;
    Ok(String::from_utf8_lossy(&said[..length]).into_owned())
}
