//! Primitives: what a pattern asks of one field.
//!
//! A primitive is collected from its words ([`super::expression`]), then completed and checked
//! here: what was left out comes from the primitive before it (`src port 80 or 81`), and value,
//! mask and relation must fit the field.

use graph::arguments::{PROTOCOL_TCP_OR_UDP, PROTOCOL_TRANSPORT};
use wire::protocol;

/// Bits of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The protocol whose header it is; 0: IPv4's own. May be one of the numbers beyond 255 that
    /// stand for several.
    pub proto: u16,
    /// The first bit.
    pub offset: u32,
    /// How many, 1 to 32; all in one word of 32 bits.
    pub bits: u32,
}

impl Field {
    const fn ip(offset: u32, bits: u32) -> Field {
        Field { proto: 0, offset, bits }
    }

    pub const VERSION: Field = Field::ip(0, 4);
    pub const HEADER_LENGTH: Field = Field::ip(4, 4);
    pub const TOS: Field = Field::ip(8, 8);
    pub const DSCP: Field = Field::ip(8, 6);
    pub const LENGTH: Field = Field::ip(16, 16);
    pub const ID: Field = Field::ip(32, 16);
    pub const TTL: Field = Field::ip(64, 8);
    pub const TCP_WINDOW: Field = Field { proto: protocol::TCP as u16, offset: 112, bits: 16 };
    pub const ICMP_TYPE: Field = Field { proto: protocol::ICMP as u16, offset: 0, bits: 8 };
}

/// What a primitive is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Host,
    Net,
    Ether,
    Proto,
    Port,
    TcpOption,
    Fragment,
    Unfragmented,
    /// ECN-capable transport.
    Capable,
    /// Congestion experienced.
    Congestion,
    Field(Field),
}

/// What a value was written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    None,
    Number,
    /// A name or an address, which says what the primitive is about.
    Of(Kind),
}

/// Which of the two addresses or ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Source,
    Destination,
    Both,
    Either,
}

/// How the field and the value must be to each other, unless negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equal,
    Greater,
    Less,
}

/// Of which header the words say that it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    Ip,
    Ether,
}

/// A mask as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    Number(u32),
    Address(u32),
    Ether([u8; 6]),
}

/// One primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Primitive {
    pub kind: Option<Kind>,
    pub data: Data,
    pub side: Option<Side>,
    pub proto: Option<u32>,
    pub relation: Relation,
    pub negated: bool,
    pub value: u32,
    pub mask: u32,
    pub ether: [u8; 6],
    pub ether_mask: [u8; 6],
}

impl Primitive {
    /// Nothing is said.
    pub const NONE: Primitive = Primitive {
        kind: None,
        data: Data::None,
        side: None,
        proto: None,
        relation: Relation::Equal,
        negated: false,
        value: 0,
        mask: 0,
        ether: [0; 6],
        ether_mask: [0; 6],
    };

    /// Completes and checks it. `before` is the primitive before it as far as that counts. What
    /// works but is hardly meant goes into `warnings`.
    ///
    /// # Errors
    /// What is wrong with it, in Click's words.
    pub fn complete(
        mut self,
        before: &Primitive,
        header: Option<Header>,
        mask: Option<Mask>,
        warnings: &mut Vec<String>,
    ) -> Result<Primitive, String> {
        let side_was_said = self.side.is_some();
        if self.kind.is_none() {
            self.take_kind(before)?;
        }
        let default = if self.data == Data::Of(Kind::Ether) { Header::Ether } else { Header::Ip };
        let header = header.unwrap_or(default);
        if header == Header::Ether && self.kind == Some(Kind::Host) {
            self.kind = Some(Kind::Ether);
        }
        let Some(kind) = self.kind else { return Err("partial directive".to_owned()) };
        let about_ether = kind == Kind::Ether;
        if about_ether != (header == Header::Ether) {
            let message = if matches!(kind, Kind::Host | Kind::Net | Kind::Ether) {
                "address missing"
            } else {
                "ip only"
            };
            return self.wrong(message);
        }
        match kind {
            Kind::Host | Kind::Net | Kind::Ether => self.complete_address(kind, mask)?,
            Kind::Proto => self.complete_proto(mask, warnings)?,
            Kind::Port => self.complete_port(mask, warnings)?,
            Kind::TcpOption => self.complete_option(mask)?,
            Kind::Capable => self.complete_capable(mask, warnings)?,
            Kind::Congestion | Kind::Fragment | Kind::Unfragmented => {
                if self.data != Data::None || mask.is_some() {
                    return self.wrong("value not supported");
                }
                if kind == Kind::Congestion {
                    (self.value, self.mask, self.kind) = (3, 3, Some(Kind::Field(Field::TOS)));
                } else if kind == Kind::Unfragmented {
                    (self.negated, self.kind) = (true, Some(Kind::Fragment));
                }
            }
            Kind::Field(field) => {
                if !matches!(self.data, Data::Number) && self.data != Data::Of(kind) {
                    return self.wrong("value missing");
                }
                let mask = self.number_mask(mask)?;
                self.set_mask(u32::MAX >> (32 - field.bits), mask, warnings)?;
            }
        }
        if matches!(self.kind, Some(Kind::Host | Kind::Port | Kind::Ether)) {
            self.side = self.side.or(Some(Side::Either));
        } else if side_was_said {
            warnings.push(format!("'{}': 'src' or 'dst' ignored", self.name()));
        }
        Ok(self)
    }

    /// Says what it is about, from its value or the primitive before it.
    fn take_kind(&mut self, before: &Primitive) -> Result<(), String> {
        if self.data == Data::Number {
            match before.kind {
                Some(kind @ (Kind::Field(_) | Kind::Proto | Kind::Port)) => self.data = Data::Of(kind),
                _ => return Err("specify header field or 'port'".to_owned()),
            }
        }
        match self.data {
            Data::Of(kind) => {
                self.kind = Some(kind);
                if matches!(kind, Kind::Host | Kind::Net | Kind::TcpOption | Kind::Ether | Kind::Port) {
                    self.side = self.side.or(before.side);
                }
                match kind {
                    Kind::Port => self.proto = self.proto.or(before.proto),
                    Kind::Field(field) if field.proto != 0 => {
                        self.proto = self.proto.or(Some(field.proto.into()));
                    }
                    _ => {}
                }
            }
            Data::None | Data::Number if self.proto.is_some() => self.kind = Some(Kind::Proto),
            Data::None | Data::Number => return Err("partial directive".to_owned()),
        }
        Ok(())
    }

    fn complete_address(&mut self, kind: Kind, mask: Option<Mask>) -> Result<(), String> {
        if self.data != Data::Of(kind) {
            return self.wrong("address missing");
        }
        if self.relation != Relation::Equal {
            return self.wrong("operator not supported");
        }
        match (kind, mask) {
            (Kind::Ether, None) => self.ether_mask = [0xff; 6],
            (Kind::Ether, Some(Mask::Ether(mask))) => self.ether_mask = mask,
            (Kind::Ether, Some(_)) | (_, Some(Mask::Ether(_))) => return self.wrong("bad mask"),
            (Kind::Host, None) => self.mask = u32::MAX,
            (_, None) => {}
            (_, Some(Mask::Address(mask))) => self.mask = mask,
            // A number is taken as the address that it is in the memory of a little-endian machine.
            (_, Some(Mask::Number(mask))) => self.mask = mask.swap_bytes(),
        }
        if kind == Kind::Net {
            self.kind = Some(Kind::Host);
        }
        Ok(())
    }

    fn complete_proto(&mut self, mask: Option<Mask>, warnings: &mut Vec<String>) -> Result<(), String> {
        match self.data {
            Data::Number | Data::Of(Kind::Proto) => {
                if self.proto.is_some_and(|proto| proto != self.value) {
                    return self.wrong("specified twice");
                }
            }
            Data::Of(_) => return self.wrong("value missing"),
            Data::None => match self.proto {
                Some(proto) => self.value = proto,
                None => return self.wrong("value missing"),
            },
        }
        self.proto = None;
        if (256..=i32::MAX as u32).contains(&self.value) {
            if self.relation != Relation::Equal || mask.is_some() {
                return Err(format!("'{}': operator or mask not supported", protocol_name(self.value)));
            }
            self.mask = 0xff;
        } else {
            let mask = self.number_mask(mask)?;
            self.set_mask(0xff, mask, warnings)?;
        }
        if self.relation == Relation::Equal && self.mask == 0xff && !self.negated {
            self.proto = Some(self.value);
        }
        Ok(())
    }

    fn complete_port(&mut self, mask: Option<Mask>, warnings: &mut Vec<String>) -> Result<(), String> {
        if !matches!(self.data, Data::Number | Data::Of(Kind::Port)) {
            return self.wrong("value missing");
        }
        self.data = Data::Of(Kind::Port);
        const TCP: u32 = protocol::TCP as u32;
        const UDP: u32 = protocol::UDP as u32;
        const DCCP: u32 = protocol::DCCP as u32;
        match *self.proto.get_or_insert(PROTOCOL_TCP_OR_UDP) {
            TCP | UDP | DCCP | PROTOCOL_TCP_OR_UDP => {}
            other => return Err(format!("'port': bad protocol {other}")),
        }
        let mask = self.number_mask(mask)?;
        self.set_mask(0xffff, mask, warnings)
    }

    fn complete_option(&mut self, mask: Option<Mask>) -> Result<(), String> {
        if !matches!(self.data, Data::Number | Data::Of(Kind::TcpOption)) {
            return self.wrong("value missing");
        }
        self.data = Data::Of(Kind::TcpOption);
        let proto = *self.proto.get_or_insert(protocol::TCP.into());
        if proto != u32::from(protocol::TCP) {
            return Err(format!("'tcp opt': bad protocol {proto}"));
        }
        if self.relation != Relation::Equal || self.negated || mask.is_some() {
            return self.wrong("operator or mask not supported");
        }
        if self.value > 255 {
            return Err(format!("'tcp opt': value {} out of range", self.value as i32));
        }
        self.mask = self.value;
        Ok(())
    }

    fn complete_capable(&mut self, mask: Option<Mask>, warnings: &mut Vec<String>) -> Result<(), String> {
        match self.data {
            Data::None => (self.value, self.negated) = (0, true),
            Data::Number => {}
            Data::Of(_) => return self.wrong("value missing"),
        }
        let mask = if self.data == Data::None { None } else { self.number_mask(mask)? };
        self.set_mask(3, mask, warnings)?;
        self.kind = Some(Kind::Field(Field::TOS));
        Ok(())
    }

    fn number_mask(&self, mask: Option<Mask>) -> Result<Option<u32>, String> {
        match mask {
            None => Ok(None),
            Some(Mask::Number(mask)) => Ok(Some(mask)),
            Some(_) => self.wrong("bad mask"),
        }
    }

    /// Brings value, mask and relation into their final form: `Less` becomes `Greater`, negated.
    fn set_mask(&mut self, full: u32, mask: Option<u32>, warnings: &mut Vec<String>) -> Result<(), String> {
        let mask = mask.unwrap_or(full);
        if mask & !full != 0 {
            return Err(format!("'{}': mask out of range, bound 0x{full:X}", self.name()));
        }
        if self.relation == Relation::Equal {
            if self.value > full {
                return Err(format!("'{}': out of range, bound {full}", self.name()));
            }
            self.mask = mask;
            return Ok(());
        }
        let less = self.relation == Relation::Less;
        if if less { self.value == 0 || self.value > mask } else { self.value >= mask } {
            let always = if less && self.value > mask { !self.negated } else { self.negated };
            let (sign, value) = (self.sign(), self.value);
            warnings.push(format!("relation '{sign} {value}' is always {always} (range 0-{mask})"));
            (self.value, self.mask, self.relation, self.negated) = (0, 0, Relation::Equal, !always);
            return Ok(());
        }
        if less {
            self.value -= 1;
            self.negated = !self.negated;
            self.relation = Relation::Greater;
        }
        self.mask = mask;
        // `tcp[0] & 5 > 2` is the same as `tcp[0] & 5 > 1`: only values inside the mask count.
        let outside = self.value & !mask & full;
        if outside != 0 {
            self.value = (self.value | u32::MAX >> outside.leading_zeros()) & mask;
        }
        Ok(())
    }

    fn wrong<T>(&self, message: &str) -> Result<T, String> {
        Err(format!("'{}': {message}", self.name()))
    }

    fn name(&self) -> String {
        let side = match self.side {
            None => "",
            Some(Side::Source) => "src ",
            Some(Side::Destination) => "dst ",
            Some(Side::Either) => "src or dst ",
            Some(Side::Both) => "src and dst ",
        };
        format!("{side}{}", kind_name(self.kind))
    }

    fn sign(&self) -> &'static str {
        match (self.relation, self.negated) {
            (Relation::Greater, false) => ">",
            (Relation::Greater, true) => "<=",
            (Relation::Less, false) => "<",
            (Relation::Less, true) => ">=",
            (Relation::Equal, false) => "=",
            (Relation::Equal, true) => "!=",
        }
    }
}

/// What messages call a kind.
pub fn kind_name(kind: Option<Kind>) -> String {
    let name = match kind {
        None => "<none>",
        Some(Kind::Host) => "ip host",
        Some(Kind::Net) => "ip net",
        Some(Kind::Ether) => "ether host",
        Some(Kind::Proto) => "proto",
        Some(Kind::Port) => "port",
        Some(Kind::TcpOption) => "tcp opt",
        Some(Kind::Fragment) => "ip frag",
        Some(Kind::Unfragmented) => "ip unfrag",
        Some(Kind::Capable) => "ip ect",
        Some(Kind::Congestion) => "ip ce",
        Some(Kind::Field(Field::LENGTH)) => "ip len",
        Some(Kind::Field(Field::ID)) => "ip id",
        Some(Kind::Field(Field::VERSION)) => "ip vers",
        Some(Kind::Field(Field::HEADER_LENGTH)) => "ip hl",
        Some(Kind::Field(Field::TOS)) => "ip tos",
        Some(Kind::Field(Field::DSCP)) => "ip dscp",
        Some(Kind::Field(Field::TTL)) => "ip ttl",
        Some(Kind::Field(Field::TCP_WINDOW)) => "tcp win",
        Some(Kind::Field(Field::ICMP_TYPE)) => "icmp type",
        Some(Kind::Field(Field { proto: 0, .. })) => "ip[...]",
        Some(Kind::Field(field)) => return protocol_name(field.proto.into()) + "[...]",
    };
    name.to_owned()
}

/// What messages call a protocol.
pub fn protocol_name(proto: u32) -> String {
    match proto {
        1 => "icmp".to_owned(),
        2 => "igmp".to_owned(),
        4 => "ipip".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        PROTOCOL_TCP_OR_UDP => "tcpudp".to_owned(),
        PROTOCOL_TRANSPORT => "transp".to_owned(),
        other => format!("ip proto {}", other as i32),
    }
}
