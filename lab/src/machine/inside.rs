//! A test that runs in a virtual machine.
//!
//! The guest has this machine's files, the test program among them. So the test is begun here, and
//! the same test of the same program is begun once more in the guest, where it is carried out:
//! there a [`Lab`](crate::Lab) and everything else of this crate work as they do here.

use std::{env, fs, io, path::PathBuf, process::Command, time::Duration};

use super::Machine;
use crate::{End, Lab, LabError, Result};

/// Says, in a guest, which kernel it has.
const INSIDE: &str = "BIFROST_MACHINE";
/// For one test; emulated, loading Bifrost's programs into the kernel takes 5 to 20 seconds each
/// time.
const TEST: Duration = Duration::from_secs(900);

/// Runs a test's body in a shared machine with this kernel: `inside!("6.12", || { ... })`, in the
/// test's own function.
#[macro_export]
macro_rules! inside {
    ($kernel:expr, $body:expr) => {{
        fn here() {}
        $crate::inside($kernel, std::any::type_name_of_val(&here), $body)
    }};
}

/// What [`inside!`](crate::inside!) stands for. `place` is the path of something within the test:
/// `program::module::test::here`.
///
/// # Panics
/// When the test fails in the guest, with all that it said there; or when there is no such machine.
pub fn inside(kernel: &str, place: &str, body: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return body();
    }
    let (_program, test) = place.split_once("::").expect("a path begins with its program");
    let test = test.trim_end_matches("::here");
    let program = env::current_exe().expect("this program has a path");
    let script = format!(
        "{INSIDE}={kernel} '{}' --exact '{test}' --include-ignored --nocapture --test-threads=1 2>&1",
        program.display()
    );
    let said = Machine::on(kernel, |machine| machine.run(&script, TEST));
    let said = said.unwrap_or_else(|error| panic!("{error}"));
    assert!(said.contains("1 passed"), "there is no test '{test}' in the machine: {said}");
}

impl Lab {
    /// Joins two hosts by two network cards of the guest in which this test runs, which share a
    /// cable ([`Machine::boot`]): the first two that no host has.
    ///
    /// # Errors
    /// Those of the commands. Where this is no guest, its cards are not touched.
    pub fn link_by_cards(&self, a: End, b: End) -> Result<()> {
        let cards = cards().map_err(LabError::io("the machine's network cards"))?;
        for (card, End { host, interface, .. }) in cards.iter().zip([&a, &b]) {
            let words = ["link", "set", card, "netns", host.namespace(), "name", interface];
            let output = Command::new("ip").args(words).output().map_err(LabError::io("ip"))?;
            if !output.status.success() {
                return Err(LabError::io(card)(io::Error::other(String::from_utf8_lossy(&output.stderr))));
            }
        }
        a.configure()?;
        b.configure()
    }
}

/// The guest's cards that no host has, in the order of their slots. The kernel gives them back,
/// when a lab's hosts go, with the names that they had there.
fn cards() -> io::Result<Vec<String>> {
    if env::var_os(INSIDE).is_none() {
        return Err(io::Error::other("this is no virtual machine of a test"));
    }
    let mut cards: Vec<(PathBuf, String)> = Vec::new();
    for interface in fs::read_dir("/sys/class/net")? {
        let interface = interface?;
        if let Ok(device) = fs::canonicalize(interface.path().join("device")) {
            cards.push((device, interface.file_name().to_string_lossy().into_owned()));
        }
    }
    cards.sort();
    Ok(cards.into_iter().map(|(_, name)| name).collect())
}
