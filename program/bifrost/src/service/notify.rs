//! Telling systemd how things are (sd_notify). Without systemd every call does nothing.

use std::cell::Cell;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The service manager, if there is one.
#[derive(Debug)]
pub struct Notify {
    watchdog: Option<Duration>,
    silent: bool,
    /// When it was last told that the start goes on.
    starting: Cell<Option<Instant>>,
}

/// How long the service manager is to wait on, and how often it is told.
const EXTEND: Duration = Duration::from_secs(30);
const TELL: Duration = Duration::from_secs(1);

impl Notify {
    /// Looks in the environment for a service manager.
    pub fn from_environment() -> Notify {
        Notify { watchdog: sd_notify::watchdog_enabled(), silent: false, starting: Cell::default() }
    }

    /// Tells nobody, for another process is still the one that is looked at.
    pub fn silent() -> Notify {
        Notify { watchdog: None, silent: true, starting: Cell::default() }
    }

    /// Another process is the one that is looked at from now on.
    pub fn successor(&self, process: u32) {
        self.say(&[NotifyState::MainPid(process)]);
    }

    /// The start goes on: it may take longer than the service manager would wait. To be called
    /// often.
    pub fn starting(&self, status: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.starting.get().is_some_and(|told| now.duration_since(told) < TELL) {
            return;
        }
        self.starting.set(Some(now));
        let extend = NotifyState::ExtendTimeoutUsec(EXTEND.as_micros() as u32);
        self.say(&[extend, NotifyState::Status(&status())]);
    }

    /// Forwarding has begun.
    pub fn ready(&self, status: &str) {
        self.say(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// One line for `systemctl status`.
    pub fn status(&self, status: &str) {
        self.say(&[NotifyState::Status(status)]);
    }

    /// Forwarding is being given back to Linux.
    pub fn stopping(&self) {
        self.say(&[NotifyState::Stopping, NotifyState::Status("giving the ports back to Linux")]);
    }

    /// How often [`alive`](Self::alive) must be called: a third of the time after which systemd
    /// would restart the daemon. `None` when nobody watches.
    pub fn heartbeat(&self) -> Option<Duration> {
        self.watchdog.map(|timeout| timeout / 3)
    }

    /// The control loop has come around.
    pub fn alive(&self) {
        if self.watchdog.is_some() {
            self.say(&[NotifyState::Watchdog]);
        }
    }

    fn say(&self, state: &[NotifyState<'_>]) {
        if self.silent {
            return;
        }
        if let Err(error) = sd_notify::notify(state) {
            tracing::debug!("cannot notify the service manager: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::process::Command;

    use super::*;

    /// Runs itself with a service manager's environment, since environments are a process's own.
    #[test]
    fn systemd_is_told_ready_alive_and_stopping() {
        if std::env::var_os("NOTIFY_SOCKET").is_some() {
            let notify = Notify::from_environment();
            assert_eq!(notify.heartbeat(), Some(Duration::from_secs(10)));
            notify.starting(|| "taking ports: 1 of 2".to_owned());
            notify.starting(|| panic!("not told twice within a second"));
            notify.ready("2 ports");
            notify.alive();
            notify.stopping();
            return;
        }
        let path = std::env::temp_dir().join(format!("bifrost-notify-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "service::notify::tests::systemd_is_told_ready_alive_and_stopping"])
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "30000000")
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        let mut said = Vec::new();
        for _ in 0..4 {
            let mut bytes = [0; 512];
            let length = socket.recv(&mut bytes).unwrap();
            said.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(said[0], "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=taking ports: 1 of 2\n");
        assert_eq!(said[1], "READY=1\nSTATUS=2 ports\n");
        assert_eq!(said[2], "WATCHDOG=1\n");
        assert!(said[3].starts_with("STOPPING=1\n"));
    }
}
