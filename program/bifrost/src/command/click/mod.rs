//! `bifrost click`: runs a configuration in Click's language, as Click's user-level driver does.
//!
//! The command line, the exit codes and what appears on standard output are Click's, so that its
//! scripts and tests run with this program in its place. A program that is called by the name
//! `click` is this command.

mod configuration;
mod options;
mod pages;
mod picture;
mod results;
mod times;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use graph::{Clock, Driver, Environment, Manner, Program, Refusal, Registry, Sinks};
use port::{HugePages, Memory, MemoryError, XdpDevices};

use super::Failure;
use configuration::Configuration;
pub use options::Click;

/// Does what the command line says. `extra` are classes of elements beside those of the library.
pub fn click(options: &Click, extra: &[&'static graph::Class]) -> Result<ExitCode, Failure> {
    let mut registry = Registry::new();
    for classes in elements::CLASSES.iter().chain([&extra]) {
        registry.add(classes);
    }
    if options.version {
        println!("click (Bifrost) {}", crate::RELEASE);
        return Ok(ExitCode::SUCCESS);
    }
    if options.html {
        return pages::html(&registry);
    }
    if let Some(class) = &options.doc {
        return pages::show(&registry, class);
    }
    let read = options.source().and_then(|source| Ok((source, options.control_sockets()?)));
    let ((source, parameters), control) = match read {
        Ok(read) => read,
        Err(wrong) => {
            eprintln!("{wrong}");
            eprintln!("Usage: click [OPTION]... [ROUTERFILE]\nTry 'click --help' for more information.");
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut configuration = Configuration {
        source,
        parameters,
        control,
        libraries: configuration::libraries(options.clickpath.as_deref()),
        registry,
        environment: Environment::new(),
        manner: manner(options),
    };
    let text = match configuration.read() {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{}: {}", configuration.source.name(), configuration::reason(&error));
            return Ok(ExitCode::FAILURE);
        }
    };
    if options.format {
        return configuration.format(&text);
    }
    let memory = match install_memory(options) {
        Ok(memory) => memory,
        Err(error) => {
            eprintln!("{error}");
            return Ok(ExitCode::FAILURE);
        }
    };
    configuration.environment.share(XdpDevices::new(memory.clone()));
    let program = match configuration.compile(&text) {
        Ok(program) => program,
        Err(refusal) => return Ok(refuse(&refusal)),
    };
    if !options.no_warnings {
        let marked = std::io::stderr().is_terminal();
        eprint!("{}", if marked { program.warnings() } else { program.warning_lines() });
    }
    if options.dot || options.svg {
        return picture::print(&program, &configuration, options.svg);
    }
    run(options, configuration, &program, memory)
}

/// Makes the packet memory of all threads, and gives this one its own.
fn install_memory(options: &Click) -> Result<Arc<Memory>, MemoryError> {
    let memory = Memory::new(options.threads, options.packets as usize, HugePages::Auto)?;
    memory.pool(0)?.install();
    Ok(Arc::new(memory))
}

fn manner(options: &Click) -> Manner {
    let clock = match options.simtime {
        Some(seconds) => Clock::simulated((seconds * 1e9) as i64),
        None => Clock::real(),
    };
    Manner { batches: options.batch, clock }
}

fn run(
    options: &Click,
    configuration: Configuration,
    program: &Program,
    memory: Arc<Memory>,
) -> Result<ExitCode, Failure> {
    let mut sinks = Sinks::new();
    let graph = match program.start(&configuration.environment, configuration.manner.clone(), &mut sinks) {
        Ok(graph) => graph,
        Err(refusal) => return Ok(refuse(&refusal)),
    };
    let mut exit = 0;
    if let Some(path) = options.output.first() {
        let flat = graph::language::unparse(program.flat());
        if let Err(error) = write_flat(path, &flat) {
            eprintln!("{path}: {}", configuration::reason(&error));
            exit = 1;
        }
    }
    let empty = program.flat().elements.is_empty();
    let name = configuration.source.name();
    let mut driver = Driver::new(graph, sinks);
    driver.stop_on_signals();
    driver.use_threads(options.threads, memory, options.affinity);
    if options.allow_reconfigure {
        allow_changes(&mut driver, configuration);
    }
    let began = times::Times::now();
    if !options.quit && !empty {
        driver.run();
    } else if !options.quit && !options.no_warnings {
        eprintln!("warning: {name}: configuration has no elements, exiting");
    }
    if options.time {
        println!("{}", began.elapsed());
    }
    let (graph, sinks) = driver.parts();
    if !options.handlers.is_empty() && !results::print(graph, sinks, &options.handlers) {
        exit = 1;
    }
    if let Some(handler) = options.exit_handler.first() {
        exit = results::exit_code(graph, sinks, handler);
    }
    std::io::stdout().flush().map_err(Failure::output)?;
    // As the system does with what a program returns.
    Ok(ExitCode::from(exit as u8))
}

/// Says what is wrong: to people with the place marked, to programs, which parse it, in Click's
/// form.
fn refuse(refusal: &Refusal) -> ExitCode {
    match std::io::stderr().is_terminal() {
        true => eprintln!("{refusal}"),
        false => eprint!("{}", refusal.lines),
    }
    if refusal.understood {
        eprintln!("{}", configuration::NOT_INITIALIZED);
    }
    ExitCode::FAILURE
}

/// Opens the `hotconfig` handler, and lets SIGHUP read the file again.
fn allow_changes(driver: &mut Driver, configuration: Configuration) {
    let configuration = Arc::new(configuration);
    let again = configuration.clone();
    driver.reread_on_hangup(Box::new(move || {
        let made =
            again.read().map_err(|error| configuration::reason(&error)).and_then(|text| again.make(&text));
        made.map_err(|wrong| eprintln!("{wrong}")).ok()
    }));
    driver.parts().0.allow_hot_configuration(Box::new(move |text| configuration.make(text)));
}

fn write_flat(path: &str, flat: &str) -> std::io::Result<()> {
    if path == "-" { std::io::stdout().write_all(flat.as_bytes()) } else { std::fs::write(path, flat) }
}
