//! A script's instructions, from their texts.

use graph::language::{first_word, split_words};

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    /// Stands before a first instruction that does not block.
    Begin,
    /// Block until so many steps were made.
    Pause(u32),
    /// Block for a time, which may name variables, or until a step.
    Wait(String),
    /// Print a text or a handler's value.
    Print { text: String, newline: bool, unquote: bool },
    /// Say a handler's name and value.
    Read { call: String, unquote: bool },
    /// Call a write handler.
    Write { call: String, unquote: bool },
    /// Give a variable a value.
    Set { variable: String, text: String, unquote: bool },
    /// Gives a variable its first value, before the script begins; perhaps a handler shows it.
    Init { variable: String, text: String, unquote: bool, export: bool },
    /// A place to go to.
    Label(String),
    /// Go on elsewhere, if a condition is true or empty.
    Goto { to: Place, condition: String },
    /// End with a value.
    Return { text: String, unquote: bool },
    /// End.
    End(Ending),
    /// End with a message, which may be empty.
    Error { text: String, unquote: bool },
}

/// How a script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// For this time.
    End,
    /// Without catching its signal again, or giving its packet on.
    Exit,
    /// And the program with it.
    Stop,
    /// In failure.
    Error,
}

/// Where a `goto` leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// To an instruction.
    At(usize),
    /// Out of the script.
    Out(Ending),
    /// A label that has not been looked up yet.
    Label(String),
}

impl Instruction {
    /// Reads one argument of the script; `None` when it is empty. The error is Click's message.
    fn parse(text: &str) -> Result<Option<Instruction>, String> {
        let Some((name, rest)) = first_word(text) else { return Ok(None) };
        let wrong = || format!("syntax error at '{name}'");
        let (rest, unquote) = (rest.to_owned(), name.ends_with('q'));
        let nothing_follows = |instruction| if rest.is_empty() { Ok(instruction) } else { Err(wrong()) };
        Ok(Some(match name {
            "pause" | "wait_step" | "wait_stop" => Instruction::Pause(pause(&rest).ok_or_else(wrong)?),
            "wait" if rest.is_empty() => Instruction::Pause(1),
            "wait" | "wait_for" | "wait_time" => Instruction::Wait(rest),
            "print" | "printq" => Instruction::Print { text: rest, newline: true, unquote },
            "printn" | "printnq" => Instruction::Print { text: rest, newline: false, unquote },
            "save" | "append" => {
                let (handler, file) = first_word(&rest).ok_or_else(wrong)?;
                let sign = if name == "save" { ">" } else { ">>" };
                // What stands between the handler and the file is the handler's argument.
                let (argument, file) = match split_words(file).as_slice() {
                    [] => (String::new(), "-"),
                    [argument @ .., file] => (argument.join(" "), *file),
                };
                let text = format!("{sign}{file} {handler} {argument}").trim_end().to_owned();
                Instruction::Print { text, newline: true, unquote: false }
            }
            "read" | "readq" => Instruction::Read { call: rest, unquote },
            "write" | "writeq" => Instruction::Write { call: rest, unquote },
            "return" | "returnq" => Instruction::Return { text: rest, unquote },
            "set" | "setq" | "init" | "initq" | "export" | "exportq" => {
                let (variable, text) = first_word(&rest).ok_or_else(wrong)?;
                let (variable, text) = (variable.to_owned(), text.to_owned());
                if name.starts_with("set") {
                    if text.is_empty() {
                        return Err(wrong());
                    }
                    Instruction::Set { variable, text, unquote }
                } else {
                    Instruction::Init { variable, text, unquote, export: name.starts_with("export") }
                }
            }
            "label" => match split_words(&rest).as_slice() {
                [label] => Instruction::Label((*label).to_owned()),
                _ => return Err(wrong()),
            },
            "goto" => {
                let (label, condition) = first_word(&rest).unwrap_or_default();
                Instruction::Goto { to: Place::Label(label.to_owned()), condition: condition.to_owned() }
            }
            "loop" => nothing_follows(Instruction::Goto { to: Place::At(0), condition: String::new() })?,
            "end" => nothing_follows(Instruction::End(Ending::End))?,
            "exit" => nothing_follows(Instruction::End(Ending::Exit))?,
            "stop" => nothing_follows(Instruction::End(Ending::Stop))?,
            "error" | "errorq" => Instruction::Error { text: rest, unquote },
            _ => return Err(wrong()),
        }))
    }

    fn blocks(&self) -> bool {
        matches!(self, Instruction::Pause(_) | Instruction::Wait(_))
    }
}

fn pause(text: &str) -> Option<u32> {
    if text.is_empty() { Some(1) } else { text.parse().ok() }
}

/// Where a label leads in a script; `None` when there is no such label.
pub(super) fn place(instructions: &[Instruction], label: &str) -> Option<Place> {
    let named = |instruction: &Instruction| matches!(instruction, Instruction::Label(name) if name == label);
    if let Some(at) = instructions.iter().position(named) {
        return Some(Place::At(at));
    }
    Some(match label {
        "begin" | "loop" => Place::At(0),
        "end" => Place::Out(Ending::End),
        "exit" => Place::Out(Ending::Exit),
        "stop" => Place::Out(Ending::Stop),
        "error" | "errorq" => Place::Out(Ending::Error),
        _ => return None,
    })
}

/// Reads a whole script. `directs` says that it directs the run: then it stops the program where it
/// ends. The errors are about arguments, by their number; those about labels come last.
pub(super) fn script(
    texts: &[String],
    directs: bool,
) -> Result<Vec<Instruction>, Vec<(Option<usize>, String)>> {
    let mut instructions: Vec<Instruction> = Vec::new();
    let mut wrong = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        match Instruction::parse(text) {
            Ok(None) => {}
            Ok(Some(instruction)) => {
                if instructions.is_empty() && !instruction.blocks() {
                    instructions.push(Instruction::Begin);
                }
                instructions.push(instruction);
            }
            Err(message) => wrong.push((Some(number), message)),
        }
    }
    for at in 0..instructions.len() {
        if let Instruction::Goto { to: Place::Label(label), .. } = &instructions[at] {
            let found = place(&instructions, label);
            let missing = (None, format!("no such label '{label}'"));
            if let (Some(found), Instruction::Goto { to, .. }) = (found, &mut instructions[at]) {
                *to = found;
            } else {
                wrong.push(missing);
            }
        }
    }
    if instructions.is_empty() {
        instructions.push(if directs { Instruction::Pause(1) } else { Instruction::Begin });
    }
    instructions.push(Instruction::End(if directs { Ending::Stop } else { Ending::End }));
    if wrong.is_empty() { Ok(instructions) } else { Err(wrong) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<Vec<Instruction>, Vec<(Option<usize>, String)>> {
        script(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), false)
    }

    #[test]
    fn a_script_begins_with_something_that_blocks() {
        use Instruction::{Begin, End, Pause, Wait};
        let end = End(Ending::End);
        assert_eq!(read(&[]).unwrap(), [Begin, end.clone()]);
        assert_eq!(read(&["pause 3", ""]).unwrap(), [Pause(3), end.clone()]);
        assert_eq!(read(&["wait", "wait 1s"]).unwrap(), [Pause(1), Wait("1s".to_owned()), end.clone()]);
        assert_eq!(read(&["stop"]).unwrap(), [Begin, End(Ending::Stop), end]);
        assert_eq!(script(&[], true).unwrap(), [Pause(1), End(Ending::Stop)]);
    }

    #[test]
    fn labels_are_found_or_missed() {
        let goto = |texts: &[&str]| match read(texts).unwrap().into_iter().nth(2).unwrap() {
            Instruction::Goto { to, condition } => (to, condition),
            other => panic!("{other:?}"),
        };
        assert_eq!(goto(&["label a", "goto a $x"]), (Place::At(1), "$x".to_owned()));
        assert_eq!(goto(&["label end", "goto end"]).0, Place::At(1));
        assert_eq!(goto(&["label a", "goto exit"]).0, Place::Out(Ending::Exit));
        assert_eq!(goto(&["label a", "loop"]).0, Place::At(0));
        assert_eq!(read(&["goto b"]), Err(vec![(None, "no such label 'b'".to_owned())]));
    }

    #[test]
    fn wrong_instructions_are_named() {
        for text in ["pause x", "label", "label a b", "set x", "init", "end now", "loop 3", "save", "prin x"]
        {
            let name = text.split(' ').next().unwrap();
            assert_eq!(read(&[text]), Err(vec![(Some(0), format!("syntax error at '{name}'"))]), "{text}");
        }
    }
}
