//! `bifrost show expect`: what is to stay true, and whether it is.

use super::Failure;
use super::args::Output;
use super::table::{print, print_value};
use crate::control::{Client, Expectation, Request};

pub fn expect(mut client: Client, output: Output) -> Result<(), Failure> {
    let all: Vec<Expectation> = client.ask(&Request::Expect)?;
    if output.json {
        return print_value(&all);
    }
    if all.is_empty() {
        return print("nothing is expected: [expect] in router.toml says what is to stay true\n");
    }
    let text: String = all.iter().map(told).collect();
    print(&text)
}

fn told(one: &Expectation) -> String {
    let mut text = match one.holds {
        Some(true) => format!("holds   {}\n", one.sentence),
        Some(false) => format!("BROKEN  {}\n", one.sentence),
        None => format!("open    {}\n", one.sentence),
    };
    for line in [&one.packet, &one.why].into_iter().flatten() {
        text += &format!("        {line}\n");
    }
    text
}
