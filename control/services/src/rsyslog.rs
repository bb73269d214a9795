//! What rsyslog is told.

use config::Syslog;

/// Lines that wait for a server that does not take them.
const QUEUE: u32 = 10_000;

/// Its file, which is one among others of a folder.
pub(crate) fn render(syslog: &Syslog) -> String {
    let Syslog { port, protocol, level, .. } = syslog;
    // A queue for each server: one that is away holds up nobody.
    let to = |server: &String| {
        format!(
            "*.{level} action(type=\"omfwd\" target=\"{server}\" port=\"{port}\" protocol=\"{protocol}\"\n    \
             action.resumeRetryCount=\"-1\" queue.type=\"LinkedList\" queue.size=\"{QUEUE}\")\n"
        )
    };
    syslog.servers.iter().map(to).collect()
}
