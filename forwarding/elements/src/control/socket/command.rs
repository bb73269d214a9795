//! Requests and their answers.

use graph::{Context, Handler, HandlerError};

const OK: u32 = 200;
const SYNTAX: u32 = 500;
const UNIMPLEMENTED: u32 = 501;
const NO_ELEMENT: u32 = 510;
const NO_HANDLER: u32 = 511;
const HANDLER_ERROR: u32 = 520;
const PERMISSION: u32 = 530;
const UNSPECIFIED: u32 = 590;

const HELP: [&str; 11] = [
    "Commands supported:",
    "READ handler [arg...]   call read handler, return DATA",
    "READDATA handler len    call read handler with len data bytes, return DATA",
    "READUNTIL handler term  call read handler, take data until term, return DATA",
    "WRITE handler [arg...]  call write handler",
    "WRITEDATA handler len   call write handler, pass len data bytes",
    "WRITEUNTIL handler term call write handler, take data until term",
    "CHECKREAD handler       check if read handler is valid",
    "CHECKWRITE handler      check if write handler is valid",
    "LLRPC elt#number [len]  call LLRPC, pass len data bytes, return DATA",
    "QUIT                    close connection",
];

/// What clients may do.
pub(super) struct Rules {
    pub(super) read_only: bool,
    /// The element whose handlers all are.
    pub(super) proxy: Option<String>,
    /// The handler of the socket itself, which is at work while it answers, and its value.
    pub(super) own: Option<(&'static str, String)>,
}

/// A request that was answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Its bytes.
    pub(super) bytes: usize,
    /// The client wants no more.
    pub(super) quits: bool,
}

/// A request, whole.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Nothing,
    Read(String, String),
    Write(String, String),
    Check(String, bool),
    Llrpc(String),
    Quit {
        extra: bool,
    },
    Help,
    /// Something is wrong with it.
    Wrong(u32, String),
}

/// Answers the first request of `input`, if it is there whole; `ended`: nothing more comes.
pub(super) fn answer(
    input: &[u8],
    ended: bool,
    output: &mut Vec<u8>,
    rules: &Rules,
    cx: &mut Context<'_>,
) -> Option<Taken> {
    let (request, bytes) = parse(input, ended)?;
    let mut answer = Answer(output);
    let mut quits = false;
    match request {
        Request::Nothing => {}
        Request::Read(name, argument) => read(&name, &argument, &mut answer, rules, cx),
        Request::Write(name, value) => write(&name, &value, &mut answer, rules, cx),
        Request::Check(name, write) => check(&name, write, &mut answer, rules, cx),
        Request::Llrpc(name) => {
            answer.line(UNIMPLEMENTED, &format!("Cannot call LLRPC '{name}' remotely"));
        }
        Request::Help => answer.lines(OK, HELP.iter().copied()),
        Request::Quit { extra } => {
            if extra {
                answer.line(SYNTAX, "Bad command syntax");
            }
            answer.line(OK, "Goodbye!");
            quits = true;
        }
        Request::Wrong(code, message) => answer.line(code, &message),
    }
    Some(Taken { bytes, quits })
}

/// The first request, and its bytes; `None` when it is not there whole.
fn parse(input: &[u8], ended: bool) -> Option<(Request, usize)> {
    let (line, mut used) = take_line(input);
    if used == line.len() && (!ended || line.is_empty()) {
        return None;
    }
    let line = String::from_utf8_lossy(line);
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let Some(first) = words.first() else { return Some((Request::Nothing, used)) };
    let wrong = |message: &str| Request::Wrong(SYNTAX, message.to_owned());
    let too_few = || wrong("Wrong number of arguments");
    let name = words.get(1).map_or(String::new(), |name| (*name).to_owned());
    // What follows the name, spaces and all.
    let rest = line.trim_ascii().get(first.len()..).unwrap_or("").trim_ascii_start();
    let rest = rest.get(name.len()..).unwrap_or("").trim_ascii_start().to_owned();
    let command = first.to_uppercase();
    let request = match command.as_str() {
        "READ" | "GET" | "WRITE" | "SET" if words.len() < 2 => too_few(),
        "READ" | "GET" => Request::Read(name, rest),
        "WRITE" | "SET" => Request::Write(name, rest),
        "READDATA" | "WRITEDATA" | "SETDATA" if words.len() != 3 => too_few(),
        "READDATA" | "WRITEDATA" | "SETDATA" => match rest.parse::<usize>() {
            Err(_) => wrong(&format!("Syntax error in '{command}'")),
            Ok(length) => match input.get(used..used.saturating_add(length)) {
                Some(data) => {
                    used += length;
                    call(&command, name, data)
                }
                None if ended => {
                    used = input.len();
                    wrong("Not enough data")
                }
                None => return None,
            },
        },
        "READUNTIL" | "WRITEUNTIL" if words.len() < 2 => too_few(),
        "READUNTIL" | "WRITEUNTIL" => match find_line(&input[used..], rest.as_bytes()) {
            Some((data, taken)) => {
                let data = &input[used..used + data];
                used += taken;
                call(&command, name, data)
            }
            None if ended => {
                used = input.len();
                wrong("Not enough data")
            }
            None => return None,
        },
        "CHECKREAD" | "CHECKWRITE" if words.len() != 2 => too_few(),
        "CHECKREAD" | "CHECKWRITE" => Request::Check(name, command == "CHECKWRITE"),
        "LLRPC" if !matches!(words.len(), 2 | 3) => too_few(),
        "LLRPC" => match rest.parse::<usize>() {
            Ok(length) if input.len() - used < length && !ended => return None,
            Ok(length) => {
                used = used.saturating_add(length).min(input.len());
                Request::Llrpc(name)
            }
            Err(_) if words.len() == 3 => wrong("Syntax error in 'llrpc'"),
            Err(_) => Request::Llrpc(name),
        },
        "CLOSE" | "QUIT" => Request::Quit { extra: words.len() != 1 },
        "HELP" => Request::Help,
        _ => Request::Wrong(UNIMPLEMENTED, format!("Command '{command}' unimplemented")),
    };
    Some((request, used))
}

fn call(command: &str, name: String, data: &[u8]) -> Request {
    let data = String::from_utf8_lossy(data).into_owned();
    if command.starts_with('R') { Request::Read(name, data) } else { Request::Write(name, data) }
}

/// The first line without its end, and its length with it, which is no more where the end is
/// missing.
fn take_line(input: &[u8]) -> (&[u8], usize) {
    let Some(end) = input.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return (input, input.len());
    };
    let mark = if input[end..].starts_with(b"\r\n") { 2 } else { 1 };
    (&input[..end], end + mark)
}

/// Where the line `until` begins, and what follows it.
fn find_line(input: &[u8], until: &[u8]) -> Option<(usize, usize)> {
    let mut at = 0;
    loop {
        let (line, length) = take_line(&input[at..]);
        if length == line.len() {
            return None;
        }
        if line.trim_ascii_end() == until {
            return Some((at, at + length));
        }
        at += length;
    }
}

/// The handler that a client means: its path for the graph, and the handler if it is open to
/// clients.
fn find(name: &str, rules: &Rules, cx: &mut Context<'_>) -> Result<(String, Handler), (u32, String)> {
    // `.x` and `0.x` are the graph's own.
    let canonical = name.strip_prefix('.').or_else(|| name.strip_prefix("0.")).unwrap_or(name);
    let (element, handler) = canonical.split_once('.').unwrap_or(("", canonical));
    if let Some(proxy) = &rules.proxy {
        let known = cx.handlers(proxy).unwrap_or_default();
        let found = known.into_iter().find(|known| known.name == canonical || known.name == "*");
        let missing = || (NO_HANDLER, format!("No proxied handler named '{name}'"));
        return Ok((format!("{proxy}.{canonical}"), found.ok_or_else(missing)?));
    }
    let node = cx.description().find(element).or_else(|| {
        let number: usize = element.parse().ok()?;
        cx.description().nodes.get(number.checked_sub(1)?)
    });
    let element = match node {
        _ if element.is_empty() => String::new(),
        Some(node) => node.name.clone(),
        None => return Err((NO_ELEMENT, format!("No element named '{element}'"))),
    };
    let named = |known: &Handler| (known.name == handler || known.name == "*") && !known.private;
    let own = cx.id();
    let known = match cx.find(&element) {
        // This element is at work just now; what every element has is all that it has beside its
        // own.
        Some(node) if node == own && !element.is_empty() => {
            let own = rules.own.iter().map(|(own, _)| *own);
            ["name", "class", "config", "ports"].into_iter().chain(own).map(Handler::read).collect()
        }
        _ => cx.handlers(&element).map_err(|error| (UNSPECIFIED, error.to_string()))?,
    };
    let found = known.into_iter().find(named);
    let path = if element.is_empty() { handler.to_owned() } else { format!("{element}.{handler}") };
    found.map(|found| (path, found)).ok_or_else(|| (NO_HANDLER, format!("No handler named '{name}'")))
}

fn read(name: &str, argument: &str, answer: &mut Answer<'_>, rules: &Rules, cx: &mut Context<'_>) {
    let path = match find(name, rules, cx) {
        Err((code, message)) => return answer.line(code, &message),
        Ok((_, handler)) if !handler.reads => {
            return answer.line(PERMISSION, &format!("Handler '{name}' write-only"));
        }
        Ok((path, _)) => path,
    };
    let own =
        rules.own.as_ref().filter(|(own, _)| path.strip_suffix(own) == Some(&format!("{}.", cx.name())));
    let value = own.map_or_else(|| cx.read_handler(&path, argument), |(_, value)| Ok(value.clone()));
    match value {
        Ok(value) => {
            answer.line(OK, &format!("Read handler '{name}' OK"));
            answer.data(value.as_bytes());
        }
        Err(error) => answer.error(UNSPECIFIED, &format!("Read handler '{name}' error"), &error),
    }
}

fn write(name: &str, value: &str, answer: &mut Answer<'_>, rules: &Rules, cx: &mut Context<'_>) {
    let path = match find(name, rules, cx) {
        Err((code, message)) => return answer.line(code, &message),
        Ok((_, handler)) if !handler.writes => {
            return answer.line(PERMISSION, &format!("Handler '{name}' read-only"));
        }
        Ok(_) if rules.read_only => {
            return answer.line(PERMISSION, &format!("Permission denied for '{name}'"));
        }
        Ok((path, _)) => path,
    };
    match cx.write_handler(&path, value) {
        Ok(()) => answer.line(OK, &format!("Write handler '{name}' OK")),
        Err(error) => answer.error(HANDLER_ERROR, &format!("Write handler '{name}' error"), &error),
    }
}

fn check(name: &str, write: bool, answer: &mut Answer<'_>, rules: &Rules, cx: &mut Context<'_>) {
    match find(name, rules, cx) {
        Err((code, message)) => answer.line(code, &message),
        Ok((_, handler)) if !(if write { handler.writes } else { handler.reads }) => {
            let what = if write { "writable" } else { "readable" };
            answer.line(NO_HANDLER, &format!("Handler '{name}' not {what}"));
        }
        Ok(_) if write && rules.read_only => {
            answer.line(PERMISSION, &format!("Permission denied for '{name}'"));
        }
        Ok(_) => answer.line(OK, &format!("{} handler '{name}' OK", if write { "Write" } else { "Read" })),
    }
}

/// Answers on their way out.
struct Answer<'a>(&'a mut Vec<u8>);

impl Answer<'_> {
    fn line(&mut self, code: u32, message: &str) {
        self.lines(code, [message].into_iter());
    }

    /// All but the last say that more follow.
    fn lines<'m>(&mut self, code: u32, messages: impl Iterator<Item = &'m str>) {
        let mut messages = messages.peekable();
        while let Some(message) = messages.next() {
            let mark = if messages.peek().is_some() { '-' } else { ' ' };
            let printable = |sign: char| if sign.is_control() { '?' } else { sign };
            let message: String = message.chars().map(printable).collect();
            self.0.extend_from_slice(format!("{code}{mark}{message}\r\n").as_bytes());
        }
    }

    fn error(&mut self, code: u32, what: &str, error: &HandlerError) {
        let error = error.to_string();
        if error.is_empty() {
            return self.line(code, what);
        }
        let what = format!("{what}:");
        self.lines(code, [what.as_str()].into_iter().chain(error.lines()));
    }

    fn data(&mut self, data: &[u8]) {
        self.0.extend_from_slice(format!("DATA {}\r\n", data.len()).as_bytes());
        self.0.extend_from_slice(data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn requests_are_whole_lines_and_data() {
        assert_eq!(parse(b"read a.b", false), None);
        assert_eq!(parse(b"read a.b", true), Some((Request::Read(text("a.b"), text("")), 8)));
        assert_eq!(
            parse(b"READ a.b  c  d \r\nx", false),
            Some((Request::Read(text("a.b"), text("c  d")), 17))
        );
        assert_eq!(parse(b"\r\nx", false), Some((Request::Nothing, 2)));
        assert_eq!(parse(b"writedata a 3\nab", false), None);
        assert_eq!(parse(b"writedata a 3\nabcd", false), Some((Request::Write(text("a"), text("abc")), 17)));
        assert_eq!(
            parse(b"writedata a 3\nab", true),
            Some((Request::Wrong(SYNTAX, text("Not enough data")), 16))
        );
        assert_eq!(
            parse(b"readuntil a END\nx\nEND \ny", false),
            Some((Request::Read(text("a"), text("x\n")), 23))
        );
        assert_eq!(parse(b"readuntil a END\nx\nEN", false), None);
        assert_eq!(parse(b"checkwrite a\n", false), Some((Request::Check(text("a"), true), 13)));
        assert_eq!(parse(b"quit now\n", false), Some((Request::Quit { extra: true }, 9)));
        assert_eq!(
            parse(b"read\n", false),
            Some((Request::Wrong(SYNTAX, text("Wrong number of arguments")), 5))
        );
        assert_eq!(
            parse(b"sing\n", false).unwrap().0,
            Request::Wrong(501, text("Command 'SING' unimplemented"))
        );
    }

    #[test]
    fn answers_say_whether_more_follows() {
        let mut out = Vec::new();
        let mut answer = Answer(&mut out);
        answer.error(520, "Write handler 'a' error", &HandlerError::refused("one\ntwo"));
        answer.data(b"xy");
        let said = String::from_utf8(out).unwrap();
        assert_eq!(said, "520-Write handler 'a' error:\r\n520-one\r\n520 two\r\nDATA 2\r\nxy");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_wait(input in proptest::collection::vec(any::<u8>(), 0..40), ended: bool) {
            if let Some((_, used)) = parse(&input, ended) {
                prop_assert!(used <= input.len() && (used > 0 || input.is_empty()));
            }
        }

        #[test]
        fn any_line_is_a_request(input in "(READ|WRITE|LLRPC)(DATA|UNTIL)? a [0-9]{0,2}\n[ab\r\n]{0,12}", ended: bool) {
            let parsed = parse(input.as_bytes(), ended);
            prop_assert!(parsed.is_none_or(|(_, used)| used <= input.len()));
        }
    }
}
