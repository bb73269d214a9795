//! `bifrost extcap`: Wireshark's way to ask a program for interfaces and for packets (extcap).
//!
//! Wireshark and tshark run every program in their extcap folder with such options, and list what
//! it answers among their own interfaces. The packets go to a named pipe as pcapng, which says the
//! port and the direction of each.

use std::fs::OpenOptions;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use wire::capture::link;
use wire::capture::pcapng::{Captured, Writer};

use super::capture::end_on_signal;
use super::table::print;
use super::{Failure, connect};
use crate::control::status::{PortStatus, SeenPacket};
use crate::control::{CopyRequest, Directions, Request};
use crate::service::tcpdump;

/// What names of interfaces begin with, so that they are not taken for Linux's.
const PREFIX: &str = "bifrost-";
const ANY: &str = "any";
const SNAP: u32 = 262_144;

/// What Wireshark wants.
#[derive(Debug, Default)]
struct Wish {
    interfaces: bool,
    dlts: bool,
    config: bool,
    capture: bool,
    interface: Option<String>,
    fifo: Option<PathBuf>,
    filter: Option<String>,
    direction: Directions,
}

impl Wish {
    fn read(words: &[String]) -> Result<Wish, String> {
        let mut wish = Wish::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, mut value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let mut value = || {
                value.take().or_else(|| words.next().cloned()).ok_or_else(|| format!("{name} wants a value"))
            };
            match name {
                "--extcap-interfaces" => wish.interfaces = true,
                "--extcap-dlts" => wish.dlts = true,
                "--extcap-config" => wish.config = true,
                "--capture" => wish.capture = true,
                "--extcap-interface" => wish.interface = Some(value()?),
                "--fifo" => wish.fifo = Some(value()?.into()),
                "--extcap-capture-filter" => wish.filter = Some(value()?),
                "--direction" => {
                    wish.direction = match value()?.as_str() {
                        "in" => Directions::In,
                        "out" => Directions::Out,
                        _ => Directions::Both,
                    }
                }
                // What later releases of Wireshark may add is nothing to fail for.
                "--extcap-version" | "--extcap-control-in" | "--extcap-control-out"
                    if !word.contains('=') =>
                {
                    value()?;
                }
                _ => {}
            }
        }
        Ok(wish)
    }
}

pub fn extcap(words: &[String], socket: &Path) -> Result<(), Failure> {
    let wish = Wish::read(words).map_err(Failure::Said)?;
    if wish.interfaces {
        // Without a daemon there is nothing to capture at, which is no fault.
        let ask = |mut client: crate::control::Client| Ok(client.subject("ports")?);
        let ports: Result<Vec<PortStatus>, Failure> = connect(socket).and_then(ask);
        return print(&interfaces(&ports.unwrap_or_default()));
    }
    let Some(interface) = &wish.interface else {
        return Err(Failure::Said(
            "this is for Wireshark, which runs it from its extcap folder: `tshark -D` lists Bifrost's ports then"
                .to_owned(),
        ));
    };
    let port = interface.strip_prefix(PREFIX).unwrap_or(interface);
    if wish.dlts {
        return print("dlt {number=1}{name=EN10MB}{display=Ethernet}\n");
    }
    if wish.config {
        return print(CONFIG);
    }
    if wish.capture {
        return capture(port, &wish, socket);
    }
    // Only a filter: is it one? Silence means yes.
    match wish.filter.as_deref().map(tcpdump::compile) {
        Some(Err(wrong)) => print(&format!("{wrong}\n")),
        _ => Ok(()),
    }
}

const CONFIG: &str = "\
arg {number=0}{call=--direction}{display=Direction}{type=selector}{tooltip=Which way packets go}
value {arg=0}{value=both}{display=in and out}{default=true}
value {arg=0}{value=in}{display=in}
value {arg=0}{value=out}{display=out}
";

fn interfaces(ports: &[PortStatus]) -> String {
    let mut text = format!(
        "extcap {{version={}}}{{help=file:///usr/local/share/doc/bifrost/commands.md}}{{display=Bifrost}}\n",
        crate::RELEASE
    );
    for port in ports {
        text += &format!("interface {{value={PREFIX}{0}}}{{display=Bifrost: {0}}}\n", port.name);
    }
    if !ports.is_empty() {
        text += &format!("interface {{value={PREFIX}{ANY}}}{{display=Bifrost: all ports}}\n");
    }
    text
}

fn capture(port: &str, wish: &Wish, socket: &Path) -> Result<(), Failure> {
    let fifo = wish.fifo.as_ref().ok_or_else(|| Failure::Said("--capture wants --fifo".to_owned()))?;
    let filter = tcpdump::compile(wish.filter.as_deref().unwrap_or_default()).map_err(Failure::Said)?;
    let mut client = connect(socket)?;
    let ports = if port == ANY { Vec::new() } else { vec![port.to_owned()] };
    let request =
        Request::Copy(CopyRequest { ports, filter, direction: wish.direction, count: None, snap: SNAP });
    end_on_signal(client.stopper()?)?;
    let mut packets = client.live::<SeenPacket>(&request, None)?;
    let failed = |error| Failure::Io { what: format!("cannot write {}", fifo.display()), error };
    let pipe = OpenOptions::new().write(true).open(fifo).map_err(failed)?;
    match pass_on(&mut packets, BufWriter::new(pipe)) {
        // Wireshark has closed it: it wants no more.
        Err(Failure::Io { error, .. }) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

fn pass_on(
    packets: &mut crate::control::Stream<'_, SeenPacket>,
    pipe: impl io::Write,
) -> Result<(), Failure> {
    let failed = |error| Failure::Io { what: "cannot write the packets".to_owned(), error };
    let mut file = Writer::new(pipe, SNAP).map_err(failed)?;
    file.flush().map_err(failed)?;
    while let Some(packet) = packets.next() {
        let packet = packet?;
        let captured = Captured {
            interface: &packet.port,
            link: link::ETHERNET as u16,
            time: packet.time_ns,
            bytes: &packet.frame,
            length: packet.length,
            outgoing: Some(packet.outgoing),
            comment: "",
        };
        file.packet(&captured).map_err(failed)?;
        if packets.drained() {
            file.flush().map_err(failed)?;
        }
    }
    file.flush().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wireshark_is_understood_in_both_spellings() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let line = "--capture --extcap-interface=bifrost-eth0 --fifo /tmp/f --extcap-capture-filter tcp --direction in";
        let wish = Wish::read(&words(line)).unwrap();
        assert!(wish.capture && wish.interface.as_deref() == Some("bifrost-eth0"));
        assert_eq!((wish.filter.as_deref(), wish.direction), (Some("tcp"), Directions::In));
        assert_eq!(wish.fifo.as_deref(), Some(Path::new("/tmp/f")));
        assert!(Wish::read(&words("--extcap-interfaces --extcap-version=4.0")).unwrap().interfaces);
        assert!(Wish::read(&words("--fifo")).is_err());
    }

    #[test]
    fn ports_are_listed_as_extcap_has_it() {
        let port = PortStatus { name: "eth0".into(), ..PortStatus::default() };
        let text = interfaces(&[port]);
        assert!(text.contains("\ninterface {value=bifrost-eth0}{display=Bifrost: eth0}\n"), "{text}");
        assert!(text.contains("{value=bifrost-any}"), "{text}");
        assert_eq!(interfaces(&[]).lines().count(), 1);
    }
}
