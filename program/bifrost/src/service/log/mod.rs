//! The log, on standard error.
//!
//! Under systemd every line begins with its priority (`<4>`, sd-daemon(3)) and has neither time nor
//! colour, since the journal keeps both. Elsewhere it is for a person: time, level, message. What
//! is said too often is left out and counted ([`limit`]).

mod limit;

use std::fmt;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::sync::LazyLock;
use std::time::Instant;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use limit::{Limit, Limited};

/// What the program has said.
static LIMIT: LazyLock<Limit> = LazyLock::new(Limit::default);

/// Begins to log what is of this level or more important.
pub fn init(level: Level) {
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = if stderr_is_the_journal() {
        log.event_format(Journal).boxed()
    } else {
        log.with_target(false).with_ansi(std::io::stderr().is_terminal()).boxed()
    };
    let wanted = LevelFilter::from_level(level);
    // Fails only when a log is there already, which then stays.
    let _ = tracing_subscriber::registry().with(log).with(Limited(&LIMIT)).with(wanted).try_init();
}

/// Says how much was left out, if there was anything and it is time. To be called now and then.
pub fn tell_hidden() {
    for (count, first) in LIMIT.hidden(Instant::now()) {
        tracing::warn!("{count} more like this were not shown: {first}");
    }
}

/// systemd names the device and inode of the stream that it gave to the service.
fn stderr_is_the_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(metadata) = std::fs::metadata("/proc/self/fd/2") else { return false };
    stream == format!("{}:{}", metadata.dev(), metadata.ino())
}

/// `<4>eth0: no zero-copy`: the syslog priority, then the message and its fields.
struct Journal;

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut message = String::new();
        context.format_fields(Writer::new(&mut message), event)?;
        let priority = priority(*event.metadata().level());
        // The journal takes each line for an entry of its own: every one needs its priority.
        for line in message.lines() {
            writeln!(writer, "<{priority}>{line}")?;
        }
        Ok(())
    }
}

/// The priorities of syslog(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    pub(super) struct Sink(pub(super) Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_journal_gets_a_priority_and_nothing_it_knows_already() {
        let sink = Sink::default();
        let writer = sink.clone();
        let log =
            tracing_subscriber::fmt().event_format(Journal).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(log, || {
            tracing::warn!(port = "eth0", "no zero-copy");
            tracing::error!("two\nlines");
            tracing::debug!("not shown");
        });
        let said = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert_eq!(said, "<4>no zero-copy port=\"eth0\"\n<3>two\n<3>lines\n");
    }
}
