//! The threads beside the data path: one for each socket that is listened at, one for each client.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::bell::Bell;
use super::channel::{self, Address, Received};
use super::client::Offer;
use super::message::{ETHERNET, Hello, Message, VERSION};
use super::server::{LAST_REGION, Taken};
use super::{MOST_QUEUES, MemifError, PROGRAM, RING_LOG2, Role, Shared, State};
use crate::wait;

/// How long the other side may take to agree.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a client waits between attempts.
const RETRY: Duration = Duration::from_millis(100);
/// How often a thread looks at the clock.
const LOOK: Duration = Duration::from_secs(1);
/// Connections at a socket at most, those that have not said what they want included.
const MOST_CONNECTIONS: usize = 512;

/// Why a connection ends.
pub(super) enum End {
    /// The peer went, or said why it ends.
    Theirs(String),
    /// We end it, and say why.
    Ours(String),
}

fn ours(why: impl Into<String>) -> End {
    End::Ours(why.into())
}

/// How far two sides have come.
pub(super) enum Stage {
    /// We are the server, and do not know which interface is wanted.
    Asked,
    /// We are the server, and the client offers.
    Attaching {
        peer: String,
        taken: Taken,
    },
    /// We are the client, and the server has not said what it can take.
    Curious,
    /// We are the client, and offer.
    Offering {
        peer: String,
        offer: Offer,
    },
    Up,
}

/// A connection to the other side.
pub(super) struct Connection {
    socket: OwnedFd,
    interface: Option<Arc<Shared>>,
    stage: Stage,
    began: Instant,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, interface: Option<Arc<Shared>>, stage: Stage) -> Connection {
        Connection { socket, interface, stage, began: Instant::now() }
    }

    fn send(&self, message: &Message, descriptor: Option<&OwnedFd>) -> Result<(), End> {
        channel::send(self.socket.as_fd(), &message.bytes(), descriptor.map(AsFd::as_fd))
            .map_err(|error| End::Theirs(format!("cannot be told: {error}")))
    }

    /// Reads a message, if there is one, and answers it. `find` gives a server's interface that
    /// nobody is connected to.
    pub(super) fn read(&mut self, find: impl FnOnce(u32) -> Result<Arc<Shared>, String>) -> Result<(), End> {
        let (message, descriptor) = match channel::receive(self.socket.as_fd()) {
            Received::Nothing => return Ok(()),
            Received::End => return Err(End::Theirs("the peer has gone".to_owned())),
            Received::Length(length) => return Err(ours(format!("a message of {length} bytes"))),
            Received::Message(bytes, descriptor) => (
                Message::parse(&bytes).map_err(|kind| ours(format!("no message is of kind {kind}")))?,
                descriptor,
            ),
        };
        if let Message::Disconnect { reason, .. } = message {
            return Err(End::Theirs(reason));
        }
        match std::mem::replace(&mut self.stage, Stage::Up) {
            Stage::Asked => self.asked(message, find),
            Stage::Attaching { peer, taken } => self.take(peer, taken, message, descriptor),
            Stage::Curious => self.offer(message),
            Stage::Offering { peer, offer } => self.go_on(peer, offer, message),
            Stage::Up => Err(ours("a message that nobody waited for")),
        }
    }

    /// The server learns which interface is wanted.
    fn asked(
        &mut self,
        message: Message,
        find: impl FnOnce(u32) -> Result<Arc<Shared>, String>,
    ) -> Result<(), End> {
        let Message::Init(init) = message else { return Err(ours("no interface was asked for")) };
        if init.version != VERSION {
            return Err(ours("this is memif 2.0, and the client is not"));
        }
        // From here on its state tells why nothing came of it.
        let interface = self.interface.insert(find(init.id).map_err(End::Ours)?);
        if init.mode != ETHERNET {
            return Err(ours("only Ethernet frames are known here"));
        }
        // In as many steps whatever differs: how long it takes tells nothing of the secret.
        let differs = |a: &[u8], b: &[u8]| a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) != 0;
        if interface.settings.secret.is_some() && differs(&interface.settings.secret_field(), &init.secret) {
            return Err(ours("the secret is another one"));
        }
        interface.connecting();
        self.stage = Stage::Attaching { peer: init.name, taken: Taken::default() };
        self.send(&Message::Ack, None)
    }

    /// The server takes what the client offers.
    fn take(
        &mut self,
        peer: String,
        mut taken: Taken,
        message: Message,
        descriptor: Option<OwnedFd>,
    ) -> Result<(), End> {
        let Some(shared) = self.interface.clone() else { return Err(ours("no interface was asked for")) };
        let settings = &shared.settings;
        match message {
            Message::AddRegion { index, bytes } => {
                taken.region(index, bytes, descriptor, settings).map_err(End::Ours)?;
            }
            Message::AddRing(ring) => taken.ring(ring, descriptor, settings.queues).map_err(End::Ours)?,
            Message::Connect { interface } => {
                let rings = taken.connect(settings).map_err(End::Ours)?;
                self.send(&Message::Connected { interface: settings.name.clone() }, None)?;
                shared.up(peer, interface, rings);
                return Ok(());
            }
            _ => return Err(ours("a message that a client does not send now")),
        }
        self.stage = Stage::Attaching { peer, taken };
        self.send(&Message::Ack, None)
    }

    /// The client learns what the server can take.
    fn offer(&mut self, message: Message) -> Result<(), End> {
        let Message::Hello(hello) = message else { return Err(ours("a server says hello first")) };
        let Some(shared) = &self.interface else { return Err(ours("there is no interface")) };
        let offer = Offer::make(&shared.settings, &hello).map_err(End::Ours)?;
        shared.connecting();
        self.go_on(hello.name, offer, Message::Ack)
    }

    /// The client offers the next thing.
    fn go_on(&mut self, peer: String, mut offer: Offer, message: Message) -> Result<(), End> {
        let Some(shared) = self.interface.clone() else { return Err(ours("there is no interface")) };
        match (message, offer.messages.pop_front()) {
            (Message::Ack, Some((message, descriptor))) => {
                self.send(&message, descriptor.as_ref())?;
                self.stage = Stage::Offering { peer, offer };
                Ok(())
            }
            (Message::Connected { interface }, None) => {
                let rings = offer.connect(&shared.settings).map_err(End::Ours)?;
                shared.up(peer, interface, rings);
                Ok(())
            }
            _ => Err(ours("a message that a server does not send now")),
        }
    }

    /// Whether the other side takes too long.
    fn is_slow(&self) -> bool {
        !matches!(self.stage, Stage::Up) && self.began.elapsed() > PATIENCE
    }

    /// Ends it, and lets the interface and the peer know.
    fn end(self, end: End) {
        let why = match end {
            End::Theirs(why) => why,
            End::Ours(why) => {
                // Who is gone need not be told.
                let _ = self.send(&Message::Disconnect { code: 0, reason: why.clone() }, None);
                why
            }
        };
        if let Some(interface) = &self.interface {
            interface.down(why);
        }
    }
}

/// Ends a thread that waits.
pub(super) struct Stop {
    bell: Bell,
    stopped: AtomicBool,
}

impl Stop {
    fn new() -> std::io::Result<Arc<Stop>> {
        Ok(Arc::new(Stop { bell: Bell::new()?, stopped: AtomicBool::new(false) }))
    }

    fn ring(&self) {
        self.stopped.store(true, Ordering::Release);
        self.bell.ring();
    }

    fn is_rung(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

/// What serves an interface.
pub(super) enum Control {
    Server(Arc<Shared>, Arc<Listener>),
    Client(Arc<Stop>, Option<JoinHandle<()>>),
}

impl Control {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Control, MemifError> {
        match shared.settings.role {
            Role::Server => Ok(Control::Server(shared.clone(), register(shared)?)),
            Role::Client => {
                let stop = Stop::new()?;
                let (interface, until) = (shared.clone(), stop.clone());
                let name = format!("memif-{}", shared.settings.id);
                let thread = std::thread::Builder::new().name(name).spawn(move || {
                    confine::reader();
                    while !until.is_rung() {
                        let end = attend(&interface, &until);
                        interface.down(end);
                        wait(&[until.bell.as_fd().as_raw_fd()], Some(RETRY));
                    }
                })?;
                Ok(Control::Client(stop, Some(thread)))
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        match self {
            Control::Server(shared, listener) => leave(shared, listener),
            Control::Client(stop, thread) => {
                stop.ring();
                if let Some(thread) = thread.take() {
                    // It panicked, or it didn't: it is over.
                    let _ = thread.join();
                }
            }
        }
    }
}

/// Connects as a client, and serves the connection until it ends; why it did.
fn attend(interface: &Arc<Shared>, stop: &Stop) -> String {
    let socket = match interface.settings.socket.connect() {
        Ok(socket) => socket,
        Err(error) => return format!("cannot connect to {}: {error}", interface.settings.socket),
    };
    let mut connection = Connection::new(socket, Some(interface.clone()), Stage::Curious);
    let end = loop {
        let fds = [stop.bell.as_fd().as_raw_fd(), connection.socket.as_raw_fd()];
        let ready = wait(&fds, Some(LOOK));
        if stop.is_rung() {
            break ours("the interface was closed");
        }
        let read = match ready.contains(&fds[1]) {
            true => connection.read(|_| Err(String::new())),
            false => Ok(()),
        };
        if let Err(end) = read {
            break end;
        }
        if connection.is_slow() {
            break ours("the server does not answer");
        }
    };
    let (End::Theirs(why) | End::Ours(why)) = &end;
    let why = why.clone();
    connection.end(end);
    why
}

/// A socket that is listened at, for one interface or several.
pub(super) struct Listener {
    address: Address,
    stop: Arc<Stop>,
    /// Those that wait at it, in the order in which they came.
    interfaces: Mutex<Vec<Arc<Shared>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// All sockets that this program listens at. Whoever opens or closes one holds the lock.
static LISTENERS: Mutex<Vec<Arc<Listener>>> = Mutex::new(Vec::new());

fn register(shared: &Arc<Shared>) -> Result<Arc<Listener>, MemifError> {
    let settings = &shared.settings;
    let socket = || settings.socket.clone();
    let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(listener) = listeners.iter().find(|listener| listener.address == settings.socket) {
        let mut interfaces = listener.interfaces();
        if interfaces.iter().any(|other| other.settings.id == settings.id) {
            return Err(MemifError::IdInUse { socket: socket(), id: settings.id });
        }
        interfaces.push(shared.clone());
        drop(interfaces);
        return Ok(listener.clone());
    }
    let door = settings.socket.listen().map_err(|source| MemifError::Listen { socket: socket(), source })?;
    let listener = Arc::new(Listener {
        address: socket(),
        stop: Stop::new()?,
        interfaces: Mutex::new(vec![shared.clone()]),
        thread: Mutex::new(None),
    });
    let serving = listener.clone();
    let thread = std::thread::Builder::new().name("memif".to_owned()).spawn(move || serving.serve(&door))?;
    *listener.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    listeners.push(listener.clone());
    Ok(listener)
}

/// Takes an interface from its listener, which ends with the last one.
fn leave(shared: &Arc<Shared>, listener: &Arc<Listener>) {
    let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut interfaces = listener.interfaces();
    interfaces.retain(|other| !Arc::ptr_eq(other, shared));
    let is_last = interfaces.is_empty();
    drop(interfaces);
    shared.down("the interface was closed".to_owned());
    if !is_last {
        listener.stop.bell.ring();
        return;
    }
    listeners.retain(|other| !Arc::ptr_eq(other, listener));
    listener.stop.ring();
    let thread = listener.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(thread) = thread {
        // It panicked, or it didn't: it is over.
        let _ = thread.join();
    }
    if let Address::Path(path) = &listener.address {
        // Somebody may have removed it before.
        let _ = std::fs::remove_file(path);
    }
}

impl Listener {
    fn interfaces(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Shared>>> {
        self.interfaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a client is told: the most that any interface here takes.
    fn hello(&self) -> Message {
        let queues = self.interfaces().iter().map(|interface| interface.settings.queues).max();
        let last = queues.unwrap_or(MOST_QUEUES).saturating_sub(1);
        Message::Hello(Hello {
            name: PROGRAM.to_owned(),
            versions: (VERSION, VERSION),
            last_region: LAST_REGION,
            last_to_client: last,
            last_to_server: last,
            most_log2: *RING_LOG2.end() as u8,
        })
    }

    fn find(&self, id: u32) -> Result<Arc<Shared>, String> {
        let interfaces = self.interfaces();
        let found = interfaces.iter().find(|interface| interface.settings.id == id);
        let found = found.ok_or_else(|| format!("there is no interface {id}"))?;
        match &*found.state() {
            State::Down { .. } => Ok(found.clone()),
            _ => Err(format!("interface {id} is connected already")),
        }
    }

    fn has(&self, interface: &Arc<Shared>) -> bool {
        self.interfaces().iter().any(|other| Arc::ptr_eq(other, interface))
    }

    fn serve(&self, door: &OwnedFd) {
        confine::reader();
        let mut connections: Vec<Connection> = Vec::new();
        let mut fds: Vec<RawFd> = Vec::new();
        while !self.stop.is_rung() {
            fds.clear();
            fds.push(self.stop.bell.as_fd().as_raw_fd());
            fds.extend(connections.iter().map(|connection| connection.socket.as_raw_fd()));
            fds.push(door.as_raw_fd());
            let ready = wait(&fds, Some(LOOK));
            self.stop.bell.silence();
            for mut connection in std::mem::take(&mut connections) {
                let mut end = Ok(());
                if ready.contains(&connection.socket.as_raw_fd()) {
                    end = connection.read(|id| self.find(id));
                }
                if connection.is_slow() {
                    end = Err(ours("the client does not go on"));
                }
                if connection.interface.as_ref().is_some_and(|interface| !self.has(interface)) {
                    end = Err(ours("the interface was closed"));
                }
                match end {
                    Ok(()) => connections.push(connection),
                    Err(end) => {
                        if let (None, End::Ours(why)) = (&connection.interface, &end) {
                            self.interfaces().iter().for_each(|interface| interface.passed_by(why));
                        }
                        connection.end(end);
                    }
                }
            }
            if ready.contains(&door.as_raw_fd())
                && let Some(socket) = channel::accept(door.as_fd())
            {
                // Who only came, and says nothing, keeps nobody away. An interface has one client,
                // so others are few.
                if connections.len() >= MOST_CONNECTIONS {
                    let idle = connections.iter().position(|other| matches!(other.stage, Stage::Asked));
                    if let Some(at) = idle {
                        connections.remove(at).end(ours("others wait"));
                    }
                }
                let connection = Connection::new(socket, None, Stage::Asked);
                if connection.send(&self.hello(), None).is_ok() {
                    connections.push(connection);
                }
            }
        }
        connections.into_iter().for_each(|connection| connection.end(ours("the interface was closed")));
    }
}
