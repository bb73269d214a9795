//! The figures as text: families with help and type, then their samples.
//!
//! The two formats differ in what a family is called. Prometheus' own names it as its samples are
//! (`x_total`, `x_info`), OpenMetrics without the suffix, which its type implies; and OpenMetrics
//! ends with `# EOF`.

use std::fmt::Write;

use sharing::State;

use crate::control::Answer;
use crate::control::status::*;
use crate::subject::SharingStatus;

use super::Format;

/// Asks the daemon, and writes all that it says.
pub fn render(answer: &dyn Answer, format: Format) -> Result<String, String> {
    let mut text = Text { text: String::with_capacity(16 * 1024), format };
    text.about(&answer.ask::<Version>()?);
    text.ports(&answer.ask::<Vec<PortStatus>>()?);
    text.interfaces(&answer.ask::<Vec<InterfaceStatus>>()?);
    text.drops(&answer.ask::<Vec<DropCount>>()?);
    text.workers(&answer.ask::<Vec<WorkerStatus>>()?);
    text.graph(&answer.ask::<Vec<GraphNode>>()?);
    text.filter(&answer.ask::<Vec<FilterChain>>()?);
    if let Some(table) = answer.flow_table()? {
        text.flows(&table);
    }
    text.nat(&answer.ask::<Translation>()?);
    text.classifier(&answer.ask::<ClassifierStatus>()?);
    text.mirror(&answer.ask::<MirrorStatus>()?);
    if let Some(log) = answer.ask::<Option<FlowLogStatus>>()? {
        text.flow_log(&log);
    }
    if let Some(sharing) = answer.ask::<Option<SharingStatus>>()? {
        text.sharing(&sharing);
    }
    if let Some(mirror) = answer.ask::<Option<MirrorPortStatus>>()? {
        text.mirror_port(&mirror);
    }
    if format == Format::OpenMetrics {
        text.text += "# EOF\n";
    }
    Ok(text.text)
}

struct Text {
    text: String,
    format: Format,
}

/// A family's name and help, and its figure of one of several things.
type Figure<T> = (&'static str, &'static str, fn(&T) -> u64);

impl Text {
    /// Begins a family. The name of a counter is without its `_total`.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let (suffix, kind) = match (self.format, kind) {
            (Format::Plain, "counter") => ("_total", kind),
            (Format::Plain, "info") => ("_info", "gauge"),
            _ => ("", kind),
        };
        let _ = writeln!(self.text, "# TYPE {name}{suffix} {kind}\n# HELP {name}{suffix} {help}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.text += name;
        for (n, (label, value)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{label}=\"{}\"", if n == 0 { "{" } else { "," }, escaped(value));
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn about(&mut self, version: &Version) {
        self.family("bifrost_build", "info", "The running release.");
        self.sample("bifrost_build_info", &[("version", &version.version)], 1);
        self.family("bifrost_uptime_seconds", "gauge", "Seconds since the daemon was ready.");
        self.sample("bifrost_uptime_seconds", &[], version.uptime_seconds);
    }

    fn filter<'c>(&mut self, chains: &'c [FilterChain]) {
        let rules = || {
            let of = |chain: &'c FilterChain| {
                chain.rules.iter().enumerate().map(move |(at, rule)| (chain, at, rule))
            };
            chains.iter().flat_map(of)
        };
        if rules().next().is_none() {
            return;
        }
        let figures: [Figure<FilterRule>; 2] = [
            ("bifrost_filter_packets", "Packets that a rule of the filter matched.", |rule| rule.packets),
            ("bifrost_filter_bytes", "Bytes of IP packets that a rule of the filter matched.", |rule| {
                rule.bytes
            }),
        ];
        for (name, help, figure) in figures {
            self.family(name, "counter", help);
            for (chain, at, rule) in rules() {
                let (number, label) = (at.to_string(), rule.name.as_deref().unwrap_or(&rule.place));
                let labels = [("chain", chain.chain.as_str()), ("number", &number), ("rule", label)];
                self.sample(&format!("{name}_total"), &labels, figure(rule));
            }
        }
    }

    fn flows(&mut self, table: &FlowTable) {
        self.family("bifrost_flows", "gauge", "Flows in the flow table.");
        self.sample("bifrost_flows", &[], table.size);
        self.family("bifrost_flows_capacity", "gauge", "Flows that the flow table can hold.");
        self.sample("bifrost_flows_capacity", &[], table.capacity);
        let counters = [
            ("bifrost_flow_lookups", "Packets looked up in the flow table.", table.lookups),
            ("bifrost_flow_hits", "Packets whose flow was found.", table.hits),
            ("bifrost_flow_new", "Flows that began.", table.new),
            ("bifrost_flow_invalid", "Packets that claimed to belong to a flow and did not.", table.invalid),
            ("bifrost_flow_overflow", "Flows that found no room.", table.overflow),
        ];
        for (name, help, value) in counters {
            self.family(name, "counter", help);
            self.sample(&format!("{name}_total"), &[], value);
        }
        self.family("bifrost_flow_removed", "counter", "Flows removed, by why.");
        let removed = [
            ("over", table.gc_active),
            ("idle", table.gc_timed),
            ("room", table.gc_passive),
            ("order", table.gc_flushed),
        ];
        for (why, value) in removed {
            self.sample("bifrost_flow_removed_total", &[("why", why)], value);
        }
    }

    fn sharing(&mut self, status: &SharingStatus) {
        let figures = &status.figures;
        self.family("bifrost_sharing_state", "gauge", "How flows are shared: 1 for the state that it is.");
        for state in ["off"].into_iter().chain(State::ALL.map(State::name)) {
            self.sample("bifrost_sharing_state", &[("state", state)], u8::from(state == status.state));
        }
        let lag = "How long the oldest news has waited that the peer does not have.";
        self.family("bifrost_sharing_lag_seconds", "gauge", lag);
        self.sample("bifrost_sharing_lag_seconds", &[], status.lag_ms as f64 / 1e3);
        for (name, help, value) in [
            ("told", "Flows that are carried here and that the peer was told of.", figures.told),
            ("held", "Flows that the peer carries and that are here.", figures.held),
            ("missing", "Flows by which the two differed when compared, at least.", figures.missing),
        ] {
            let name = format!("bifrost_sharing_{name}");
            self.family(&name, "gauge", help);
            self.sample(&name, &[], value);
        }
        for (name, help, value) in [
            ("sessions", "How often one of the two routers has met the other anew.", figures.sessions),
            ("repaired", "Parts of the flows that were told anew, for they differed.", figures.repaired),
            ("refused", "Flows of the peer's that found no place here.", figures.refused),
            ("sent", "Datagrams sent.", figures.sent),
            ("received", "Datagrams received and believed.", figures.received),
            ("resent", "Parcels that were lost on the way and sent again.", figures.resent),
        ] {
            let name = format!("bifrost_sharing_{name}");
            self.family(&name, "counter", help);
            self.sample(&format!("{name}_total"), &[], value);
        }
        self.family("bifrost_sharing_dropped", "counter", "Datagrams dropped, by reason.");
        for (why, number) in &status.dropped {
            self.sample("bifrost_sharing_dropped_total", &[("why", why)], number);
        }
    }

    fn nat(&mut self, translation: &Translation) {
        if translation.rules.is_empty() {
            return;
        }
        self.family("bifrost_nat_mappings", "gauge", "Mappings of address translation.");
        self.sample("bifrost_nat_mappings", &[], translation.mappings);
        self.family("bifrost_nat_repaired", "counter", "Flows that only mappings knew of, given up.");
        self.sample("bifrost_nat_repaired_total", &[], translation.repaired);
        let figures: [Figure<NatRule>; 2] = [
            ("bifrost_nat_flows", "Flows that a rule translated.", |rule| rule.flows),
            ("bifrost_nat_refused", "Flows that a rule could not translate.", |rule| {
                rule.exhausted + rule.limited + rule.refused
            }),
        ];
        for (name, help, figure) in figures {
            self.family(name, "counter", help);
            for rule in &translation.rules {
                self.sample(&format!("{name}_total"), &[("rule", &rule.name)], figure(rule));
            }
        }
    }

    fn ports(&mut self, ports: &[PortStatus]) {
        self.family("bifrost_port_up", "gauge", "1 where the port is up.");
        for port in ports {
            self.sample("bifrost_port_up", &[("port", &port.name)], u8::from(port.state == PortState::Up));
        }
        let packets = |traffic: &Traffic| traffic.packets;
        let bytes = |traffic: &Traffic| traffic.bytes;
        self.traffic("bifrost_port_packets", "Packets by port, lane and direction.", ports, packets);
        self.traffic("bifrost_port_bytes", "Frame bytes by port, lane and direction.", ports, bytes);
        self.family("bifrost_port_drops", "counter", "Packets that arrived at the port and were dropped.");
        for port in ports {
            self.sample("bifrost_port_drops_total", &[("port", &port.name)], port.drops);
        }
        self.family(
            "bifrost_queue_ring_full",
            "counter",
            "Packets lost because a queue's receive ring was full.",
        );
        for (port, queue) in ports.iter().flat_map(|port| port.queues.iter().map(move |queue| (port, queue)))
        {
            let number = queue.queue.to_string();
            let labels = [("port", port.name.as_str()), ("queue", &number)];
            self.sample("bifrost_queue_ring_full_total", &labels, queue.ring_full);
        }
    }

    fn interfaces(&mut self, interfaces: &[InterfaceStatus]) {
        let figures: [Figure<Traffic>; 2] = [
            ("bifrost_interface_packets", "Packets by interface and direction.", |traffic| traffic.packets),
            ("bifrost_interface_bytes", "Frame bytes by interface and direction.", |traffic| traffic.bytes),
        ];
        for (family, help, figure) in figures {
            self.family(family, "counter", help);
            for interface in interfaces.iter().filter(|interface| interface.adopted) {
                for (direction, traffic) in [("received", &interface.received), ("sent", &interface.sent)] {
                    let labels = [("interface", interface.name.as_str()), ("direction", direction)];
                    self.sample(&format!("{family}_total"), &labels, figure(traffic));
                }
            }
        }
    }

    fn traffic(&mut self, family: &str, help: &str, ports: &[PortStatus], figure: fn(&Traffic) -> u64) {
        self.family(family, "counter", help);
        let name = format!("{family}_total");
        for port in ports {
            for (direction, lanes) in [("received", &port.received), ("sent", &port.sent)] {
                let by_lane = [
                    (Lane::Express, lanes.express),
                    (Lane::Worker, lanes.worker),
                    (Lane::Linux, lanes.linux),
                ];
                // Nobody knows what Linux sent: drivers differ in whether they count redirected
                // frames with it.
                let known = |lane: &Lane| direction == "received" || *lane != Lane::Linux;
                for (lane, traffic) in by_lane.into_iter().filter(|(lane, _)| known(lane)) {
                    let labels =
                        [("port", port.name.as_str()), ("lane", lane.name()), ("direction", direction)];
                    self.sample(&name, &labels, figure(&traffic));
                }
            }
        }
    }

    fn drops(&mut self, drops: &[DropCount]) {
        self.family("bifrost_drops", "counter", "Packets dropped, by place and reason.");
        for drop in drops {
            let labels = [
                ("port", drop.port.as_deref().unwrap_or_default()),
                ("lane", drop.lane.name()),
                ("element", drop.element.as_deref().unwrap_or_default()),
                ("reason", &drop.reason),
            ];
            self.sample("bifrost_drops_total", &labels, drop.packets);
        }
    }

    fn workers(&mut self, workers: &[WorkerStatus]) {
        type Figure = fn(&WorkerStatus) -> u64;
        let counters: [(&str, &str, Figure); 5] = [
            ("bifrost_worker_packets", "Packets received by the worker.", |worker| worker.packets),
            ("bifrost_worker_batches", "Batches that were not empty.", |worker| worker.batches),
            ("bifrost_worker_polls", "Rounds over the worker's queues.", |worker| worker.polls),
            ("bifrost_worker_wakeups", "Times it was woken from sleep.", |worker| worker.wakeups),
            ("bifrost_worker_restarts", "Times it was started again.", |worker| worker.restarts),
        ];
        for (family, help, figure) in counters {
            self.family(family, "counter", help);
            for worker in workers {
                let name = format!("{family}_total");
                self.sample(&name, &[("worker", &worker.index.to_string())], figure(worker));
            }
        }
        self.family("bifrost_worker_busy_seconds", "counter", "Time spent on packets.");
        for worker in workers {
            let seconds = worker.busy_ns as f64 / 1e9;
            self.sample(
                "bifrost_worker_busy_seconds_total",
                &[("worker", &worker.index.to_string())],
                seconds,
            );
        }
    }

    fn graph(&mut self, nodes: &[GraphNode]) {
        self.family("bifrost_element_packets", "counter", "Packets that entered the element.");
        for node in nodes {
            let labels = [("element", node.name.as_str()), ("class", &node.class)];
            self.sample("bifrost_element_packets_total", &labels, node.packets);
        }
    }

    fn classifier(&mut self, classifier: &ClassifierStatus) {
        self.family(
            "bifrost_local_addresses",
            "gauge",
            "Addresses of this machine that the classifier knows.",
        );
        self.sample("bifrost_local_addresses", &[], classifier.local_addresses);
        self.family("bifrost_class_packets", "counter", "Packets for Linux by policing class and verdict.");
        for class in &classifier.classes {
            let name = "bifrost_class_packets_total";
            self.sample(name, &[("class", &class.class), ("verdict", "passed")], class.passed);
            self.sample(name, &[("class", &class.class), ("verdict", "dropped")], class.dropped);
        }
    }

    fn mirror(&mut self, mirror: &MirrorStatus) {
        self.family("bifrost_routes", "gauge", "Routes by origin and family.");
        for origin in &mirror.routes {
            for (family, routes) in [("ipv4", origin.ipv4), ("ipv6", origin.ipv6)] {
                self.sample("bifrost_routes", &[("origin", &origin.origin), ("family", family)], routes);
            }
        }
        let gauges = [
            ("bifrost_mirror_synced", "1 while the tables hold all that was read.", u64::from(mirror.synced)),
            ("bifrost_mirror_neighbours", "Neighbours known.", mirror.neighbours),
            (
                "bifrost_mirror_not_programmed",
                "Routes left to Linux for want of room.",
                mirror.not_programmed,
            ),
            (
                "bifrost_mirror_policy_rules",
                "Routing rules of Linux beyond those that it starts with.",
                mirror.rules_ipv4 + mirror.rules_ipv6,
            ),
            (
                "bifrost_mirror_filters",
                "Chains of Linux that Bifrost does not have.",
                mirror.filters.len() as u64,
            ),
            (
                "bifrost_mirror_filter_refused",
                "1 while Linux lacks the router's own filter and translation.",
                u64::from(mirror.filter_refused.is_some()),
            ),
        ];
        for (name, help, value) in gauges {
            self.family(name, "gauge", help);
            self.sample(name, &[], value);
        }
        let counters = [
            ("bifrost_mirror_messages", "Netlink and FPM messages read.", mirror.messages),
            ("bifrost_mirror_overruns", "Overflows of a netlink socket.", mirror.overruns),
            (
                "bifrost_mirror_filter_restored",
                "Times that Linux's copy of the filter and translation was changed by others and put back.",
                mirror.filter_restored,
            ),
            ("bifrost_audit_passes", "Whole comparisons with Linux.", mirror.audit.passes),
            ("bifrost_audit_differences", "Differences from Linux found.", mirror.audit.differences),
            ("bifrost_audit_repaired", "Differences from Linux repaired.", mirror.audit.repaired),
        ];
        for (family, help, value) in counters {
            self.family(family, "counter", help);
            self.sample(&format!("{family}_total"), &[], value);
        }
        if let Some(fpm) = &mirror.fpm {
            self.family("bifrost_fpm_connected", "gauge", "1 while a zebra is connected.");
            self.sample("bifrost_fpm_connected", &[], u8::from(fpm.connected));
        }
    }

    fn mirror_port(&mut self, mirror: &MirrorPortStatus) {
        self.family("bifrost_mirror_port_sent", "counter", "Copies sent by the mirror port.");
        self.sample("bifrost_mirror_port_sent_total", &[], mirror.sent);
        self.family("bifrost_mirror_port_sent_bytes", "counter", "Their bytes.");
        self.sample("bifrost_mirror_port_sent_bytes_total", &[], mirror.bytes);
        self.family("bifrost_mirror_port_lost", "counter", "Copies that the mirror port lost, by reason.");
        for (reason, lost) in [
            ("missed", mirror.missed),
            ("down", mirror.down),
            ("slow", mirror.slow),
            ("too_long", mirror.too_long),
        ] {
            self.sample("bifrost_mirror_port_lost_total", &[("reason", reason)], lost);
        }
    }

    fn flow_log(&mut self, log: &FlowLogStatus) {
        let flows = "bifrost_flow_log_flows";
        self.family(flows, "counter", "Flows that ended, and slices of long ones, by what became of them.");
        let fates =
            [("taken", log.taken), ("unsampled", log.unsampled), ("lost", log.lost), ("missed", log.missed)];
        for (fate, count) in fates {
            self.sample("bifrost_flow_log_flows_total", &[("fate", fate)], count);
        }
        type Figure = fn(&FlowLogOutput) -> u64;
        let counters: [(&str, &str, Figure); 3] = [
            ("bifrost_flow_log_records", "Records that left by the output.", |output| output.records),
            ("bifrost_flow_log_bytes", "Bytes that they left in.", |output| output.bytes),
            ("bifrost_flow_log_faults", "Times that something went wrong there.", |output| output.faults),
        ];
        for (family, help, figure) in counters {
            self.family(family, "counter", help);
            for output in &log.outputs {
                self.sample(&format!("{family}_total"), &[("output", &output.name)], figure(output));
            }
        }
        self.family("bifrost_flow_log_lost", "counter", "Records that the output lost, by reason.");
        for output in &log.outputs {
            for (reason, lost) in &output.lost {
                let labels = [("output", output.name.as_str()), ("reason", reason)];
                self.sample("bifrost_flow_log_lost_total", &labels, lost);
            }
        }
    }
}

/// A label's value: backslash, quote and newline are escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
