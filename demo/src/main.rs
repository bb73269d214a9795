//! `make run`: a network on one machine, where Bifrost forwards along routes learnt over BGP from
//! another implementation.
//!
//! 1. The stage is set (`stage.rs`): hosts, links, FRR, and an ISP with a table like the
//!    Internet's.
//! 2. Linux alone forwards, then Bifrost, under the same load on the same network
//!    (`comparison.rs`).
//! 3. Traffic runs (`traffic.rs`) and what happens is shown: live on a terminal, else as lines
//!    (`screen.rs`).
//! 4. The verdict (`verdict.rs`) looks at witnesses outside Bifrost: Linux's counters, Linux's
//!    table, the hosts' own.

mod comparison;
mod sample;
mod screen;
mod stage;
mod traffic;
mod verdict;

use std::{
    io::IsTerminal,
    process::ExitCode,
    time::{Duration, Instant},
};

use bifrost::screen::units::count;
use clap::Parser;

use crate::{
    comparison::{Comparison, Rig},
    sample::Sampler,
    screen::Screen,
    stage::Stage,
    traffic::Traffic,
    verdict::Verdict,
};

#[derive(Parser)]
#[command(
    name = "bifrost-demo",
    about = "An ISP, a router, a customer and a server, and what Bifrost makes of it"
)]
struct Arguments {
    /// Run for so long, print plain lines and a verdict (without a terminal: 20).
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("make run: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> lab::Result<bool> {
    let live = arguments.seconds.is_none() && std::io::stdout().is_terminal();
    println!("Building the network: customer - router - isp - server  (ip netns exec bf-demo-router bash)");
    let mut stage = Stage::new()?;
    let (v4, v6) = stage::ANNOUNCED;
    println!("The ISP (BIRD) announces {} IPv4 and {} IPv6 prefixes", count(v4 as u64), count(v6 as u64));
    let took = stage.learn()?;
    println!("FRR has put them into Linux after {:.1} s", took.as_secs_f64());

    println!("Linux alone forwards, for comparison ...");
    let rig = Rig::new(&stage)?;
    let linux = rig.measure(&stage)?;
    println!("  {:.2} million packets a second", linux / 1e6);
    let took = stage.start_bifrost()?;
    println!("Bifrost has its ports and all routes after {:.1} s", took.as_secs_f64());
    let comparison = Comparison { linux, bifrost: rig.measure(&stage)? };
    println!(
        "  {:.2} million packets a second: {:.1} times Linux",
        comparison.bifrost / 1e6,
        comparison.multiple()
    );

    rig.done(&stage)?;

    let verdict = Verdict::begin(&stage)?;
    let mut traffic = Traffic::start(&stage)?;
    let mut sampler = Sampler::new(&stage);
    let start = Instant::now();
    if live {
        let mut screen = Screen::open(comparison)?;
        loop {
            screen.show(&sampler.sample(&mut traffic))?;
            if screen.quit()? {
                break;
            }
        }
    } else {
        let limit = Duration::from_secs(arguments.seconds.unwrap_or(20));
        println!(
            "Traffic: ping 100/s, TCP and {} UDP flows, in both families, for {} s",
            500,
            limit.as_secs()
        );
        while start.elapsed() < limit {
            std::thread::sleep(Duration::from_secs(1).min(limit.saturating_sub(start.elapsed())));
            println!("{}", screen::line(&sampler.sample(&mut traffic)));
        }
    }
    let outcome = traffic.stop();
    let verdict = verdict.reach(&stage, &outcome, comparison)?;
    println!("{verdict}");
    Ok(verdict.passed())
}
