//! The thread that passes messages between hosts and servers.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::mpsc::{Sender, TryRecvError};
use std::time::Duration;

use relay::{Refused, four, six};
use tracing::{debug, warn};
use wire::Mac;

use super::super::orders::Inbox;
use super::socket::{HostSocket, bound, host6, hosts6};
use crate::subject::DhcpRelayStatus;

/// Where hosts are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClientLink {
    pub(super) relay: String,
    pub(super) interface: String,
    /// 0: it is not there.
    pub(super) ifindex: u32,
    pub(super) mac: Option<Mac>,
    /// If hosts of IPv4 are served: this router's address there, or why it has none.
    pub(super) four: Option<Result<Ipv4Addr, String>>,
    /// The same for IPv6.
    pub(super) six: Option<Result<Source6, String>>,
    pub(super) servers4: Vec<Ipv4Addr>,
    pub(super) servers6: Vec<Ipv6Addr>,
    pub(super) agent: four::Agent,
}

/// This router on a link of IPv6.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Source6 {
    /// By which servers know the link; unspecified: by the interface's name.
    pub(super) link: Ipv6Addr,
    /// From which they are asked.
    pub(super) from: Ipv6Addr,
}

/// What the thread is told.
pub(super) enum Order {
    /// Where hosts are from now on.
    Relay(Vec<ClientLink>),
    /// Say how it is.
    Status(Sender<Vec<DhcpRelayStatus>>),
    /// End.
    Stop(Sender<()>),
}

/// A link as the thread has it.
struct Interface {
    link: ClientLink,
    hosts4: Option<HostSocket>,
    /// With the interface's number.
    hosts6: Option<(UdpSocket, u32)>,
    counts: [Counts; 2],
    /// Why hosts are not heard, or servers not asked.
    broken: [Option<String>; 2],
}

/// Of a family.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    asked: u64,
    answered: u64,
    refused: u64,
    lost: u64,
}

const FOUR: usize = 0;
const SIX: usize = 1;

pub(super) struct Runner {
    inbox: Inbox<Order>,
    interfaces: Vec<Interface>,
    /// Towards servers, by this router's address.
    server_facing: HashMap<SocketAddr, UdpSocket>,
}

/// Messages in a row of one socket before another has its turn.
const MESSAGES: usize = 64;
/// Between two times that a socket is tried that could not be had: another program may have the
/// port.
const PAUSE: Duration = Duration::from_secs(1);

impl Runner {
    pub(super) fn new(inbox: Inbox<Order>) -> Runner {
        Runner { inbox, interfaces: Vec::new(), server_facing: HashMap::new() }
    }

    pub(super) fn run(mut self) {
        let mut buffer = vec![0; 1 << 16];
        loop {
            loop {
                match self.inbox.next() {
                    Ok(Order::Relay(links)) => self.follow(links),
                    Ok(Order::Status(answer)) => {
                        // Who asked may not have waited.
                        let _ = answer.send(self.interfaces.iter().flat_map(Interface::status).collect());
                    }
                    Ok(Order::Stop(done)) => {
                        drop(self);
                        let _ = done.send(());
                        return;
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            self.open();
            let broken = self.interfaces.iter().flat_map(|interface| &interface.broken).any(Option::is_some);
            let hosts4 =
                self.interfaces.iter().filter_map(|interface| Some(interface.hosts4.as_ref()?.as_fd()));
            let hosts6 =
                self.interfaces.iter().filter_map(|interface| Some(interface.hosts6.as_ref()?.0.as_fd()));
            let servers = self.server_facing.values().map(AsFd::as_fd);
            self.inbox.sleep(hosts4.chain(hosts6).chain(servers), broken.then_some(PAUSE));
            for interface in &mut self.interfaces {
                interface.hear4(&self.server_facing, &mut buffer);
                interface.hear6(&self.server_facing, &mut buffer);
            }
            for (at, socket) in &self.server_facing {
                for _ in 0..MESSAGES {
                    let Some((length, from)) = received(socket, &mut buffer) else { break };
                    answered(&mut self.interfaces, at.ip(), from, &buffer[..length]);
                }
            }
        }
    }

    fn follow(&mut self, links: Vec<ClientLink>) {
        let mut before = std::mem::take(&mut self.interfaces);
        for link in links {
            let same = |interface: &Interface| {
                (&interface.link.relay, &interface.link.interface) == (&link.relay, &link.interface)
            };
            let interface = match before.iter().position(same) {
                Some(at) => Interface { link, ..before.swap_remove(at) },
                None => {
                    let (counts, broken) = Default::default();
                    Interface { link, hosts4: None, hosts6: None, counts, broken }
                }
            };
            self.interfaces.push(interface);
        }
    }

    /// Has the sockets that there is something to hear by, and no others.
    fn open(&mut self) {
        let addresses = |interface: &Interface| {
            let four = interface.link.own4().map(|own| (own, four::SERVER).into());
            let six = interface.link.own6().map(|own| (own.from, six::SERVER).into());
            [four, six]
        };
        let wanted: Vec<SocketAddr> = self.interfaces.iter().flat_map(addresses).flatten().collect();
        self.server_facing.retain(|at, _| wanted.contains(at));
        for interface in &mut self.interfaces {
            let at = addresses(interface);
            for family in [FOUR, SIX] {
                let opened = interface.open(family, at[family].is_some()).and_then(|()| match at[family] {
                    Some(at) if !self.server_facing.contains_key(&at) => {
                        self.server_facing.insert(at, bound(at)?);
                        Ok(())
                    }
                    _ => Ok(()),
                });
                interface.note(family, opened);
            }
        }
    }
}

/// The next message of a socket. What the machine of a server said of an earlier one is none.
fn received(socket: &UdpSocket, buffer: &mut [u8]) -> Option<(usize, IpAddr)> {
    for _ in 0..MESSAGES {
        match socket.recv_from(buffer) {
            Ok((length, from)) => return Some((length, from.ip())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(_) => {}
        }
    }
    None
}

/// A server has answered at this address of the router's.
fn answered(interfaces: &mut [Interface], at: IpAddr, from: IpAddr, message: &[u8]) {
    match from {
        IpAddr::V4(from) => {
            let Some(gateway) = four::gateway(message) else { return };
            let is_its = |interface: &&mut Interface| interface.link.own4() == Some(gateway) && at == gateway;
            let Some(interface) = interfaces.iter_mut().find(is_its) else { return };
            if !interface.link.servers4.contains(&from) {
                return interface.refuse(FOUR, Refused::Elsewhere);
            }
            let mac = interface.link.mac;
            let sent = interface.link.agent.back(message).is_ok_and(|answer| {
                mac.zip(interface.hosts4.as_ref())
                    .is_some_and(|(mac, hosts4)| hosts4.send(mac, &answer).is_ok())
            });
            interface.count(FOUR, |counts| &mut counts.answered, sent);
        }
        IpAddr::V6(from) => {
            let Ok(answer) = six::back(message) else { return };
            let is_its = |interface: &&mut Interface| {
                let own = interface.link.own6();
                own.is_some_and(|own| match &answer.interface {
                    Some(name) => interface.link.interface.as_bytes() == &name[..],
                    None => own.link == answer.link,
                })
            };
            let Some(interface) = interfaces.iter_mut().find(is_its) else { return };
            if !interface.link.servers6.contains(&from) {
                return interface.refuse(SIX, Refused::Elsewhere);
            }
            let to = host6(answer.to, answer.port, interface.link.ifindex);
            let sent = interface
                .hosts6
                .as_ref()
                .is_some_and(|(hosts6, _)| hosts6.send_to(&answer.message, to).is_ok());
            interface.count(SIX, |counts| &mut counts.answered, sent);
        }
    }
}

impl ClientLink {
    fn own4(&self) -> Option<Ipv4Addr> {
        self.four.as_ref()?.as_ref().ok().copied()
    }

    fn own6(&self) -> Option<&Source6> {
        self.six.as_ref()?.as_ref().ok()
    }
}

impl Interface {
    /// Has the socket by which hosts of a family are heard, if they are to be.
    fn open(&mut self, family: usize, wanted: bool) -> io::Result<()> {
        let ifindex = self.link.ifindex;
        if family == FOUR {
            self.hosts4 = self.hosts4.take().filter(|hosts4| wanted && hosts4.ifindex == ifindex);
            if wanted && self.hosts4.is_none() {
                self.hosts4 = Some(HostSocket::open(ifindex)?);
            }
        } else {
            self.hosts6 = self.hosts6.take().filter(|(_, on)| wanted && *on == ifindex);
            if wanted && self.hosts6.is_none() {
                self.hosts6 = Some((hosts6(ifindex)?, ifindex));
            }
        }
        Ok(())
    }

    fn note(&mut self, family: usize, opened: io::Result<()>) {
        let port = [four::SERVER, six::SERVER][family];
        let wrong = opened.err().map(|error| match error.kind() {
            io::ErrorKind::AddrInUse => format!("another program has UDP port {port} there"),
            _ => format!("no socket: {error}"),
        });
        if let Some(wrong) = wrong.as_ref().filter(|wrong| self.broken[family].as_ref() != Some(wrong)) {
            warn!("{}: DHCP is not relayed: {wrong}; it is tried again", self.link.interface);
        }
        self.broken[family] = wrong;
    }

    fn hear4(&mut self, server_facing: &HashMap<SocketAddr, UdpSocket>, buffer: &mut [u8]) {
        for _ in 0..MESSAGES {
            let Some((hosts4, at)) = self.hosts4.as_ref().zip(self.link.own4()) else { return };
            let Some(message) = hosts4.hear(at, buffer) else { return };
            let Some(message) = message else { continue };
            match self.link.agent.forward(message, at) {
                Ok(relayed) => {
                    let socket = server_facing.get(&(at, four::SERVER).into());
                    let to = |server: &Ipv4Addr| SocketAddr::from((*server, four::SERVER));
                    let servers: Vec<SocketAddr> = self.link.servers4.iter().map(to).collect();
                    self.ask(FOUR, socket, &servers, &relayed);
                }
                // Servers' answers to others pass here as well.
                Err(Refused::NotRelayed) => {}
                Err(refused) => self.refuse(FOUR, refused),
            }
        }
    }

    fn hear6(&mut self, server_facing: &HashMap<SocketAddr, UdpSocket>, buffer: &mut [u8]) {
        for _ in 0..MESSAGES {
            let heard = self.hosts6.as_ref().and_then(|(hosts6, _)| received(hosts6, buffer));
            let Some((length, IpAddr::V6(from))) = heard else { return };
            let Some(Source6 { link, from: at }) = self.link.own6().cloned() else { continue };
            match six::forward(&buffer[..length], &self.link.interface, link, from) {
                Ok(relayed) => {
                    let socket = server_facing.get(&(at, six::SERVER).into());
                    let to = |server: &Ipv6Addr| SocketAddr::from((*server, six::SERVER));
                    let servers: Vec<SocketAddr> = self.link.servers6.iter().map(to).collect();
                    self.ask(SIX, socket, &servers, &relayed);
                }
                Err(refused) => self.refuse(SIX, refused),
            }
        }
    }

    /// Asks all servers; one that could be is enough.
    fn ask(&mut self, family: usize, socket: Option<&UdpSocket>, servers: &[SocketAddr], message: &[u8]) {
        let sent = |server: &&SocketAddr| socket.is_some_and(|own| own.send_to(message, **server).is_ok());
        let sent = servers.iter().filter(sent).count();
        self.count(family, |counts| &mut counts.asked, sent > 0);
    }

    fn count(&mut self, family: usize, what: impl Fn(&mut Counts) -> &mut u64, sent: bool) {
        let counts = &mut self.counts[family];
        *(if sent { what(counts) } else { &mut counts.lost }) += 1;
    }

    fn refuse(&mut self, family: usize, why: Refused) {
        self.counts[family].refused += 1;
        debug!("{}: a message of DHCP is not relayed: {why}", self.link.interface);
    }

    fn status(&self) -> Vec<DhcpRelayStatus> {
        let Interface { link, counts, .. } = self;
        let four = link.four.as_ref().map(|own| own.clone().map(IpAddr::V4));
        let six = link.six.as_ref().map(|own| own.clone().map(|own| IpAddr::V6(own.link)));
        let of = |(family, own): (usize, Option<Result<IpAddr, String>>)| {
            let own = own?;
            let Counts { asked, answered, refused, lost } = counts[family];
            let servers = match family {
                FOUR => link.servers4.iter().map(|it| IpAddr::V4(*it)).collect(),
                _ => link.servers6.iter().map(|it| IpAddr::V6(*it)).collect(),
            };
            Some(DhcpRelayStatus {
                name: link.relay.clone(),
                interface: link.interface.clone(),
                family: ["ipv4", "ipv6"][family].to_owned(),
                silent: own.clone().err().or_else(|| self.broken[family].clone()),
                address: own.ok().filter(|own| !own.is_unspecified()),
                servers,
                asked,
                answered,
                refused,
                lost,
            })
        };
        [(FOUR, four), (SIX, six)].into_iter().filter_map(of).collect()
    }
}
