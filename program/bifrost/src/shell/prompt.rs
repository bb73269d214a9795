//! The line editor: prompt, completion by Tab, help by `?`, and the lines of before.

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{FileHistory, History};
use rustyline::validate::Validator;
use rustyline::{
    Cmd, CompletionType, ConditionalEventHandler, Config, Context, Editor, Event, EventContext, EventHandler,
    Helper, KeyEvent, RepeatCount,
};

use super::ShellError;
use super::complete::{is_place, typed};
use super::session::{Next, Session};
use crate::command::Failure;

/// Lines that are kept.
const LINES: usize = 1000;

struct Shell(Rc<RefCell<Session>>);

impl Helper for Shell {}
impl Highlighter for Shell {}
impl Validator for Shell {}
impl Hinter for Shell {
    type Hint = String;
}

impl Completer for Shell {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..at).unwrap_or(line);
        let typed = typed(&self.0.borrow(), before);
        let mut words: Vec<(String, String)> = typed
            .offers
            .into_iter()
            .filter(|offer| !is_place(offer))
            .map(|offer| (offer.word, offer.about))
            .collect();
        words.dedup_by(|one, other| one.0 == other.0);
        let width = words.iter().map(|(word, _)| word.chars().count()).max().unwrap_or_default();
        let pair = |(word, about): (String, String)| Pair {
            display: format!("{word:<width$}  {about}").trim_end().to_owned(),
            replacement: word + " ",
        };
        Ok((typed.start, words.into_iter().map(pair).collect()))
    }
}

/// `?` asks what could follow, unless it stands in a quote.
struct Question(Arc<AtomicBool>);

impl ConditionalEventHandler for Question {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        let before = context.line().get(..context.pos()).unwrap_or_default();
        if candidate::split_open(before).1 {
            return None;
        }
        self.0.store(true, Relaxed);
        Some(Cmd::AcceptLine)
    }
}

/// Asks for lines until the end.
pub(super) fn run(session: Session) -> Result<ExitCode, Failure> {
    // Ctrl-C is for the program that runs, and not for the shell.
    let interrupted = Arc::new(AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted);
    let failed = |error: ReadlineError| Failure::Said(format!("the terminal: {error}"));
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .auto_add_history(false)
        .max_history_size(LINES)
        .map_err(failed)?
        .build();
    let mut editor = Editor::<Shell, FileHistory>::with_config(config).map_err(failed)?;
    let asked = Arc::new(AtomicBool::new(false));
    let question = EventHandler::Conditional(Box::new(Question(asked.clone())));
    editor.bind_sequence(KeyEvent::from('?'), question);
    let _ = session.user_state.make();
    let lines = session.user_state.lines();
    let _ = editor.load_history(&lines);
    let session = Rc::new(RefCell::new(session));
    editor.set_helper(Some(Shell(session.clone())));
    let mut code = ExitCode::SUCCESS;
    let mut left = (String::new(), String::new());
    loop {
        let prompt = prompt(&session.borrow());
        let line = match editor.readline_with_initial(&prompt, (&left.0, &left.1)) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                left = Default::default();
                continue;
            }
            // Out of where one is.
            Err(ReadlineError::Eof) => "exit".to_owned(),
            Err(error) => return Err(failed(error)),
        };
        if asked.swap(false, Relaxed) {
            help(&session.borrow(), &line);
            left = (line, String::new());
            continue;
        }
        left = Default::default();
        // What is secret is not kept among the lines.
        let is_secret = line.split_whitespace().any(config::secrets::is_secret);
        if !line.trim().is_empty() && !is_secret {
            let _ = editor.history_mut().add(&line);
            let _ = editor.append_history(&lines);
        }
        match lines_of(&mut session.borrow_mut(), &line) {
            Ok(Next::Line) => code = ExitCode::SUCCESS,
            Ok(Next::End) => break,
            Err(error) => code = ExitCode::from(error.tell("")),
        }
    }
    session.borrow_mut().close();
    Ok(code)
}

/// Does a line; or several that were pasted, up to the first that fails.
fn lines_of(session: &mut Session, text: &str) -> Result<Next, ShellError> {
    for line in text.split(['\n', '\r']) {
        if session.line(line)? == Next::End {
            return Ok(Next::End);
        }
    }
    Ok(Next::Line)
}

/// Prints what could follow.
fn help(session: &Session, line: &str) {
    let typed = typed(session, line);
    let width = typed.offers.iter().map(|offer| offer.word.chars().count()).max().unwrap_or_default().min(40);
    println!(
        "{}",
        if typed.offers.is_empty() { "  nothing more is expected here" } else { "what can follow:" }
    );
    for offer in typed.offers {
        println!("{}", format!("  {:<width$}  {}", offer.word, offer.about).trim_end());
    }
}

/// Says where one is: the host, what waits, the section, and whether the candidate differs.
fn prompt(session: &Session) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim().split('.').next().unwrap_or_default().to_owned();
    let waits = session.history().ok().and_then(|history| history.waits);
    let waits = waits.map_or(String::new(), |waits| {
        format!(" [confirm within {}]", notation::lasting(waits.seconds, " "))
    });
    match &session.editing {
        None => format!("{host}{waits}> "),
        Some(editing) => {
            let section = match editing.above.as_slice() {
                [] => String::new(),
                words => {
                    let words: Vec<String> = words.iter().map(|word| candidate::quote(word)).collect();
                    format!("({})", words.join(" "))
                }
            };
            let mark = if editing.differs() { "*" } else { "" };
            format!("{host}{waits}{section}{mark}# ")
        }
    }
}
