//! Runs a script in a virtual machine, and ends as the script did.
//!
//! ```sh
//! lab/setup.sh machines                                                  # once: QEMU and Debian's kernels
//! cargo run -p lab --example machine -- 6.12 'uname -r; ip link'
//! cargo run -p lab --example machine -- newest ./script.sh     # a file does as well
//! ```
//!
//! The guest sees this machine's files by the same paths, read-only: what it writes is gone when it
//! ends. It starts in the folder this is called from, and has 30 minutes (SECONDS=60: other
//! limits).

use std::{env, io::Write, process::ExitCode, time::Duration};

use lab::Machine;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [kernel, script] = arguments.as_slice() else {
        eprintln!("Usage: machine KERNEL SCRIPT (kernels: {})", lab::KERNELS.join(", "));
        return ExitCode::from(2);
    };
    match run(kernel, script) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(kernel: &str, script: &str) -> Result<u8, Box<dyn std::error::Error>> {
    let seconds = env::var("SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1800);
    let script = std::fs::read_to_string(script).unwrap_or_else(|_| script.to_owned());
    let script = format!("cd '{}'\n{script}", env::current_dir()?.display());
    let output = Machine::boot(kernel)?.output(&script, Duration::from_secs(seconds))?;
    std::io::stdout().write_all(&output.stdout)?;
    std::io::stderr().write_all(&output.stderr)?;
    Ok(output.status.code().unwrap_or(255) as u8)
}
