//! What an operator says about the log, and whether it makes sense.
//!
//! [`Settings`] is the text of a configuration as it was written; [`Settings::check`] turns it into
//! a [`Plan`], whose values need no further look, or names all mistakes at once, each by the key it
//! stands under.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use notation::{duration, size};
use serde::{Deserialize, Serialize};

/// The flow log as it is written: `[flow_log]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Log one flow in so many.
    pub sample: u64,
    /// Flows that may wait in each worker's queue.
    pub queue: u64,
    /// Where records are sent.
    #[serde(rename = "collector")]
    pub collectors: Vec<CollectorSettings>,
    /// Where they are kept; absent: nowhere.
    pub files: Option<FilesSettings>,
}

/// One `[[flow_log.collector]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CollectorSettings {
    /// Address and port.
    pub address: String,
    /// `ipfix` (the default) or `netflow9`.
    pub protocol: Option<String>,
    /// `udp` (the default) or `tcp` (only IPFIX).
    pub transport: Option<String>,
    /// Address to send from (only UDP).
    pub source: Option<String>,
    /// Largest IP packet in bytes; default 1500.
    pub mtu: Option<u64>,
    /// Observation domain or source id; default 1.
    pub domain: Option<u64>,
    /// One record a connection (RFC 5103) instead of one for each direction.
    pub biflow: Option<bool>,
    /// `milliseconds` (the default) or `nanoseconds`.
    pub times: Option<String>,
    /// How often templates are sent again over UDP; default `60s`.
    pub templates: Option<String>,
    /// Records that may wait for it; default 65,536.
    pub queue: Option<u64>,
}

/// `[flow_log.files]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FilesSettings {
    /// Where; default `/var/lib/bifrost/flows`.
    pub directory: Option<PathBuf>,
    /// After how long a new file begins; default `15m`.
    pub rotate: Option<String>,
    /// At what size of the journal; default `256MiB`. The file made of it is about a third of that.
    pub size: Option<String>,
    /// How often the journal is forced to the disk; default `5s`; `0s` leaves it to Linux.
    pub sync: Option<String>,
    /// Older files are removed; absent: none are.
    pub keep: Option<String>,
    /// The oldest files are removed when all together are larger; absent: none are.
    pub keep_size: Option<String>,
    /// Records that may wait for the disk; default 262,144.
    pub queue: Option<u64>,
}

/// sFlow as it is written: `[sflow]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SflowSettings {
    /// Address by which collectors know this router.
    pub agent: String,
    /// Addresses and ports of collectors; the usual port is 6343.
    pub collectors: Vec<String>,
    /// Sample one packet in so many; default 1000.
    pub sample: Option<u64>,
    /// Bytes of a packet that are sent; default 128.
    pub header: Option<u64>,
    /// How often interface counters are sent; default `20s`.
    pub counters: Option<String>,
    /// Largest IP packet in bytes; default 1500.
    pub mtu: Option<u64>,
}

/// The flow log, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Log one flow in so many.
    pub sample: u32,
    /// Flows that may wait in each worker's queue.
    pub queue: usize,
    /// Where records are sent.
    pub collectors: Vec<Collector>,
    /// Where they are kept.
    pub files: Option<Files>,
}

/// A collector, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it understands.
    pub protocol: Protocol,
    /// By what it is reached.
    pub transport: Transport,
    /// Address to send from.
    pub source: Option<IpAddr>,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Observation domain or source id.
    pub domain: u32,
    /// Templates are sent again after this.
    pub templates: Duration,
    /// Records that may wait for it.
    pub queue: usize,
}

/// What a collector understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RFC 7011.
    Ipfix {
        /// One record a connection (RFC 5103).
        biflow: bool,
        /// Which elements carry times.
        times: Times,
    },
    /// RFC 3954.
    NetFlow9,
}

/// Elements for times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Times {
    /// 152 and 153.
    #[default]
    Milliseconds,
    /// 156 and 157.
    Nanoseconds,
}

/// By what a collector is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// A connection.
    Tcp,
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Ipfix { .. } => "ipfix",
            Protocol::NetFlow9 => "netflow9",
        };
        let transport = match self.transport {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        };
        write!(f, "{protocol} {transport} {}", self.address)
    }
}

/// Files, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Where.
    pub directory: PathBuf,
    /// After how long a new file begins.
    pub rotate: Duration,
    /// At how many bytes of the journal.
    pub size: u64,
    /// How often the journal is forced to the disk; zero: never.
    pub sync: Duration,
    /// Older files are removed.
    pub keep: Option<Duration>,
    /// The oldest files are removed when all together are larger, in bytes.
    pub keep_size: Option<u64>,
    /// Records that may wait for the disk.
    pub queue: usize,
}

/// sFlow, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SflowPlan {
    /// Address by which collectors know this router.
    pub agent: IpAddr,
    /// Where collectors listen.
    pub collectors: Vec<SocketAddr>,
    /// Sample one packet in so many.
    pub sample: u32,
    /// Bytes of a packet that are sent.
    pub header: usize,
    /// How often interface counters are sent.
    pub counters: Duration,
    /// Largest IP packet in bytes.
    pub mtu: u16,
}

/// One thing wrong with settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message} (expected: {expected})")]
pub struct SettingsMistake {
    /// Under which key, from the section's own: `collector[1].mtu`, from 0.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub expected: String,
}

/// Everything wrong with settings: at least one mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes(pub Vec<SettingsMistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, mistake) in self.0.iter().enumerate() {
            write!(f, "{}{mistake}", if n > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { sample: 1, queue: 65_536, collectors: Vec::new(), files: None }
    }
}

impl Settings {
    /// Everything checked, or everything that is wrong.
    pub fn check(&self) -> Result<Plan, Mistakes> {
        let mut found = Found::default();
        let sample = found.number("sample", Some(self.sample), 1, 1..=1_000_000);
        let queue = found.number("queue", Some(self.queue), 65_536, 64..=16_777_216);
        let mut collectors = Vec::new();
        for (n, collector) in self.collectors.iter().enumerate() {
            let checked = found.collector(&format!("collector[{n}]"), collector);
            if let Some(checked) = checked {
                if collectors.iter().any(|other: &Collector| other.to_string() == checked.to_string()) {
                    found.wrong(format!("collector[{n}].address"), "named twice", "each collector once");
                }
                collectors.push(checked);
            }
        }
        let files = self.files.as_ref().map(|files| found.files(files));
        found.end(Plan { sample: sample as u32, queue: queue as usize, collectors, files })
    }
}

impl SflowSettings {
    /// Everything checked, or everything that is wrong.
    pub fn check(&self) -> Result<SflowPlan, Mistakes> {
        let mut found = Found::default();
        let agent = match self.agent.parse::<IpAddr>() {
            Ok(agent) => agent,
            Err(_) => {
                found.wrong("agent", format!("{:?} is no address", self.agent), "an address of this router");
                IpAddr::from([0; 4])
            }
        };
        if self.collectors.is_empty() {
            found.wrong("collectors", "there is none", "[\"192.0.2.9:6343\"]");
        }
        let collectors = self.collectors.iter().enumerate();
        let collectors =
            collectors.filter_map(|(n, text)| found.socket(&format!("collectors[{n}]"), text)).collect();
        let plan = SflowPlan {
            agent,
            collectors,
            sample: found.number("sample", self.sample, 1000, 1..=16_777_216) as u32,
            header: found.number("header", self.header, 128, 64..=256) as usize,
            counters: found.time("counters", &self.counters, "20s", 1..=3600),
            mtu: found.number("mtu", self.mtu, 1500, 576..=9000) as u16,
        };
        found.end(plan)
    }
}

#[derive(Default)]
struct Found(Vec<SettingsMistake>);

impl Found {
    fn wrong(&mut self, key: impl Into<String>, message: impl Into<String>, expected: impl Into<String>) {
        self.0.push(SettingsMistake { key: key.into(), message: message.into(), expected: expected.into() });
    }

    fn end<T>(self, plan: T) -> Result<T, Mistakes> {
        if self.0.is_empty() { Ok(plan) } else { Err(Mistakes(self.0)) }
    }

    fn number(&mut self, key: &str, value: Option<u64>, default: u64, range: RangeInclusive<u64>) -> u64 {
        let value = value.unwrap_or(default);
        if !range.contains(&value) {
            let expected = format!("a whole number from {} to {}", range.start(), range.end());
            self.wrong(key, format!("{value} is out of range"), expected);
            return default;
        }
        value
    }

    /// A duration between so many seconds.
    fn time(
        &mut self,
        key: &str,
        text: &Option<String>,
        default: &str,
        seconds: RangeInclusive<u64>,
    ) -> Duration {
        let text = text.as_deref().unwrap_or(default);
        let time = duration(text);
        let fits = |time: &Duration| {
            (Duration::from_secs(*seconds.start())..=Duration::from_secs(*seconds.end())).contains(time)
        };
        time.filter(fits).unwrap_or_else(|| {
            let expected =
                format!("a time such as {default:?}, from {}s to {}s", seconds.start(), seconds.end());
            self.wrong(key, format!("{text:?} is no such time"), expected);
            Duration::from_secs(*seconds.start())
        })
    }

    fn bytes(&mut self, key: &str, text: &str, range: RangeInclusive<u64>) -> u64 {
        size(text).filter(|size| range.contains(size)).unwrap_or_else(|| {
            self.wrong(
                key,
                format!("{text:?} is no such size"),
                format!("a size such as \"256MiB\", of {} bytes at least", range.start()),
            );
            *range.start()
        })
    }

    fn socket(&mut self, key: &str, text: &str) -> Option<SocketAddr> {
        let socket = text.parse::<SocketAddr>().ok().filter(|socket| socket.port() != 0);
        if socket.is_none() {
            let message = match text.is_empty() {
                true => "it is missing".to_owned(),
                false => format!("{text:?} is no address with a port"),
            };
            self.wrong(key, message, "such as \"192.0.2.9:4739\" or \"[2001:db8::9]:4739\"");
        }
        socket
    }

    fn word<T: Copy>(&mut self, key: String, text: &Option<String>, words: &[(&str, T)]) -> T {
        match text {
            None => words[0].1,
            Some(text) => {
                words.iter().find(|(word, _)| word == text).map(|(_, value)| *value).unwrap_or_else(|| {
                    let known = words.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>();
                    self.wrong(key, format!("cannot be {text:?}"), known.join(" or "));
                    words[0].1
                })
            }
        }
    }

    fn collector(&mut self, at: &str, settings: &CollectorSettings) -> Option<Collector> {
        let key = |name: &str| format!("{at}.{name}");
        let address = self.socket(&key("address"), &settings.address);
        let netflow = self.word(key("protocol"), &settings.protocol, &[("ipfix", false), ("netflow9", true)]);
        let udp_tcp = [("udp", Transport::Udp), ("tcp", Transport::Tcp)];
        let transport = self.word(key("transport"), &settings.transport, &udp_tcp);
        let times = [("milliseconds", Times::Milliseconds), ("nanoseconds", Times::Nanoseconds)];
        let times = self.word(key("times"), &settings.times, &times);
        let biflow = settings.biflow.unwrap_or(false);
        if netflow {
            for (name, wrong) in [
                ("transport", transport == Transport::Tcp),
                ("biflow", biflow),
                ("times", times == Times::Nanoseconds),
            ] {
                if wrong {
                    self.wrong(key(name), "NetFlow 9 knows nothing of it", "protocol = \"ipfix\" with it");
                }
            }
        }
        let source = settings.source.as_ref().and_then(|text| {
            let source = text.parse::<IpAddr>().ok();
            if source.is_none_or(|source| address.is_some_and(|to| to.is_ipv4() != source.is_ipv4())) {
                self.wrong(
                    key("source"),
                    format!("{text:?} cannot send there"),
                    "an address of this router, of the collector's family",
                );
            }
            source
        });
        if source.is_some() && transport == Transport::Tcp {
            self.wrong(key("source"), "a connection's is chosen by Linux's routes", "no source with \"tcp\"");
        }
        let (mtu, domain, templates, queue) = (
            self.number(&key("mtu"), settings.mtu, 1500, 576..=9000) as u16,
            self.number(&key("domain"), settings.domain, 1, 0..=u64::from(u32::MAX)) as u32,
            self.time(&key("templates"), &settings.templates, "60s", 1..=86_400),
            self.number(&key("queue"), settings.queue, 65_536, 1024..=16_777_216) as usize,
        );
        Some(Collector {
            address: address?,
            protocol: if netflow { Protocol::NetFlow9 } else { Protocol::Ipfix { biflow, times } },
            transport,
            source,
            mtu,
            domain,
            templates,
            queue,
        })
    }

    fn files(&mut self, settings: &FilesSettings) -> Files {
        let directory = settings.directory.clone().unwrap_or_else(|| PathBuf::from(DIRECTORY));
        if !directory.is_absolute() {
            let message = format!("{:?} depends on where the program starts", directory);
            self.wrong("files.directory", message, "a path from /");
        }
        Files {
            directory,
            rotate: self.time("files.rotate", &settings.rotate, "15m", 1..=86_400),
            size: self.bytes("files.size", settings.size.as_deref().unwrap_or("256MiB"), 65_536..=1 << 40),
            sync: self.time("files.sync", &settings.sync, "5s", 0..=3600),
            keep: settings
                .keep
                .as_ref()
                .map(|_| self.time("files.keep", &settings.keep, "30d", 60..=315_360_000)),
            keep_size: settings
                .keep_size
                .as_deref()
                .map(|text| self.bytes("files.keep_size", text, 1 << 20..=u64::MAX)),
            queue: self.number("files.queue", settings.queue, 262_144, 1024..=16_777_216) as usize,
        }
    }
}

/// Where files are unless somebody says otherwise.
pub const DIRECTORY: &str = "/var/lib/bifrost/flows";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_default() {
        let text = "[[collector]]\naddress = \"192.0.2.9:4739\"\n[files]\n";
        let plan = toml::from_str::<Settings>(text).unwrap().check().unwrap();
        let files = plan.files.unwrap();
        assert_eq!(plan.collectors[0].to_string(), "ipfix udp 192.0.2.9:4739");
        assert_eq!((files.rotate, files.size), (Duration::from_secs(900), 256 << 20));
        assert_eq!((files.keep, files.keep_size), (None, None));
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let text = r#"
            sample = 0
            [[collector]]
            address = "example:4739"
            protocol = "netflow9"
            transport = "tcp"
            [[collector]]
            address = "192.0.2.9:4739"
            source = "2001:db8::1"
            mtu = 100
            times = "days"
            [[collector]]
            address = "192.0.2.9:4739"
            [files]
            directory = "flows"
            rotate = "soon"
            size = "1 EiB"
        "#;
        let Mistakes(mistakes) = toml::from_str::<Settings>(text).unwrap().check().unwrap_err();
        let keys = mistakes.iter().map(|mistake| mistake.key.as_str()).collect::<Vec<_>>();
        let expected = [
            "sample",
            "collector[0].address",
            "collector[0].transport",
            "collector[1].times",
            "collector[1].source",
            "collector[1].mtu",
            "collector[2].address",
            "files.directory",
            "files.rotate",
            "files.size",
        ];
        assert_eq!(keys, expected);
        assert!(mistakes[2].to_string().contains("NetFlow 9 knows nothing of it"), "{}", mistakes[2]);
        let sflow = SflowSettings { agent: "me".to_owned(), header: Some(9), ..SflowSettings::default() };
        assert_eq!(sflow.check().unwrap_err().0.len(), 3);
    }
}
