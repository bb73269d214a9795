//! A machine is ended when the process that booted it is killed, and nothing is left of it. While
//! it lives, its scripts have a time limit, and one that was ended does not hold up the next.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use lab::{LabError, Machine, wait_for};

const SHORT: Duration = Duration::from_secs(2);
/// Set in the process that is to be killed.
const VICTIM: &str = "BIFROST_VICTIM";

/// The processes whose command line names this folder.
fn processes_of(folder: &Path) -> usize {
    let folder = folder.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(folder)).count()
}

#[test]
fn when_it_is_killed() {
    if env::var_os(VICTIM).is_some() {
        let _machine = Machine::boot("6.12").unwrap();
        println!("booted");
        sleep(Duration::from_secs(120));
    }
    let mut victim = Command::new(env::current_exe().unwrap())
        .args(["when_it_is_killed", "--nocapture"])
        .env(VICTIM, "yes")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let folder = Path::new("/run/bifrost-machines").join(format!("{}-1", victim.id()));
    let begun = wait_for("the machine to begin", Duration::from_secs(60), || match processes_of(&folder) {
        0 => Err(victim.try_wait().unwrap().map_or(String::new(), |status| status.to_string())),
        _ => Ok(()),
    });
    victim.kill().unwrap();
    victim.wait().unwrap();
    begun.unwrap();
    wait_for("the machine to end", Duration::from_secs(10), || {
        match (processes_of(&folder), folder.exists()) {
            (0, false) => Ok(()),
            (processes, _) => Err(format!("{processes} processes of {}", folder.display())),
        }
    })
    .unwrap();
}

#[test]
fn and_scripts_end_in_time() {
    Machine::on("6.12", |machine| {
        let endless = machine.run("echo begun; trap '' TERM; while :; do sleep 1; done", SHORT);
        if !matches!(&endless, Err(LabError::Timeout { last, .. }) if last == "begun") {
            return endless.map(|said| panic!("an endless script said {said}"));
        }
        let output = machine.output("echo said; echo told >&2; exit 3", Duration::from_secs(20))?;
        assert_eq!(output.status.code(), Some(3));
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"said\n"[..], &b"told\n"[..]));
        Ok(())
    })
    .unwrap_or_else(|error| panic!("{error}"));
}
