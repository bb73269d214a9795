//! How long the control thread is away from its work while it takes ports.
//!
//! A daemon runs in a namespace of its own, and a client asks it a small question again and again,
//! which only the control thread can answer. The longest answer is a pause: so long did routes,
//! neighbours and operators wait. It is taken while nothing happens (what the machine itself does
//! to such a figure), and while 128 interfaces come at once. Then it is stopped, and started again,
//! with 256 ports. Interfaces are made in steps of eight, for making them holds the kernel's
//! network lock, which is not what is measured.

use crate::ruler::Ruler;
use lab::{Host, Lab, Router, wait_for};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PAUSE: &str = "mirror/pause";
const IDLE: &str = "mirror/pause/idle";
const START: &str = "mirror/ports-256";
const STOP: &str = "mirror/stop-256";

const SAMPLES: usize = 5;
const PAIRS: usize = 64;
const STEP: usize = 8;
const PATIENCE: Duration = Duration::from_secs(60);
const IDLE_FOR: Duration = Duration::from_secs(2);

/// All benches of the family.
pub fn run(ruler: &mut Ruler) {
    if ![PAUSE, IDLE, START, STOP].iter().any(|name| ruler.wants(name)) {
        return;
    }
    match measure() {
        Ok(measured) => {
            ruler.record(IDLE, "ms", measured.idle);
            ruler.record(PAUSE, "ms", measured.pause);
            ruler.record(START, "s", measured.start);
            ruler.record(STOP, "s", measured.stop);
        }
        Err(error) => eprintln!("{PAUSE}: not measured: {error}"),
    }
}

struct Measured {
    idle: Vec<f64>,
    pause: Vec<f64>,
    start: Vec<f64>,
    stop: Vec<f64>,
}

fn measure() -> Result<Measured, Box<dyn Error>> {
    let lab = Lab::new("bench-mirror")?;
    let host = lab.router("router")?;
    let mut router = Router::start(&host, "[[port]]\nname = \"port*\"\n[workers]\ncores = [1]\n")?;
    let mut measured = Measured { idle: Vec::new(), pause: Vec::new(), start: Vec::new(), stop: Vec::new() };
    for _ in 0..SAMPLES {
        measured.idle.push(longest_answer(router.socket(), || {
            std::thread::sleep(IDLE_FOR);
            Ok(())
        })?);
        measured.pause.push(longest_answer(router.socket(), || {
            (0..PAIRS).step_by(STEP).try_for_each(|first| add(&host, first, STEP))?;
            all_taken(&router, 2 * PAIRS)
        })?);
        add(&host, PAIRS, PAIRS)?;
        all_taken(&router, 4 * PAIRS)?;
        let begun = Instant::now();
        router.stop()?;
        measured.stop.push(begun.elapsed().as_secs_f64());
        let begun = Instant::now();
        router.restart()?;
        all_taken(&router, 4 * PAIRS)?;
        measured.start.push(begun.elapsed().as_secs_f64());
        remove(&host, 2 * PAIRS)?;
        all_taken(&router, 0)?;
    }
    Ok(measured)
}

/// The longest that an answer took while `work` went on, milliseconds.
fn longest_answer(
    socket: &Path,
    work: impl FnOnce() -> Result<(), Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask_until(socket, &done).map_err(|error| error.to_string()));
        let worked = work();
        done.store(true, Ordering::Release);
        let longest = asking.join().unwrap_or_else(|_| Err("the client panicked".to_owned()));
        worked?;
        Ok(longest?.as_secs_f64() * 1e3)
    })
}

fn ask_until(socket: &Path, done: &AtomicBool) -> std::io::Result<Duration> {
    let mut stream = UnixStream::connect(socket)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let (mut longest, mut answer) = (Duration::ZERO, String::new());
    while !done.load(Ordering::Acquire) {
        let asked = Instant::now();
        stream.write_all(b"{\"ask\":\"flow_table\"}\n")?;
        answer.clear();
        if answers.read_line(&mut answer)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        longest = longest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(longest)
}

fn add(host: &Host, first: usize, pairs: usize) -> Result<(), Box<dyn Error>> {
    let lines: String = (first..first + pairs)
        .map(|pair| {
            format!(
                "link add port{pair}a type veth peer name port{pair}b\n\
                 link set port{pair}a up\nlink set port{pair}b up\n"
            )
        })
        .collect();
    Ok(host.ip_batch(&lines)?)
}

fn remove(host: &Host, pairs: usize) -> Result<(), Box<dyn Error>> {
    let lines: String = (0..pairs).map(|pair| format!("link del port{pair}a\n")).collect();
    Ok(host.ip_batch(&lines)?)
}

fn all_taken(router: &Router, ports: usize) -> Result<(), Box<dyn Error>> {
    wait_for("the ports to be taken", PATIENCE, || {
        let shown = router.subject("ports").map_err(|error| error.to_string())?;
        let shown = shown.as_array().ok_or("not a list")?;
        let taken =
            shown.iter().filter(|port| matches!(port["lane"].as_str(), Some("express" | "worker"))).count();
        if taken == ports { Ok(()) } else { Err(format!("{taken} of {ports}")) }
    })?;
    Ok(())
}
