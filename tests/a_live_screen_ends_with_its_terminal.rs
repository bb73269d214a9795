//! A live screen ends within a second or two when its terminal goes away, and when it is told to.
//! (`script` is the terminal: what it runs has a terminal of its own, that is gone when `script`
//! is.)

use std::path::PathBuf;
use std::time::Duration;

use lab::{Process, wait_for};

use crate::network::Line;

const CONFIG: &str = "[[port]]\nname = \"left\"\n[[port]]\nname = \"right\"\n";

/// `bifrost top` on a terminal of 80 columns.
struct Screen {
    terminal: Process,
    /// What was written on the terminal.
    written: PathBuf,
    top: u32,
}

impl Screen {
    /// Starts it, with words of the shell in front, and waits for its first picture.
    fn show(net: &Line, name: &str, before: &str) -> Screen {
        let host = net.router.host();
        let (written, pid) = (host.folder().join(name), host.folder().join(format!("{name}.pid")));
        let top = net.router.client("top");
        let shown = format!("{before} stty cols 80 rows 24; echo $$ > {}; exec {top}", pid.display());
        let mut command = host.command("sh");
        // A keyboard that nobody touches: `script` stops copying when it has no input.
        command.arg("-c").arg("mkfifo \"$2.keys\" && exec script -qfc \"$1\" \"$2\" <> \"$2.keys\"");
        command.args(["sh", &shown]).arg(&written);
        let terminal = host.spawn(name, command).unwrap();
        let text = || std::fs::read_to_string(&written).unwrap_or_default();
        wait_for("the picture", Duration::from_secs(10), || match text().contains("Workers") {
            true => Ok(()),
            false => Err(text()),
        })
        .unwrap();
        let top = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        Screen { terminal, written, top }
    }

    fn ends(&self, why: &str) {
        wait_for(&format!("the end of the screen: {why}"), Duration::from_secs(3), || {
            // The one who would have taken notice of its end may be gone as well.
            let state = std::fs::read_to_string(format!("/proc/{}/stat", self.top)).unwrap_or_default();
            match state.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z')) {
                true => Ok(()),
                false => Err(state),
            }
        })
        .unwrap();
    }
}

#[test]
fn and_when_it_is_told_to() {
    let net = Line::made("screen", CONFIG, 1500, 1).started();
    if !net.router.is_bifrost() {
        return;
    }
    let mut screen = Screen::show(&net, "hangup", "");
    screen.terminal.kill();
    screen.ends("its terminal is gone");
    // As under nohup.
    let mut screen = Screen::show(&net, "nohup", "trap '' HUP;");
    screen.terminal.kill();
    screen.ends("its terminal is gone, and hanging up is ignored");

    let screen = Screen::show(&net, "told", "");
    net.router.host().run(&format!("kill -TERM {}", screen.top)).unwrap();
    screen.ends("SIGTERM");
    // `script` writes down what came last when the screen has ended.
    wait_for("the terminal to be given back", Duration::from_secs(3), || {
        let written = std::fs::read_to_string(&screen.written).unwrap();
        if written.contains("\u{1b}[?1049l") { Ok(()) } else { Err(written) }
    })
    .unwrap();
}
