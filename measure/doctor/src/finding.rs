//! What is said of one thing.

use serde::Serialize;

/// How it stands with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Could be better.
    Advice,
    /// Costs packets, or correctness.
    Problem,
    /// Could not be read.
    Unknown,
}

impl Level {
    /// As text.
    pub fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Advice => "advice",
            Level::Problem => "problem",
            Level::Unknown => "unknown",
        }
    }
}

/// What it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Area {
    /// Cores, their speed and their sleep.
    Cpu,
    /// Memory, pages, nodes.
    Memory,
    /// What the kernel can do, and its clock.
    Kernel,
    /// Settings of forwarding.
    Forwarding,
    /// An interface.
    Port,
}

impl Area {
    /// As text.
    pub fn name(self) -> &'static str {
        match self {
            Area::Cpu => "cpu",
            Area::Memory => "memory",
            Area::Kernel => "kernel",
            Area::Forwarding => "forwarding",
            Area::Port => "port",
        }
    }
}

/// What is said of one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub area: Area,
    /// The interface, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// The thing: `frequency`, `queues`.
    pub subject: &'static str,
    /// How it stands.
    pub level: Level,
    /// What was seen, and what it means.
    pub text: String,
    /// The command that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

impl Finding {
    /// One about the whole machine, without a command that mends it.
    pub fn new(area: Area, subject: &'static str, level: Level, text: impl Into<String>) -> Finding {
        Finding { area, port: None, subject, level, text: text.into(), mend: None }
    }

    /// With the command that mends it.
    pub(crate) fn mend(self, command: impl Into<String>) -> Finding {
        Finding { mend: Some(command.into()), ..self }
    }

    /// Of an interface.
    pub(crate) fn on(self, port: &str) -> Finding {
        Finding { port: Some(port.to_owned()), ..self }
    }
}
