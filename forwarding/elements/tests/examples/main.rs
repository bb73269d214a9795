//! Runs the examples in `forwarding/elements/examples`, each file a test of its own. Their form is
//! described in the README there.

mod form;
mod packet;
mod reconfigure;
mod run;
mod stand;
mod text;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let trials = elements::examples::FILES.iter().map(|&(class, text)| {
        Trial::test(class, move || {
            let examples = text::parse(text)?;
            if examples.is_empty() {
                return Err("no examples in it".into());
            }
            for example in examples {
                for batches in [false, true] {
                    run::run(&example, batches).map_err(|error| {
                        format!("'{}' ({}): {error}", example.title, run::manner(batches))
                    })?;
                }
            }
            Ok(())
        })
    });
    let form = Trial::test("the form of examples", || form::check().map_err(Into::into));
    let live = [
        Trial::test("another configuration is taken", || Ok(reconfigure::takes_what_is_right()?)),
        Trial::test("another configuration is forgotten", || Ok(reconfigure::forgets()?)),
        Trial::test("another configuration is refused", || Ok(reconfigure::nothing_else_does()?)),
    ];
    libtest_mimic::run(&arguments, trials.chain([form]).chain(live).collect()).exit();
}
