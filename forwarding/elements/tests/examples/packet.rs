//! Packets as examples write them down.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use graph::arguments::{Argument, Kind, Names, Scope, Timestamp, offset, parse_integer, read, unparse};
use graph::language::{split_arguments, split_words, unquote};
use port::{Annotations, Packet};
use wire::{Mac, checksum};

/// A packet, and what is noted on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    pub bytes: Vec<u8>,
    pub notes: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// Annotations by offset.
    Annotation(usize, Vec<u8>),
    /// Nanoseconds since 1970.
    Time(i64),
    /// Bytes to the network header.
    Network(Option<isize>),
}

impl Sample {
    /// Reads a packet; `same` is the packet `last`.
    pub fn parse(text: &str, last: Option<&Sample>) -> Result<Sample, String> {
        let pieces = split_arguments(text);
        let (layers, notes) = pieces.split_first().ok_or("expected a packet")?;
        let notes =
            notes.iter().map(|note| Note::parse(&note.text)).collect::<Result<Vec<Note>, String>>()?;
        if layers.text == "same" {
            let last = last.ok_or("no packet came in that this could be the same as")?;
            return Ok(Sample { bytes: last.bytes.clone(), notes });
        }
        let words = split_words(&layers.text);
        let layers: Vec<&[&str]> = words.split(|word| *word == "/").collect();
        let built = build(&layers, None)?;
        let said = notes.iter().any(|note| matches!(note, Note::Network(_)));
        let known = built.network.filter(|_| !said).map(|at| Note::Network(Some(at as isize)));
        Ok(Sample { bytes: built.bytes, notes: known.into_iter().chain(notes).collect() })
    }

    /// The packet, to be sent.
    pub fn packet(&self) -> Option<Packet> {
        let mut packet = Packet::new(&self.bytes)?;
        for note in &self.notes {
            match note {
                Note::Annotation(offset, bytes) => {
                    for (index, byte) in bytes.iter().enumerate() {
                        packet.set_annotation_byte(offset + index, *byte);
                    }
                }
                Note::Time(time) => packet.annotations_mut().timestamp = *time,
                Note::Network(Some(at)) => {
                    packet.set_network(*at);
                    let header = match packet.network().first() {
                        Some(first) if first >> 4 == 6 => 40,
                        Some(first) => isize::from(first & 15) * 4,
                        None => 0,
                    };
                    packet.set_transport(Some(at + header));
                }
                Note::Network(None) => {
                    packet.clear_network();
                    packet.set_transport(None);
                }
            }
        }
        Some(packet)
    }

    /// What differs in a packet that should be this one; notes that aren't said don't count.
    pub fn difference(&self, seen: &Seen) -> Option<String> {
        let wanted = |note: &Note| match note {
            Note::Annotation(offset, bytes) => {
                let range = *offset..*offset + bytes.len();
                range.zip(bytes).all(|(at, byte)| seen.annotations.get(at) == Some(byte))
            }
            Note::Time(time) => seen.time == *time,
            Note::Network(at) => seen.network == *at,
        };
        let wrong: Vec<&Note> = self.notes.iter().filter(|note| !wanted(note)).collect();
        if seen.bytes == self.bytes && wrong.is_empty() {
            return None;
        }
        let mut text = format!("expected\n  {self}\nbut out came\n  {}", seen.sample(&self.notes));
        let at = seen.bytes.iter().zip(&self.bytes).position(|(seen, expected)| seen != expected);
        let shorter = seen.bytes.len().min(self.bytes.len());
        if seen.bytes != self.bytes {
            text += &format!("\n(they differ from byte {} on)", at.unwrap_or(shorter));
        }
        Some(text)
    }

    /// As a packet that comes out is compared: where its network header is doesn't matter unless it
    /// is said.
    pub fn without_known_network(mut self, text: &str) -> Sample {
        if !text.contains(", network") {
            self.notes.retain(|note| !matches!(note, Note::Network(_)));
        }
        self
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hex")?;
        for four in self.bytes.chunks(4) {
            write!(f, " {}", hexadecimal(four))?;
        }
        self.notes.iter().try_for_each(|note| write!(f, ", {note}"))
    }
}

impl Note {
    fn parse(text: &str) -> Result<Note, String> {
        let words = split_words(text);
        match words.as_slice() {
            ["paint", colour] => Ok(Note::Annotation(offset::PAINT, vec![number(colour)?])),
            ["dst", address] => {
                Ok(Note::Annotation(offset::DST_IP, value::<Ipv4Addr>(address)?.octets().to_vec()))
            }
            ["anno", offset, bytes] => Ok(Note::Annotation(number(offset)?, unhex(bytes)?)),
            ["time", time] => Ok(Note::Time(value::<Timestamp>(time)?.0)),
            ["network", "none"] => Ok(Note::Network(None)),
            ["network", at] => Ok(Note::Network(Some(number(at)?))),
            _ => Err(format!("'{text}' is no note")),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Annotation(offset::PAINT, bytes) if bytes.len() == 1 => write!(f, "paint {}", bytes[0]),
            Note::Annotation(offset, bytes) => write!(f, "anno {offset} {}", hexadecimal(bytes)),
            Note::Time(time) => write!(f, "time {}", unparse::timestamp(*time)),
            Note::Network(None) => f.write_str("network none"),
            Note::Network(Some(at)) => write!(f, "network {at}"),
        }
    }
}

/// A packet that came out.
pub struct Seen {
    bytes: Vec<u8>,
    annotations: Vec<u8>,
    time: i64,
    network: Option<isize>,
}

impl Seen {
    pub fn of(packet: &Packet) -> Seen {
        let Annotations { timestamp, .. } = packet.annotations();
        Seen {
            bytes: packet.segments().flatten().copied().collect(),
            annotations: (0..port::ANNOTATION_BYTES).map(|at| packet.annotation_byte(at)).collect(),
            time: *timestamp,
            network: packet.network_offset(),
        }
    }

    /// As it would be written down, with notes of the same kinds.
    pub fn sample(&self, notes: &[Note]) -> Sample {
        let seen = |note: &Note| match note {
            Note::Annotation(offset, bytes) => {
                let end = (offset + bytes.len()).min(self.annotations.len());
                Note::Annotation(*offset, self.annotations.get(*offset..end).unwrap_or_default().to_vec())
            }
            Note::Time(_) => Note::Time(self.time),
            Note::Network(_) => Note::Network(self.network),
        };
        Sample { bytes: self.bytes.clone(), notes: notes.iter().map(seen).collect() }
    }
}

/// The addresses of the IP layer around a layer, if there is one.
type Between = Option<(IpAddr, IpAddr)>;

/// Layers as bytes.
#[derive(Default)]
struct Built {
    bytes: Vec<u8>,
    /// The Ethernet type and the IP protocol that announce it, if it is of one.
    ether_type: Option<u16>,
    protocol: Option<u8>,
    network: Option<usize>,
}

impl Built {
    fn data(bytes: Vec<u8>) -> Built {
        Built { bytes, ..Built::default() }
    }
}

/// Builds layers, the outermost first; `between` are the addresses of the IP layer around them.
fn build(layers: &[&[&str]], between: Between) -> Result<Built, String> {
    let Some((words, inner)) = layers.split_first() else { return Ok(Built::default()) };
    let data_at = words.iter().position(|word| word.starts_with('"') || ["hex", "zeros"].contains(word));
    let (words, data) = words.split_at(data_at.unwrap_or(words.len()));
    if !data.is_empty() && !inner.is_empty() {
        return Err("bytes can only stand in the last layer".to_owned());
    }
    let Some((kind, words)) = words.split_first() else { return Ok(Built::data(bytes(data)?)) };
    let mut words = Words { words: words.to_vec() };
    let payload =
        |between| if data.is_empty() { build(inner, between) } else { Ok(Built::data(bytes(data)?)) };
    let built = match *kind {
        "ether" => ether(&mut words, payload(None)?)?,
        "vlan" => vlan(&mut words, payload(None)?)?,
        "arp" => arp(&mut words)?,
        "ip" | "ip6" => {
            let between = words.pair(value::<IpAddress>)?;
            let between = (between.0.0, between.1.0);
            ip(between, &mut words, payload(Some(between))?)?
        }
        "udp" | "tcp" | "icmp" | "icmp6" => {
            let (around, ports) = words.short_form(kind)?;
            let between = around.or(between);
            let payload = payload(None)?;
            let transport = match *kind {
                "udp" => udp(ports, between, &mut words, payload)?,
                "tcp" => tcp(ports, between, &mut words, payload)?,
                _ => icmp(*kind == "icmp6", between, &mut words, payload)?,
            };
            match around {
                Some(between) => ip(between, &mut words, transport)?,
                None => transport,
            }
        }
        _ => return Err(format!("'{kind}' is no layer")),
    };
    match words.words.first() {
        Some(word) => Err(format!("'{word}' means nothing in {kind}")),
        None => Ok(built),
    }
}

/// What follows a layer's name.
struct Words<'a> {
    words: Vec<&'a str>,
}

impl<'a> Words<'a> {
    /// `A > B` at the beginning.
    fn pair<T>(&mut self, read: impl Fn(&str) -> Result<T, String>) -> Result<(T, T), String> {
        match *self.words.as_slice() {
            [from, ">", to, ..] => {
                self.words.drain(..3);
                Ok((read(from)?, read(to)?))
            }
            _ => Err("expected 'SOURCE > DESTINATION'".to_owned()),
        }
    }

    /// The addresses of an IP layer that is not written down, and ports: `1.2.3.4:5 > 6.7.8.9:10`,
    /// or only ports.
    fn short_form(&mut self, kind: &str) -> Result<(Between, (u16, u16)), String> {
        let has_pair = self.words.get(1) == Some(&">");
        if kind.starts_with("icmp") {
            let around = if has_pair { Some(self.pair(value::<IpAddress>)?) } else { None };
            return Ok((around.map(|(from, to)| (from.0, to.0)), (0, 0)));
        }
        let is_port = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
        if self.words.first().is_some_and(is_port) {
            return Ok((None, self.pair(number)?));
        }
        let (from, to) = self.pair(|text| {
            let (address, port) = text.rsplit_once(':').ok_or("expected 'ADDRESS:PORT'")?;
            let address = address.trim_start_matches('[').trim_end_matches(']');
            Ok::<_, String>((value::<IpAddress>(address)?.0, number::<u16>(port)?))
        })?;
        Ok((Some((from.0, to.0)), (from.1, to.1)))
    }

    fn flag(&mut self, name: &str) -> bool {
        let found = self.words.iter().position(|word| *word == name);
        found.map(|at| self.words.remove(at)).is_some()
    }

    fn option<T>(
        &mut self,
        name: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some(at) = self.words.iter().position(|word| *word == name) else { return Ok(None) };
        let value = self.words.get(at + 1).ok_or_else(|| format!("'{name}' needs a value"))?;
        let value = read(value).map_err(|error| format!("{name} {value}: {error}"))?;
        self.words.drain(at..at + 2);
        Ok(Some(value))
    }

    fn number<T: TryFrom<i128>>(&mut self, name: &str, otherwise: T) -> Result<T, String> {
        Ok(self.option(name, number)?.unwrap_or(otherwise))
    }

    fn hex(&mut self, name: &str) -> Result<Vec<u8>, String> {
        Ok(self.option(name, unhex)?.unwrap_or_default())
    }

    /// A checksum that is said, or the right one.
    fn checksum(&mut self, right: impl FnOnce() -> u16) -> Result<[u8; 2], String> {
        let said = self.option("checksum", |text| match unhex(text)?.as_slice() {
            [high, low] => Ok([*high, *low]),
            _ => Err("expected two bytes in hexadecimal".to_owned()),
        })?;
        Ok(said.unwrap_or_else(|| right().to_be_bytes()))
    }
}

fn ether(words: &mut Words<'_>, payload: Built) -> Result<Built, String> {
    let (source, destination) = words.pair(value::<Mac>)?;
    let ether_type = words.option("type", number)?.or(payload.ether_type).ok_or("say the Ethernet type")?;
    let bytes = [&destination.0[..], &source.0, &ether_type.to_be_bytes(), &payload.bytes].concat();
    Ok(Built { bytes, network: payload.network.map(|at| at + 14), ..Built::default() })
}

fn vlan(words: &mut Words<'_>, payload: Built) -> Result<Built, String> {
    if words.words.is_empty() {
        return Err("expected 'vlan ID'".to_owned());
    }
    let id: u16 = number(words.words.remove(0))?;
    let tag = words.number::<u16>("priority", 0)? << 13 | id & 0xfff;
    let ether_type = words.option("type", number)?.or(payload.ether_type).ok_or("say the Ethernet type")?;
    let bytes = [&tag.to_be_bytes()[..], &ether_type.to_be_bytes(), &payload.bytes].concat();
    Ok(Built { bytes, ether_type: Some(0x8100), network: payload.network.map(|at| at + 4), protocol: None })
}

fn arp(words: &mut Words<'_>) -> Result<Built, String> {
    let [operation, from, from_ip, ">", to, to_ip] = *words.words.as_slice() else {
        return Err("expected 'arp request MAC IP > MAC IP'".to_owned());
    };
    words.words.clear();
    let operation: u16 = match operation {
        "request" => 1,
        "reply" => 2,
        other => number(other)?,
    };
    let [from, to] = [value::<Mac>(from)?, value::<Mac>(to)?];
    let [from_ip, to_ip] = [value::<Ipv4Addr>(from_ip)?, value::<Ipv4Addr>(to_ip)?];
    let head = [0, 1, 8, 0, 6, 4];
    let bytes =
        [&head[..], &operation.to_be_bytes(), &from.0, &from_ip.octets(), &to.0, &to_ip.octets()].concat();
    Ok(Built { bytes, ether_type: Some(0x0806), ..Built::default() })
}

fn ip(between: (IpAddr, IpAddr), words: &mut Words<'_>, payload: Built) -> Result<Built, String> {
    match between {
        (IpAddr::V4(source), IpAddr::V4(destination)) => ip4(source, destination, words, payload),
        (IpAddr::V6(source), IpAddr::V6(destination)) => ip6(source, destination, words, payload),
        _ => Err("one address is of IPv4, the other of IPv6".to_owned()),
    }
}

fn ip4(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    words: &mut Words<'_>,
    payload: Built,
) -> Result<Built, String> {
    let mut options = words.hex("options")?;
    options.resize(options.len().next_multiple_of(4).min(40), 0);
    let length = 20 + options.len();
    let protocol = words.number("protocol", payload.protocol.unwrap_or(255))?;
    let total = words.number("length", (length + payload.bytes.len()) as u16)?;
    let offset = words.number::<u16>("offset", 0)? / 8;
    let flags = u16::from(words.flag("df")) << 14 | u16::from(words.flag("mf")) << 13;
    let mut header = vec![0x40 | (length / 4) as u8, words.number("tos", 0)?];
    header.extend(total.to_be_bytes());
    header.extend(words.number::<u16>("id", 0)?.to_be_bytes());
    header.extend((flags | offset & 0x1fff).to_be_bytes());
    header.extend([words.number("ttl", 64)?, protocol, 0, 0]);
    header.extend(source.octets());
    header.extend(destination.octets());
    header.extend(options);
    let sum = words.checksum(|| checksum::of(&header))?;
    header[10..12].copy_from_slice(&sum);
    header.extend(payload.bytes);
    Ok(Built { bytes: header, ether_type: Some(0x0800), protocol: Some(4), network: Some(0) })
}

fn ip6(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    words: &mut Words<'_>,
    payload: Built,
) -> Result<Built, String> {
    let class = words.number::<u32>("class", 0)?;
    let first = 6 << 28 | (class & 0xff) << 20 | words.number::<u32>("flow", 0)? & 0xf_ffff;
    let next = words.number("next", payload.protocol.unwrap_or(59))?;
    let mut header = first.to_be_bytes().to_vec();
    header.extend(words.number("length", payload.bytes.len() as u16)?.to_be_bytes());
    header.extend([next, words.number("hlim", 64)?]);
    header.extend(source.octets());
    header.extend(destination.octets());
    header.extend(payload.bytes);
    Ok(Built { bytes: header, ether_type: Some(0x86dd), protocol: Some(41), network: Some(0) })
}

/// The checksum of a transport header and what follows, in a packet between two addresses; 0
/// outside of one.
fn transport_checksum(between: Between, protocol: u8, bytes: &[u8]) -> u16 {
    let length = bytes.len();
    match between {
        Some((IpAddr::V4(from), IpAddr::V4(to))) => {
            checksum::pseudo4(from.into(), to.into(), protocol, length as u16).with(bytes).finish()
        }
        Some((IpAddr::V6(from), IpAddr::V6(to))) => {
            checksum::pseudo6(from.into(), to.into(), protocol, length as u32).with(bytes).finish()
        }
        _ => 0,
    }
}

fn udp(ports: (u16, u16), between: Between, words: &mut Words<'_>, payload: Built) -> Result<Built, String> {
    let length = words.number("length", 8 + payload.bytes.len() as u16)?;
    let mut bytes = [ports.0.to_be_bytes(), ports.1.to_be_bytes(), length.to_be_bytes(), [0, 0]].concat();
    bytes.extend(payload.bytes);
    let sum = words.checksum(|| match transport_checksum(between, 17, &bytes) {
        0 if between.is_some() => 0xffff,
        sum => sum,
    })?;
    bytes[6..8].copy_from_slice(&sum);
    Ok(Built { bytes, protocol: Some(17), ..Built::default() })
}

fn tcp(ports: (u16, u16), between: Between, words: &mut Words<'_>, payload: Built) -> Result<Built, String> {
    let mut options = words.hex("options")?;
    options.resize(options.len().next_multiple_of(4).min(40), 0);
    let flags = words.option("flags", |text| {
        text.chars().try_fold(0u8, |flags, letter| match "FSRPAUEC".find(letter) {
            Some(bit) => Ok(flags | 1 << bit),
            None => Err("expected letters of FSRPAUEC".to_owned()),
        })
    })?;
    let mut bytes = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    bytes.extend(words.number::<u32>("seq", 0)?.to_be_bytes());
    bytes.extend(words.number::<u32>("ack", 0)?.to_be_bytes());
    bytes.extend([((20 + options.len()) / 4 * 16) as u8, flags.unwrap_or_default()]);
    bytes.extend(words.number::<u16>("window", 65535)?.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(options);
    bytes.extend(payload.bytes);
    let sum = words.checksum(|| transport_checksum(between, 6, &bytes))?;
    bytes[16..18].copy_from_slice(&sum);
    Ok(Built { bytes, protocol: Some(6), ..Built::default() })
}

fn icmp(six: bool, between: Between, words: &mut Words<'_>, payload: Built) -> Result<Built, String> {
    if words.words.is_empty() {
        return Err("expected a type".to_owned());
    }
    let kind = words.words.remove(0);
    let names = Names::new();
    let named = Scope::new(&names, "").number(Kind::IcmpType, kind).filter(|_| !six);
    let kind: u8 = match named {
        Some(kind) => kind as u8,
        None => number(kind)?,
    };
    let [id, sequence]: [u16; 2] = [words.number("id", 0)?, words.number("seq", 0)?];
    let mut rest = words.hex("rest")?;
    if rest.is_empty() {
        rest = [id.to_be_bytes(), sequence.to_be_bytes()].concat();
    }
    let mut bytes = vec![kind, words.number("code", 0)?, 0, 0];
    bytes.extend(rest);
    bytes.extend(payload.bytes);
    let right = || if six { transport_checksum(between, 58, &bytes) } else { checksum::of(&bytes) };
    let sum = words.checksum(right)?;
    bytes[2..4].copy_from_slice(&sum);
    Ok(Built { bytes, protocol: Some(if six { 58 } else { 1 }), ..Built::default() })
}

/// `hex 01 02`, `"text"`, `zeros 20`, one after the other.
fn bytes(words: &[&str]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        match *word {
            "hex" => {
                while let Some(digits) =
                    words.next_if(|word| word.bytes().all(|byte| byte.is_ascii_hexdigit()))
                {
                    out.extend(unhex(digits)?);
                }
            }
            "zeros" => {
                let count: u16 = number(words.next().ok_or("how many zeros?")?)?;
                out.extend(vec![0; count.into()]);
            }
            text if text.starts_with('"') => out.extend(unquote(text)),
            other => return Err(format!("'{other}' stands where bytes should")),
        }
    }
    Ok(out)
}

fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("'{text}' is not pairs of hexadecimal digits");
    let digits: Option<Vec<u32>> = text.chars().map(|character| character.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0).ok_or_else(wrong)?;
    Ok(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn number<T: TryFrom<i128>>(text: &str) -> Result<T, String> {
    let number = parse_integer(text, i64::MIN.into(), i64::MAX.into())?;
    T::try_from(number).map_err(|_| format!("{number} is too large"))
}

fn value<T: Argument>(text: &str) -> Result<T, String> {
    read(text).map_err(|error| format!("'{text}': {error}"))
}

/// An address of either kind.
struct IpAddress(IpAddr);

impl Argument for IpAddress {
    fn parse(text: &str, _: &Scope<'_>) -> Result<IpAddress, String> {
        text.parse().map(IpAddress).map_err(|_| "not an IP address".to_owned())
    }
}
