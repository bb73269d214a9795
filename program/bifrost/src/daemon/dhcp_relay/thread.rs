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
use super::socket::{Door, group, host6, own};
use crate::subject::DhcpRelayStatus;

/// Where hosts are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) relay: String,
    pub(super) interface: String,
    /// 0: it is not there.
    pub(super) ifindex: u32,
    pub(super) mac: Option<Mac>,
    /// If hosts of IPv4 are served: this router's address there, or why it has none.
    pub(super) four: Option<Result<Ipv4Addr, String>>,
    /// The same for IPv6.
    pub(super) six: Option<Result<Own6, String>>,
    pub(super) servers4: Vec<Ipv4Addr>,
    pub(super) servers6: Vec<Ipv6Addr>,
    pub(super) agent: four::Agent,
}

/// This router on a link of IPv6.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Own6 {
    /// By which servers know the link; unspecified: by the interface's name.
    pub(super) link: Ipv6Addr,
    /// From which they are asked.
    pub(super) from: Ipv6Addr,
}

/// What the thread is told.
pub(super) enum Order {
    /// Where hosts are from now on.
    Relay(Vec<Place>),
    /// Say how it is.
    Status(Sender<Vec<DhcpRelayStatus>>),
    /// End.
    Stop(Sender<()>),
}

/// A place as the thread has it.
struct Point {
    place: Place,
    door: Option<Door>,
    /// With the interface's number.
    group: Option<(UdpSocket, u32)>,
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
    points: Vec<Point>,
    /// Towards servers, by this router's address.
    own: HashMap<SocketAddr, UdpSocket>,
}

/// Messages in a row of one socket before another has its turn.
const MESSAGES: usize = 64;
/// Between two times that a socket is tried that could not be had: another program may have the port.
const PAUSE: Duration = Duration::from_secs(1);

impl Runner {
    pub(super) fn new(inbox: Inbox<Order>) -> Runner {
        Runner { inbox, points: Vec::new(), own: HashMap::new() }
    }

    pub(super) fn run(mut self) {
        let mut buffer = vec![0; 1 << 16];
        loop {
            loop {
                match self.inbox.next() {
                    Ok(Order::Relay(places)) => self.follow(places),
                    Ok(Order::Status(answer)) => {
                        // Who asked may not have waited.
                        let _ = answer.send(self.points.iter().flat_map(Point::status).collect());
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
            let broken = self.points.iter().flat_map(|point| &point.broken).any(Option::is_some);
            let doors = self.points.iter().filter_map(|point| Some(point.door.as_ref()?.as_fd()));
            let groups = self.points.iter().filter_map(|point| Some(point.group.as_ref()?.0.as_fd()));
            let own = self.own.values().map(AsFd::as_fd);
            self.inbox.sleep(doors.chain(groups).chain(own), broken.then_some(PAUSE));
            for point in &mut self.points {
                point.hear4(&self.own, &mut buffer);
                point.hear6(&self.own, &mut buffer);
            }
            for (at, socket) in &self.own {
                for _ in 0..MESSAGES {
                    let Some((length, from)) = received(socket, &mut buffer) else { break };
                    answered(&mut self.points, at.ip(), from, &buffer[..length]);
                }
            }
        }
    }

    fn follow(&mut self, places: Vec<Place>) {
        let mut before = std::mem::take(&mut self.points);
        for place in places {
            let same = |point: &Point| {
                (&point.place.relay, &point.place.interface) == (&place.relay, &place.interface)
            };
            let point = match before.iter().position(same) {
                Some(at) => Point { place, ..before.swap_remove(at) },
                None => {
                    let (counts, broken) = Default::default();
                    Point { place, door: None, group: None, counts, broken }
                }
            };
            self.points.push(point);
        }
    }

    /// Has the sockets that there is something to hear by, and no others.
    fn open(&mut self) {
        let addresses = |point: &Point| {
            let four = point.place.own4().map(|own| (own, four::SERVER).into());
            let six = point.place.own6().map(|own| (own.from, six::SERVER).into());
            [four, six]
        };
        let wanted: Vec<SocketAddr> = self.points.iter().flat_map(addresses).flatten().collect();
        self.own.retain(|at, _| wanted.contains(at));
        for point in &mut self.points {
            let at = addresses(point);
            for family in [FOUR, SIX] {
                let opened = point.open(family, at[family].is_some()).and_then(|()| match at[family] {
                    Some(at) if !self.own.contains_key(&at) => {
                        self.own.insert(at, own(at)?);
                        Ok(())
                    }
                    _ => Ok(()),
                });
                point.note(family, opened);
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
fn answered(points: &mut [Point], at: IpAddr, from: IpAddr, message: &[u8]) {
    match from {
        IpAddr::V4(from) => {
            let Some(gateway) = four::gateway(message) else { return };
            let is_its = |point: &&mut Point| point.place.own4() == Some(gateway) && at == gateway;
            let Some(point) = points.iter_mut().find(is_its) else { return };
            if !point.place.servers4.contains(&from) {
                return point.refuse(FOUR, Refused::Elsewhere);
            }
            let mac = point.place.mac;
            let sent = point.place.agent.back(message).is_ok_and(|answer| {
                mac.zip(point.door.as_ref()).is_some_and(|(mac, door)| door.send(mac, &answer).is_ok())
            });
            point.count(FOUR, |counts| &mut counts.answered, sent);
        }
        IpAddr::V6(from) => {
            let Ok(answer) = six::back(message) else { return };
            let is_its = |point: &&mut Point| {
                let own = point.place.own6();
                own.is_some_and(|own| match &answer.interface {
                    Some(name) => point.place.interface.as_bytes() == &name[..],
                    None => own.link == answer.link,
                })
            };
            let Some(point) = points.iter_mut().find(is_its) else { return };
            if !point.place.servers6.contains(&from) {
                return point.refuse(SIX, Refused::Elsewhere);
            }
            let to = host6(answer.to, answer.port, point.place.ifindex);
            let sent =
                point.group.as_ref().is_some_and(|(group, _)| group.send_to(&answer.message, to).is_ok());
            point.count(SIX, |counts| &mut counts.answered, sent);
        }
    }
}

impl Place {
    fn own4(&self) -> Option<Ipv4Addr> {
        self.four.as_ref()?.as_ref().ok().copied()
    }

    fn own6(&self) -> Option<&Own6> {
        self.six.as_ref()?.as_ref().ok()
    }
}

impl Point {
    /// Has the socket by which hosts of a family are heard, if they are to be.
    fn open(&mut self, family: usize, wanted: bool) -> io::Result<()> {
        let ifindex = self.place.ifindex;
        if family == FOUR {
            self.door = self.door.take().filter(|door| wanted && door.ifindex == ifindex);
            if wanted && self.door.is_none() {
                self.door = Some(Door::open(ifindex)?);
            }
        } else {
            self.group = self.group.take().filter(|(_, on)| wanted && *on == ifindex);
            if wanted && self.group.is_none() {
                self.group = Some((group(ifindex)?, ifindex));
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
            warn!("{}: DHCP is not relayed: {wrong}; it is tried again", self.place.interface);
        }
        self.broken[family] = wrong;
    }

    fn hear4(&mut self, own: &HashMap<SocketAddr, UdpSocket>, buffer: &mut [u8]) {
        for _ in 0..MESSAGES {
            let Some((door, at)) = self.door.as_ref().zip(self.place.own4()) else { return };
            let Some(message) = door.hear(at, buffer) else { return };
            let Some(message) = message else { continue };
            match self.place.agent.forward(message, at) {
                Ok(relayed) => {
                    let socket = own.get(&(at, four::SERVER).into());
                    let to = |server: &Ipv4Addr| SocketAddr::from((*server, four::SERVER));
                    let servers: Vec<SocketAddr> = self.place.servers4.iter().map(to).collect();
                    self.ask(FOUR, socket, &servers, &relayed);
                }
                // Servers' answers to others pass here as well.
                Err(Refused::NotRelayed) => {}
                Err(refused) => self.refuse(FOUR, refused),
            }
        }
    }

    fn hear6(&mut self, own: &HashMap<SocketAddr, UdpSocket>, buffer: &mut [u8]) {
        for _ in 0..MESSAGES {
            let heard = self.group.as_ref().and_then(|(group, _)| received(group, buffer));
            let Some((length, IpAddr::V6(from))) = heard else { return };
            let Some(Own6 { link, from: at }) = self.place.own6().cloned() else { continue };
            match six::forward(&buffer[..length], &self.place.interface, link, from) {
                Ok(relayed) => {
                    let socket = own.get(&(at, six::SERVER).into());
                    let to = |server: &Ipv6Addr| SocketAddr::from((*server, six::SERVER));
                    let servers: Vec<SocketAddr> = self.place.servers6.iter().map(to).collect();
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
        debug!("{}: a message of DHCP is not relayed: {why}", self.place.interface);
    }

    fn status(&self) -> Vec<DhcpRelayStatus> {
        let Point { place, counts, .. } = self;
        let four = place.four.as_ref().map(|own| own.clone().map(IpAddr::V4));
        let six = place.six.as_ref().map(|own| own.clone().map(|own| IpAddr::V6(own.link)));
        let of = |(family, own): (usize, Option<Result<IpAddr, String>>)| {
            let own = own?;
            let Counts { asked, answered, refused, lost } = counts[family];
            let servers = match family {
                FOUR => place.servers4.iter().map(|it| IpAddr::V4(*it)).collect(),
                _ => place.servers6.iter().map(|it| IpAddr::V6(*it)).collect(),
            };
            Some(DhcpRelayStatus {
                name: place.relay.clone(),
                interface: place.interface.clone(),
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
