//! `bifrost read`, `bifrost write`, `bifrost reload`, `bifrost restart`,
//! `bifrost redundancy`: changing and asking a
//! router that runs.
//!
//! Every worker has elements of its own, so a handler has an answer for each: one that all agree on
//! is printed once.

use crate::control::{Client, Request};

use super::Failure;
use super::args::{Output, Read, Redundancy, Reload, Restart, Write};
use super::table::{print, print_value};

pub fn read(args: &Read, mut client: Client) -> Result<(), Failure> {
    let answers: Vec<String> = client.ask(&Request::Read { handler: args.handler.clone() })?;
    if args.output.json {
        return print_value(&serde_json::json!({ "handler": args.handler, "workers": answers }));
    }
    print(&report(&answers))
}

pub fn write(args: &Write, mut client: Client) -> Result<(), Failure> {
    let (handler, value) = (args.handler.clone(), args.value.join(" "));
    let _: Vec<String> = client.ask(&Request::Write { handler, value })?;
    Ok(())
}

pub fn reload(args: Reload, mut client: Client) -> Result<(), Failure> {
    let Reload { dry_run, output } = args;
    let done: String = client.ask(&Request::Reload { dry_run })?;
    if output.json && dry_run {
        return print_value(&serde_json::json!({ "effects": done.lines().collect::<Vec<_>>() }));
    }
    self::done(&done, &output)
}

pub fn upgrade(output: &Output, mut client: Client) -> Result<(), Failure> {
    done(&client.ask::<String>(&Request::Upgrade)?, output)
}

pub fn redundancy(args: Redundancy, mut client: Client) -> Result<(), Failure> {
    let (release, of) = match args {
        Redundancy::Release(of) => (true, of),
        Redundancy::Resume(of) => (false, of),
    };
    let done: String = client.ask(&Request::Handover { name: of.name, release })?;
    self::done(&done, &of.output)
}

pub fn restart(args: Restart, mut client: Client) -> Result<(), Failure> {
    done(&client.ask::<String>(&Request::Restart { name: args.name })?, &args.output)
}

fn done(done: &str, output: &Output) -> Result<(), Failure> {
    match output.json {
        true => print_value(&serde_json::json!({ "done": done })),
        false => print(&format!("{done}\n")),
    }
}

fn report(answers: &[String]) -> String {
    let line = |text: &str| if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
    match answers {
        [] => String::new(),
        [first, rest @ ..] if rest.iter().all(|other| other == first) => line(first),
        all => {
            all.iter().enumerate().map(|(worker, text)| format!("worker {worker}: {}", line(text))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_workers_agree_on_is_said_once() {
        let report =
            |answers: &[&str]| report(&answers.iter().map(|text| text.to_string()).collect::<Vec<_>>());
        assert_eq!(report(&["5", "5"]), "5\n");
        assert_eq!(report(&["5\n", "6"]), "worker 0: 5\nworker 1: 6\n");
        assert_eq!(report(&[]), "");
    }
}
