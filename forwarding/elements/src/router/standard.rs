//! The standard router: the graph that every worker runs an instance of, as a text in Click's
//! language.
//!
//! What no element can complete leads to `linux`; what deserves an answer leads to `icmp4` or
//! `icmp6`, whose replies find their own way and leave through the same `rewrite` as everything
//! else. An output leads there that has the name of an error ([`IcmpError`]): that it does is not
//! written, but follows.
//!
//! Where nothing stands between them but connections, plain packets do not go from element to
//! element: `fast` does all of it at once, and the elements see the rest.
//!
//! At four named places, the hooks, stands what the operator put there in `router.toml`; without
//! that a hook is a connection and costs nothing. `prerouting` sees what may be forwarded before
//! the lookup, `forward` what will be, with the out port known, before its TTL is decremented; both
//! once for each family. `postrouting` sees frames as they leave, `punt` what workers hand to
//! Linux.

use std::fmt::Write;

use graph::language::Texts;
use graph::{Environment, Graph, Manner, NodeId, Program, Refusal, Registry};
use wire::IcmpError;

use super::{RouterContext, Sources, decrement_ttl, filter, lookup, mtu, translate64};

/// The names of the elements at which received frames enter: the first of them that there is.
const ENTRIES: [&str; 3] = ["sample", "fast", "classify"];

/// What stands at each hook: the body of a compound element, with `input` and `output`. Empty:
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Before the lookup.
    pub prerouting: String,
    /// Between the lookup and the decrement of the TTL.
    pub forward: String,
    /// Behind the new Ethernet header.
    pub postrouting: String,
    /// On the way to Linux.
    pub punt: String,
}

impl Hooks {
    /// Whether anything stands in the way of transit.
    pub fn see_transit(&self) -> bool {
        [&self.prerouting, &self.forward, &self.postrouting].iter().any(|body| !body.trim().is_empty())
    }

    /// Each hook's name and what stands there.
    pub fn all(&self) -> [(&'static str, &str); 4] {
        let Hooks { prerouting, forward, postrouting, punt } = self;
        [("prerouting", prerouting), ("forward", forward), ("postrouting", postrouting), ("punt", punt)]
    }
}

/// Which stages the router has besides those of every router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Plain packets are forwarded at once, if nothing else than the verdicts on known flows stands
    /// in their way.
    pub fast: bool,
    /// Flows are known.
    pub flows: bool,
    /// Rules for what comes in.
    pub input: bool,
    /// Rules for transit, or flows to be tracked.
    pub transit: bool,
    /// Flows whose addresses are translated.
    pub translation: bool,
    /// Some of them into the other family.
    pub families: bool,
    /// Announcements of FTP's control connections.
    pub ftp: bool,
    /// Limits for the segments of TCP.
    pub clamp: bool,
    /// Packets chosen for sFlow.
    pub sampling: bool,
}

impl Stages {
    /// Whether anything stands in the way of transit.
    pub fn see_transit(&self) -> bool {
        self.judge() || self.sampling
    }

    /// The element that takes plain packets the short way, if there is one.
    fn short(&self, hooks: &Hooks) -> Option<&'static str> {
        let hooked = [&hooks.prerouting, &hooks.forward].iter().any(|body| !body.trim().is_empty());
        match self {
            Stages { fast: false, .. } => None,
            _ if hooked => None,
            // Translation and all that belongs to it is by flows.
            Stages { flows: true, .. } => Some("FlowPath"),
            _ if self.judge() => Some("RulesPath"),
            _ => Some("FastPath"),
        }
    }

    /// Whether packets are judged, or their flows known.
    fn judge(&self) -> bool {
        self.input || self.transit
    }
}

/// The router as it is drawn on a page, behind the hooks. What stands between `{}` is there when
/// its stage is.
const ROUTER: &str = "\
classify :: Classify;
multicast :: Multicast;
check4 :: CheckIpHeader4;
lookup4 :: Lookup4{translated};
reverse4 :: ReversePath4;
redirect4 :: Redirect4;
mtu4 :: Mtu4;
fragment4 :: Fragment4;
ttl4 :: DecrementTtl4;
icmp4 :: IcmpError4;
check6 :: CheckIpHeader6;
lookup6 :: Lookup6{translated};
reverse6 :: ReversePath6;
redirect6 :: Redirect6;
mtu6 :: Mtu6;
ttl6 :: DecrementTtl6;
icmp6 :: IcmpError6;
rewrite :: Rewrite;
transmit :: Transmit;
local :: Punt(LOCAL);
foreign :: Punt(FOREIGN);
answered :: Punt(UNRESOLVED);
linux :: Punt(TRANSIT);

to_local :: punt -> local;
to_foreign :: punt -> foreign;
to_answered :: punt -> answered;
to_linux :: punt -> linux;

// by family; to groups, which have copies; what is not to be routed, to Linux
classify[0] -> check4;
classify[1] -> check6;
classify[2] -> multicast;
multicast[1] -> to_foreign;

// IPv4
check4[0] -> prerouting4 :: prerouting -> {before4}lookup4;
check4[1] -> {optioned4};
check4[2] -> to_local;
lookup4[0] -> reverse4 -> redirect4 -> {transit4}forward4 :: forward -> {options4}{cross4}mtu4 -> ttl4 -> {leave4}rewrite;
lookup4[1] -> opened :: OpenTunnels;
opened[0] -> {entry};
opened[1] -> to_local;
lookup4[2] -> {linux4}to_linux;
redirect4[1] -> to_answered;
{fragment}
icmp4[0] -> rewrite;
icmp4[1] -> to_answered;

// IPv6
check6[0] -> prerouting6 :: prerouting -> {before6}lookup6;
check6[1] -> {optioned6};
check6[2] -> to_local;
lookup6[0] -> reverse6 -> redirect6 -> {transit6}forward6 :: forward -> {options6}{cross6}mtu6 -> ttl6 -> {leave6}rewrite;
lookup6[1] -> opened;
lookup6[2] -> {linux6}to_linux;
redirect6[1] -> to_answered;
icmp6[0] -> rewrite;
icmp6[1] -> to_answered;

{refused}// out
rewrite -> out :: postrouting -> {sampled}transmit;
multicast[0] -> out;

// who refuses a packet has its sender told
{told}";

/// What the stages put into the router.
fn staged(stages: &Stages) -> String {
    let mut router = ROUTER.to_owned();
    let families = ['4', '6'].map(|family| FamilyStages { stages, family });
    for family in &families {
        for (place, text) in family.pieces() {
            router = router.replace(&format!("{{{place}{}}}", family.family), &text);
        }
    }
    // Of a packet in fragments only the first shows what the others need.
    let fragment = match stages.translation {
        true => "mtu4[1] -> long4 :: DecrementTtl4 -> larger4 :: Translate -> fragment4 -> rewrite;",
        false => "mtu4[1] -> fragment4 -> ttl4;",
    };
    router = router.replace("{fragment}", fragment);
    router = router.replace("{translated}", if stages.translation { "(TRANSLATED true)" } else { "" });
    let sampled = if stages.sampling { "sampled :: Sampled -> " } else { "" };
    router = router.replace("{sampled}", sampled);
    if stages.sampling {
        router = router.replace("classify :: Classify;", "sample :: Sample;\nclassify :: Classify;");
    }
    let refused = refused(stages, &families);
    router = router.replace("{refused}", &if refused.is_empty() { refused } else { refused + "\n" });
    let told = told(&router);
    router.replace("{told}", &told)
}

/// What stands behind the drawing: where packets go that the stages do not let on.
fn refused(stages: &Stages, families: &[FamilyStages<'_>]) -> String {
    let mut refused = String::new();
    if stages.flows {
        refused += "// options, for Linux\n";
        refused.extend(families.iter().map(FamilyStages::optioned));
    }
    let sending: String = families.iter().map(FamilyStages::sending).collect();
    if !sending.is_empty() {
        refused +=
            "// what Linux is to send translated, and what goes between the families\nsend :: Punt(SEND);\n";
        refused += &sending;
    }
    let filters: Vec<String> = families.iter().flat_map(FamilyStages::filters).collect();
    if !filters.is_empty() {
        refused += "// refused\nreset :: TcpReset;\nreset[0] -> rewrite;\nreset[1] -> to_answered;\n";
    }
    for filter in filters {
        let _ = writeln!(refused, "{filter}[1] -> reset;");
    }
    refused
}

/// The stages of one family.
struct FamilyStages<'a> {
    stages: &'a Stages,
    /// Its digit, the last letter of its elements' names.
    family: char,
}

impl FamilyStages<'_> {
    /// One element, if it is wanted.
    fn stage(&self, wanted: bool, name: &str, class: &str) -> String {
        if wanted { format!("{name}{} :: {class} -> ", self.family) } else { String::new() }
    }

    /// What is read and changed in packets as they came: in the other family they are others than
    /// those noted. `way` and `family` tell two such places apart.
    fn crossing(&self, way: &str, family: &str) -> String {
        let stages = self.stages;
        self.stage(stages.clamp, &format!("{way}clamp"), "ClampMss")
            + &self.stage(stages.ftp, &format!("{way}ftp"), "Ftp")
            + &self.stage(stages.families, family, "Translate64")
    }

    /// What stands between what is drawn, by its place.
    fn pieces(&self) -> [(&'static str, String); 7] {
        let (stages, family) = (self.stages, self.family);
        let before = self.stage(stages.judge(), "track", "Track")
            + &self.stage(stages.input, "input", "Filter(INPUT)");
        // What has options is Linux's, once it has been looked at like all others.
        let optioned = if stages.flows { format!("prerouting{family}") } else { "to_linux".to_owned() };
        // What only Linux can complete is judged as well, and its flow begins: Linux sees none of
        // its later packets. It is handed over as it came, but for what is translated: that Linux
        // is to send as it leaves, for only here it is known how.
        let linux = self.stage(stages.transit, "unresolved", "Filter(TRANSIT)")
            + &self.stage(stages.flows, "looked", "OptionsSwitch")
            + &self.crossing("sent_", "sent")
            + &self.stage(stages.translation, "plain", "TranslatedSwitch");
        [
            ("before", before),
            ("transit", self.stage(stages.transit, "filter", "Filter(TRANSIT)")),
            ("optioned", optioned),
            ("options", self.stage(stages.flows, "options", "OptionsSwitch")),
            ("linux", linux),
            ("cross", self.crossing("", "family")),
            ("leave", self.stage(stages.translation, "translate", "Translate")),
        ]
    }

    /// The names of its filters.
    fn filters(&self) -> impl Iterator<Item = String> {
        let Stages { input, transit, .. } = *self.stages;
        let filters = [(input, "input"), (transit, "filter"), (transit, "unresolved")];
        let wanted = filters.into_iter().filter(|(wanted, _)| *wanted);
        wanted.map(|(_, name)| format!("{name}{}", self.family))
    }

    /// Where packets with options go.
    fn optioned(&self) -> String {
        let family = self.family;
        let to = match self.stages {
            Stages { clamp: true, .. } => format!("sent_clamp{family}"),
            Stages { ftp: true, .. } => format!("sent_ftp{family}"),
            Stages { families: true, .. } => format!("sent{family}"),
            Stages { translation: true, .. } => format!("plain{family}"),
            _ => "to_linux".to_owned(),
        };
        format!("options{family}[1] -> {to};\nlooked{family}[1] -> {to};\n")
    }

    /// The way of what Linux is to send.
    fn sending(&self) -> String {
        let (family, mut sending) = (self.family, String::new());
        if self.stages.translation {
            let last = self.stage(true, "sent_translate", "Translate");
            let _ = writeln!(
                sending,
                "plain{family}[1] -> sent_mtu{family} :: Mtu{family} -> sent_ttl{family} :: DecrementTtl{family} -> {last}send;"
            );
            if family == '4' {
                sending += "sent_mtu4[1] -> sent_long4 :: DecrementTtl4 -> sent_larger4 :: Translate -> sent_fragment4 :: Fragment4 -> send;\n";
            }
        }
        if self.stages.families {
            let _ = writeln!(sending, "family{family}[1] -> rewrite;\nsent{family}[1] -> send;");
        }
        sending
    }
}

/// The names of the outputs of the elements that refuse packets. Those of some other class tell
/// nobody.
fn outputs(class: &str) -> &'static [&'static str] {
    match class {
        "Lookup4" | "Lookup6" => &lookup::OUTPUTS,
        "Mtu4" => &mtu::OUTPUTS4,
        "Mtu6" => &mtu::OUTPUTS6,
        "DecrementTtl4" | "DecrementTtl6" => &decrement_ttl::OUTPUTS,
        "Translate64" => &translate64::OUTPUTS,
        "Filter" => &filter::OUTPUTS,
        _ => &[],
    }
}

/// Connects every output that has the name of an ICMP error with the error's input. The family is
/// the last letter of an element's name.
fn told(router: &str) -> String {
    let mut text = String::new();
    let words: Vec<&str> = router.split_whitespace().collect();
    for declaration in words.windows(3) {
        let [name, "::", class] = declaration else { continue };
        let class = class.split(['(', ';']).next().unwrap_or_default();
        let family = &name[name.len().saturating_sub(1)..];
        for (output, error) in outputs(class).iter().enumerate() {
            if let Some(error) = IcmpError::named(error) {
                let _ = writeln!(text, "{name}[{output}] -> [{}]icmp{family};", error as usize);
            }
        }
    }
    text
}

/// The text of the router with these hooks and stages.
pub fn text(hooks: &Hooks, stages: &Stages) -> String {
    let mut text = String::new();
    for (name, body) in hooks.all() {
        // A String takes whatever is written to it.
        let _ = match body.trim() {
            "" => writeln!(text, "elementclass {name} {{ input -> output }}"),
            // Mistakes in what the operator wrote are told with the line there.
            body => {
                writeln!(text, "elementclass {name} {{\n# 1 \"[graph] {name}\"\n{body}\n# 1 \"router\"\n}}")
            }
        };
    }
    text += "\n";
    let short = stages.short(hooks);
    match short {
        Some(class) => {
            let first = format!("fast :: {class};\nclassify :: Classify;");
            let router = staged(stages).replace("{entry}", "fast");
            text += &router.replace("classify :: Classify;", &first);
            text += "\n// plain packets\nfast[0] -> classify;\nfast[1] -> out;\n";
            if class == "FastPath" {
                text += "fast[2] -> fast;\n";
            }
        }
        None => text += &staged(stages).replace("{entry}", "classify"),
    }
    if stages.sampling {
        text += if short.is_some() { "sample -> fast;\n" } else { "sample -> classify;\n" };
    }
    text
}

/// The router with these hooks, checked. `registry` has the classes that hooks can name.
pub fn program(
    hooks: &Hooks,
    stages: &Stages,
    registry: &Registry,
    environment: &Environment,
) -> Result<Program, Refusal> {
    let mut texts = Texts::new();
    let text = texts.add("router", &text(hooks, stages));
    Program::compile(texts, text, &[], registry, environment)
}

/// What the elements of the router share.
pub fn environment(router_context: RouterContext) -> Environment {
    let mut environment = Environment::new();
    environment.share(router_context);
    environment
}

/// Whether a router with these hooks could run: what is odd about them, ready to be shown, or what
/// is wrong.
pub fn check(hooks: &Hooks, registry: &Registry) -> Result<String, Refusal> {
    let tables = fib::Tables::new(fib::Capacity { ipv4: 1, ipv6: 1, next_hops: 1 }, None);
    let tables = tables.map_err(|error| Refusal::new(&error.to_string()))?;
    let router_context = RouterContext::new(tables.view(), Sources::new(), 1);
    Ok(program(hooks, &Stages::default(), registry, &environment(router_context))?.warnings())
}

/// An instance of the router.
pub struct Standard {
    /// The graph, not started.
    pub graph: Graph,
    /// Where received frames enter it.
    pub entry: NodeId,
}

impl Standard {
    /// A graph that the router's program made.
    pub fn of(graph: Graph) -> Standard {
        // The text has it.
        let description = graph.description();
        let entry = ENTRIES.iter().find_map(|name| description.find(name)).map_or(NodeId(0), |node| node.id);
        Standard { graph, entry }
    }
}

/// Makes an instance of the router.
pub fn instance(program: &Program, environment: &Environment) -> Result<Standard, Refusal> {
    Ok(Standard::of(program.instantiate(environment, Manner::default())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    fn router_context() -> Environment {
        let tables = fib::Tables::new(fib::Capacity { ipv4: 100, ipv6: 100, next_hops: 100 }, None).unwrap();
        environment(RouterContext::new(tables.view(), Sources::new(), 1))
    }

    #[test]
    fn hooks_without_elements_leave_no_trace() {
        let environment = router_context();
        let program = program(&Hooks::default(), &Stages::default(), &registry(), &environment).unwrap();
        let Standard { graph, entry } = instance(&program, &environment).unwrap();
        let description = graph.description();
        assert_eq!(description.nodes[entry.0].name, "classify");
        assert_eq!(description.nodes.len(), 24);
        assert!(description.nodes.iter().all(|node| !node.name.contains('/')));
    }

    #[test]
    fn what_stands_at_a_hook_is_in_the_graph_for_each_family() {
        let (environment, hooks) = (router_context(), "input -> c :: Punt(LOCAL); Idle -> output");
        let hooks = Hooks { forward: hooks.to_owned(), ..Hooks::default() };
        let program = program(&hooks, &Stages::default(), &registry(), &environment).unwrap();
        let description = instance(&program, &environment).unwrap().graph.description();
        assert!(description.find("forward4/c").is_some() && description.find("forward6/c").is_some());
    }

    #[test]
    fn a_mistake_at_a_hook_is_told_with_its_place_there() {
        let hooks = Hooks { postrouting: "input\n  -> Conter -> output".to_owned(), ..Hooks::default() };
        let refusal =
            program(&hooks, &Stages::default(), &registry(), &router_context()).err().unwrap().to_string();
        assert!(refusal.contains("[graph] postrouting:2:6") && refusal.contains("Counter"), "{refusal}");
    }
}
