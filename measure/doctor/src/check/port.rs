//! Interfaces: the card and its slot, queues and who serves them, and what they do to frames.

use std::collections::{BTreeMap, BTreeSet};

use port::device::XdpFeatures;

use super::cpu;
use crate::word::word;
use crate::{Area, Devices, Finding, Level, Place, Unread, list};

const NET: &str = "sys/class/net";
/// Descriptors that a burst needs while a worker is at another port.
const RING: u32 = 1024;

pub(crate) fn check(place: &Place, devices: &dyn Devices, named: &[String], findings: &mut Vec<Finding>) {
    let all = place.names(NET).unwrap_or_default();
    // Each network namespace has at least its lo.
    if all.is_empty() {
        let text = format!("/{NET} shows none: they cannot be looked at from here");
        findings.push(Finding::new(Area::Port, "interfaces", Level::Unknown, text));
        return;
    }
    let is_hardware = |name: &&String| place.has(&format!("{NET}/{name}/device"));
    let ports: Vec<&String> =
        if named.is_empty() { all.iter().filter(is_hardware).collect() } else { named.iter().collect() };
    if ports.is_empty() {
        let text = "there is none with hardware behind it; name others as arguments";
        findings.push(Finding::new(Area::Port, "interfaces", Level::Advice, text));
    }
    let mut homes: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    for name in ports {
        if !is_name(name) || !place.has(&format!("{NET}/{name}")) {
            let text = "there is no such interface here";
            let mut finding = Finding::new(Area::Port, "interface", Level::Problem, text).on(name);
            if let Some((interface, namespace)) = name.split_once('@') {
                let (interface, namespace) = (word(interface), word(namespace));
                finding = finding.mend(format!("ip netns exec {namespace} bifrost doctor {interface}"));
            }
            findings.push(finding);
            continue;
        }
        let port = Port { place, devices, name };
        findings.extend(port.check().into_iter().map(|finding| finding.on(name)));
        if let Ok(node) = place.number(&format!("{NET}/{name}/device/numa_node")) {
            homes.entry(node).or_default().push(name);
        }
    }
    homes.remove(&-1);
    if homes.len() > 1 {
        let home = |(node, names): (&i64, &Vec<&str>)| format!("{} on node {node}", names.join(", "));
        let text = format!(
            "{}: frames between them cross the sockets' link",
            homes.iter().map(home).collect::<Vec<_>>().join("; ")
        );
        findings.push(
            Finding::new(Area::Port, "nodes", Level::Advice, text)
                .mend("put the cards that forward to each other into slots of one socket"),
        );
    }
}

/// A name that Linux allows, and no way out of the directory.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() < 16 && name != "." && name != ".." && !name.contains(['/', '\0', ' '])
}

struct Port<'a> {
    place: &'a Place,
    devices: &'a dyn Devices,
    name: &'a str,
}

impl Port<'_> {
    fn file(&self, path: &str) -> String {
        format!("{NET}/{}/{path}", self.name)
    }

    /// Its name in a command.
    fn word(&self) -> String {
        word(self.name)
    }

    fn check(&self) -> Vec<Finding> {
        let mut findings = vec![self.driver(), self.link()];
        findings.extend(self.slot());
        findings.extend(self.node());
        findings.extend(self.queues());
        findings.extend(self.rss());
        findings.extend(self.interrupts());
        findings.extend(self.rings());
        findings.extend(self.pause());
        findings.extend(self.offloads());
        findings.extend(self.losses());
        findings
    }

    fn driver(&self) -> Finding {
        let finding = |level, text: String| Finding::new(Area::Port, "driver", level, text);
        let driver = self.devices.driver(self.name).ok().filter(|driver| !driver.is_empty());
        let driver = driver.unwrap_or_else(|| "unknown driver".to_owned());
        match self.devices.xdp(self.name) {
            Ok(features) if features.contains(XdpFeatures::ZERO_COPY) => {
                finding(Level::Ok, format!("{driver}: AF_XDP without copying, the workers' lane at full speed"))
            }
            Ok(features) if features.contains(XdpFeatures::NATIVE) => {
                let text = format!("{driver}: programs in the driver, but AF_XDP copies: plain forwarding runs in the express lane, \
                                    everything else is slower");
                finding(Level::Advice, text)
            }
            Ok(_) => finding(Level::Problem, format!("{driver}: no XDP in the driver: every packet passes Linux's stack first"))
                .mend("use a card whose driver has XDP, best with AF_XDP zero-copy: ice, i40e, ixgbe, mlx5, igc, igb, gve"),
            Err(why) => finding(Level::Unknown, format!("{driver}: what it can do with XDP: {why}")),
        }
    }

    fn link(&self) -> Finding {
        let finding = |level, text: String| Finding::new(Area::Port, "link", level, text);
        // Reading the carrier of an interface that is down is an error of its own.
        let state = self.place.text(&self.file("operstate")).unwrap_or_default();
        if state == "down" {
            return finding(Level::Advice, "down".to_owned())
                .mend(format!("ip link set dev {} up", self.word()));
        }
        let duplex = self.place.text(&self.file("duplex")).unwrap_or_default();
        match self.place.number(&self.file("speed")) {
            Ok(_) if duplex == "half" => {
                finding(Level::Problem, "half duplex: the two ends do not agree".to_owned())
                    .mend(format!("ethtool -s {} autoneg on", self.word()))
            }
            Ok(speed) if speed > 0 => finding(Level::Ok, format!("{speed} Mb/s")),
            Ok(_) | Err(Unread::Other(_)) => finding(Level::Ok, "up, of no speed in particular".to_owned()),
            Err(why) => finding(Level::Unknown, why.to_string()),
        }
    }

    /// Whether the slot carries what the line brings.
    fn slot(&self) -> Option<Finding> {
        let finding = |level, text: String| Finding::new(Area::Port, "slot", level, text);
        let text = |file: &str| self.place.text(&self.file(&format!("device/{file}"))).ok();
        let (speed, width) = (text("current_link_speed")?, text("current_link_width")?);
        let transfers: f64 = speed.split_whitespace().next()?.parse().ok()?;
        let lanes: f64 = width.parse().ok()?;
        // 8b/10b up to 5 GT/s, then 128b/130b; an eighth goes to headers of transfers.
        let code = if transfers <= 5.0 { 0.8 } else { 128.0 / 130.0 };
        let carries = transfers * 1e9 * lanes * code * 0.875;
        let line = self.place.number(&self.file("speed")).ok().filter(|speed| *speed > 0)? as f64 * 1e6;
        let said = format!("PCIe {speed} x{width}: about {:.0} Gb/s", carries / 1e9);
        Some(match carries < line {
            true => {
                let most = text("max_link_width").zip(text("max_link_speed"));
                let could = most
                    .map_or(String::new(), |(width, speed)| format!(" (the card could do {speed} x{width})"));
                finding(Level::Problem, format!("{said}, less than the line{could}"))
                    .mend("put the card into a wider or newer slot")
            }
            false => finding(Level::Ok, said),
        })
    }

    fn node(&self) -> Option<Finding> {
        let finding = |level, text: String| Finding::new(Area::Port, "node", level, text);
        let many =
            self.place.text("sys/devices/system/node/online").ok().and_then(|text| list::parse(&text))?.len()
                > 1;
        let node = self.place.number(&self.file("device/numa_node")).ok().filter(|_| many)?;
        if node < 0 {
            return Some(finding(
                Level::Unknown,
                "the firmware does not tell which socket the card is at".to_owned(),
            ));
        }
        let cores = self.local_cores();
        let cores = if cores.is_empty() { "unknown".to_owned() } else { list::write(&cores) };
        Some(finding(Level::Ok, format!("{node}: workers belong on cores {cores}")))
    }

    /// Cores of the card's own node; all, where that is not known.
    fn local_cores(&self) -> BTreeSet<u32> {
        let online = cpu::online(self.place);
        let local =
            self.place.text(&self.file("device/local_cpulist")).ok().and_then(|text| list::parse(&text));
        match local {
            Some(local) if !local.is_empty() => local.intersection(&online).copied().collect(),
            _ => online,
        }
    }

    fn queues(&self) -> Option<Finding> {
        let finding = |level, text: String| Finding::new(Area::Port, "queues", level, text);
        let channels = match self.devices.channels(self.name) {
            Ok(channels) => channels,
            Err(_) => {
                let queues = self.place.names(&self.file("queues")).ok()?;
                let receive = queues.iter().filter(|name| name.starts_with("rx-")).count();
                return Some(finding(Level::Ok, format!("{receive}, as many as the driver makes")));
            }
        };
        let (queues, cores) = (channels.receive(), self.local_cores().len() as u32);
        if queues == 0 {
            return Some(finding(Level::Ok, "none until a program has its other end open".to_owned()));
        }
        // One core is the control's, where there are several.
        let workers = cores.saturating_sub(1).max(1);
        let command = |count: u32| {
            let kind = if channels.combined > 0 || channels.rx == 0 { "combined" } else { "rx" };
            format!("ethtool -L {} {kind} {count}", self.word())
        };
        Some(if queues < workers.min(channels.max) {
            let text = format!("{queues} for {workers} cores that could work: the others have nothing to do");
            finding(Level::Advice, text).mend(command(workers.min(channels.max)))
        } else if queues > cores.max(1) {
            let text = format!(
                "{queues} for {cores} cores: some core serves several, and Bifrost leaves what it has no worker for to RSS"
            );
            finding(Level::Advice, text).mend(command(workers))
        } else {
            finding(Level::Ok, format!("{queues}, for {cores} {}", if cores == 1 { "core" } else { "cores" }))
        })
    }

    fn rss(&self) -> Option<Finding> {
        let finding = |level, text: String| Finding::new(Area::Port, "RSS", level, text);
        let queues = self.devices.channels(self.name).ok()?.receive();
        if queues < 2 {
            return None;
        }
        let table = match self.devices.rss(self.name) {
            Ok(table) => table,
            Err(why) => return Some(finding(Level::Unknown, why)),
        };
        let mut slots: BTreeMap<u32, usize> = BTreeMap::new();
        table.iter().for_each(|queue| *slots.entry(*queue).or_default() += 1);
        let (least, most) =
            (slots.values().min().copied().unwrap_or(0), slots.values().max().copied().unwrap_or(0));
        let mend = format!("ethtool -X {} equal {queues}", self.word());
        Some(if slots.len() < queues as usize {
            let text = format!("flows go to {} of {queues} queues: the other cores are idle", slots.len());
            finding(Level::Advice, text).mend(mend)
        } else if most > least + 1 && most * 4 > least * 5 {
            finding(Level::Advice, format!("uneven: a queue has {least} to {most} slots of the table"))
                .mend(mend)
        } else {
            finding(Level::Ok, format!("flows are spread over {queues} queues"))
        })
    }

    fn interrupts(&self) -> Option<Finding> {
        let finding = |level, text: String| Finding::new(Area::Port, "interrupts", level, text);
        // A virtio device's interrupts belong to the PCI device above it.
        let numbers = ["device/msi_irqs", "device/../msi_irqs"].iter();
        let irqs: BTreeSet<String> = numbers
            .filter_map(|path| self.place.names(&self.file(path)).ok())
            .find(|names| !names.is_empty())?
            .into_iter()
            .collect();
        let table = self.place.text("proc/interrupts").unwrap_or_default();
        let mut homes: BTreeMap<String, usize> = BTreeMap::new();
        let (mut served, mut denied, mut of_queues) = (BTreeSet::new(), None, Vec::new());
        for line in table.lines() {
            let Some((number, rest)) = line.trim_start().split_once(':') else { continue };
            let action = rest.split_whitespace().last().unwrap_or("").to_ascii_lowercase();
            let is_queue = ["rx", "input", "queue", "comp"].iter().any(|word| action.contains(word));
            if !irqs.contains(number) || !is_queue {
                continue;
            }
            let file = |name| self.place.text(&format!("proc/irq/{number}/{name}"));
            let all = |text: &str| list::parse(text).unwrap_or_default();
            let cores = match (file("effective_affinity_list"), file("smp_affinity_list")) {
                // It has been moved, which takes effect with the next interrupt.
                (Ok(now), Ok(soon)) if !all(&now).is_subset(&all(&soon)) => Ok(soon),
                (Err(Unread::Missing), soon) => soon,
                (now, _) => now,
            };
            match cores {
                Ok(cores) => {
                    served.extend(all(&cores));
                    *homes.entry(cores).or_default() += 1;
                    of_queues.push(number);
                }
                Err(Unread::Missing) => {}
                Err(why) => denied = Some(why),
            }
        }
        let total: usize = homes.values().sum();
        if total == 0 {
            return denied.map(|why| finding(Level::Unknown, why.to_string()));
        }
        let local = self.local_cores();
        let far: BTreeSet<u32> = served.difference(&local).copied().collect();
        let crowd = homes.values().max().copied().unwrap_or(0);
        // One after the other, each at the next core.
        let pairs =
            of_queues.iter().zip(local.iter().cycle()).map(|(number, core)| format!("{number}:{core}"));
        let mend = format!(
            "systemctl stop irqbalance; for i in {}; do echo ${{i#*:}} >/proc/irq/${{i%:*}}/smp_affinity_list; done",
            pairs.collect::<Vec<_>>().join(" ")
        );
        Some(if !far.is_empty() {
            let text =
                format!("served by cores {}, which are at another socket than the card", list::write(&far));
            finding(Level::Advice, text).mend(mend)
        } else if crowd > 1 && total > 1 && crowd > total.div_ceil(local.len().max(1)) {
            finding(Level::Advice, format!("{crowd} of {total} queues interrupt the same core")).mend(mend)
        } else {
            let queues = if total == 1 { "1 queue".to_owned() } else { format!("{total} queues") };
            finding(Level::Ok, format!("{queues} on cores {}", list::write(&served)))
        })
    }

    fn rings(&self) -> Option<Finding> {
        let finding = |level, text: String| Finding::new(Area::Port, "rings", level, text);
        let rings = self.devices.rings(self.name).ok().filter(|rings| rings.rx_max > 0)?;
        let wanted = RING.min(rings.rx_max);
        Some(if rings.rx < wanted {
            let text = format!("{} descriptors to receive with: a burst of more is lost", rings.rx);
            finding(Level::Advice, text).mend(format!(
                "ethtool -G {} rx {}",
                self.word(),
                (2 * RING).min(rings.rx_max)
            ))
        } else {
            finding(Level::Ok, format!("{} to receive, {} to send", rings.rx, rings.tx))
        })
    }

    fn pause(&self) -> Option<Finding> {
        let finding = |level, text: &str| Finding::new(Area::Port, "flow control", level, text);
        let pause = self.devices.pause(self.name).ok()?;
        let mend = format!("ethtool -A {} autoneg off rx off tx off", self.word());
        Some(match (pause.rx, pause.tx) {
            (false, false) => finding(Level::Ok, "off"),
            (true, false) => finding(Level::Advice, "a neighbour that is slow can stop this port, and all that waits for it").mend(mend),
            _ => finding(Level::Advice, "a port that is flooded stops its neighbour: loss moves to where nobody counts it, and other traffic waits").mend(mend),
        })
    }

    fn offloads(&self) -> Vec<Finding> {
        let Ok(offloads) = self.devices.offloads(self.name) else { return Vec::new() };
        let finding = |subject, level, text: &str| Finding::new(Area::Port, subject, level, text);
        let mut findings = Vec::new();
        if offloads.lro {
            let text =
                "on: the card merges packets that are not for this machine, and what leaves is too large";
            findings.push(
                finding("LRO", Level::Problem, text).mend(format!("ethtool -K {} lro off", self.word())),
            );
        } else {
            findings.push(finding("LRO", Level::Ok, "off"));
        }
        // A veth polls only with GRO, and only then can frames be redirected to its peer.
        let is_veth = self.devices.driver(self.name).is_ok_and(|driver| driver == "veth");
        if offloads.gro && !is_veth {
            let text = "on: where Linux forwards, it merges packets and takes them apart again, which changes their spacing";
            findings.push(
                finding("GRO", Level::Advice, text).mend(format!("ethtool -K {} gro off", self.word())),
            );
        }
        findings
    }

    fn losses(&self) -> Option<Finding> {
        let finding = |level, text: String| Finding::new(Area::Port, "losses", level, text);
        let count = |name: &str| self.place.number(&self.file(&format!("statistics/{name}"))).unwrap_or(0);
        let (missed, damaged) =
            (count("rx_missed_errors").saturating_add(count("rx_fifo_errors")), count("rx_crc_errors"));
        if !self.place.has(&self.file("statistics")) {
            return None;
        }
        Some(if damaged > 0 {
            finding(
                Level::Advice,
                format!(
                    "{damaged} frames came damaged since the driver was loaded: a cable, a connector, or an optic"
                ),
            )
        } else if missed > 0 {
            finding(
                Level::Advice,
                format!("{missed} frames found no room in the rings since the driver was loaded"),
            )
            .mend(format!("ethtool -S {} | grep -iE 'miss|drop|no_?buf'", self.word()))
        } else {
            finding(Level::Ok, "none counted".to_owned())
        })
    }
}
