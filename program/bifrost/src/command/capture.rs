//! `bifrost capture`.

use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::control::status::CapturedPacket;
use crate::control::{CaptureRequest, Request, Stopper};
use crate::service::Signals;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::args::{Capture, filter};
use super::{Failure, connect};
use wire::capture::link;
use wire::capture::pcapng::{Captured, Writer};

pub fn capture(args: &Capture, socket: &Path) -> Result<(), Failure> {
    let filter = filter(&args.filter)?;
    let mut client = connect(socket)?;
    let request = Request::Capture(CaptureRequest {
        filter,
        at: args.at.clone(),
        count: args.count,
        seconds: args.seconds,
        snap: args.snap,
    });
    let patience = args.seconds.map(|seconds| Duration::from_secs(seconds + 10));
    end_on_signal(client.stopper()?)?;
    let mut packets = client.live::<CapturedPacket>(&request, patience)?;
    let mut file = create(args)?;
    let mut written: u64 = 0;
    while let Some(packet) = packets.next() {
        let packet = packet?;
        let captured = Captured {
            interface: &packet.input,
            link: link::ETHERNET as u16,
            time: packet.time_ns,
            bytes: &packet.frame,
            length: packet.length,
            outgoing: None,
            comment: &format!("at {}", packet.element),
        };
        file.packet(&captured).map_err(Failure::output)?;
        written += 1;
        if packets.drained() {
            file.flush().map_err(Failure::output)?;
        }
    }
    let end = packets.end().unwrap_or_default();
    file.flush().map_err(Failure::output)?;
    let lost =
        if end.missed > 0 { format!(", {} lost (they came too fast)", end.missed) } else { String::new() };
    eprintln!("{written} packets written to {}{lost}", args.write.display());
    Ok(())
}

/// Ctrl-C ends the capture, not the program: what was captured is still written.
pub(super) fn end_on_signal(stopper: Stopper) -> Result<(), Failure> {
    let fail = |error| Failure::Io { what: "cannot take over the signals".to_owned(), error };
    let mut signals = Signals::install().map_err(fail)?;
    let wait = move || {
        while signals.take().is_none() {
            let _ = poll(&mut [PollFd::new(signals.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE);
        }
        stopper.stop();
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(fail)?;
    Ok(())
}

fn create(args: &Capture) -> Result<Writer<Box<dyn Write>>, Failure> {
    let to: Box<dyn Write> = if args.write == Path::new("-") {
        Box::new(stdout().lock())
    } else {
        let file = File::create(&args.write)
            .map_err(|error| Failure::Io { what: format!("cannot write {}", args.write.display()), error })?;
        Box::new(BufWriter::new(file))
    };
    Writer::new(to, args.snap).map_err(Failure::output)
}
