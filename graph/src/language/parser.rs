//! From text to [`Tree`].
//!
//! By recursive descent, at most [`MAX_NESTING`] deep: what stands deeper is skipped with one message. After a mistake
//! the parser goes on with the next statement, so that one reading finds them all. It knows nothing of classes; that
//! `Queue -> x` makes a queue while `x` has to be there already is found out when the tree is expanded.

use super::lexer::{Ending, Kind, Lexer, Token};
use super::quoting::{first_word, split_arguments, split_words, unquote};
use super::report::{Report, Span, Texts};
use super::tree::*;

/// Reads a text. What is wrong goes to the report; the tree has all that could be made sense of.
pub fn parse(texts: &Texts, text: u32, report: &mut Report) -> Tree {
    if texts.text(text).len() >= u32::MAX as usize {
        report.error(None, format!("{}: too long for a configuration", texts.name(text)));
        return Tree::default();
    }
    let mut parser =
        Parser { lexer: Lexer::new(texts, text), report, around: vec![Around::Text], unclosed: 0 };
    let statements = parser.statements();
    let Parser { lexer, report, .. } = parser;
    for at in lexer.bad_directives {
        report.error(Some(at), "unknown preprocessor directive");
    }
    Tree { statements, comments: lexer.comments }
}

/// After how many configurations without an end the rest of the text is taken for one: each was searched for its end
/// through all that follows.
const MAX_UNCLOSED: usize = 20;

/// What the parser is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    Text,
    Compound,
    Group,
}

struct Parser<'t, 'r> {
    lexer: Lexer<'t>,
    report: &'r mut Report,
    around: Vec<Around>,
    /// How many configurations were not closed so far.
    unclosed: usize,
}

impl Parser<'_, '_> {
    fn peek(&mut self) -> Token {
        let token = self.lexer.next();
        self.lexer.back_to(token);
        token
    }

    /// Takes the next token if it is of this kind.
    fn accept(&mut self, kind: Kind) -> Option<Token> {
        let token = self.lexer.next();
        if token.kind == kind {
            return Some(token);
        }
        self.lexer.back_to(token);
        None
    }

    fn word(&self, token: Token) -> Word {
        let text = self.lexer.str(token.at);
        Word { text: text.strip_prefix('$').unwrap_or(text).to_owned(), at: token.at }
    }

    fn error(&mut self, at: Span, message: impl Into<String>) {
        self.report.error(Some(at), message);
    }

    fn syntax_error(&mut self, near: Token) {
        let message = match near.kind {
            Kind::End => "syntax error near end of text".to_owned(),
            _ => format!("syntax error near '{}'", self.lexer.str(near.at)),
        };
        self.error(near.at, message);
    }

    fn nested(&self) -> bool {
        self.around.len() > 1
    }

    /// Statements up to the end of what the parser is in; the token that ends it comes next.
    fn statements(&mut self) -> Vec<Statement> {
        let mut statements = Vec::new();
        loop {
            let token = self.lexer.next();
            let blank_before = self.lexer.blank_before(token.at.start as usize);
            let what = match token.kind {
                Kind::Word | Kind::Arrow | Kind::DoubleArrow | Kind::Sign('[' | '{' | '(') => {
                    self.lexer.back_to(token);
                    self.chain()
                }
                Kind::ElementClass => self.element_class(),
                Kind::Require => self.require(token),
                Kind::Define => self.define(token),
                Kind::Sign(';') => continue,
                _ if self.ends_scope(token) => {
                    self.lexer.back_to(token);
                    return statements;
                }
                Kind::Provide => {
                    self.syntax_error(token);
                    self.accept(Kind::Sign('(')).map(|open| self.configuration(open));
                    None
                }
                _ => {
                    self.syntax_error(token);
                    None
                }
            };
            if let Some(what) = what {
                let end = self.lexer.last_end();
                let at = token.at.to(Span { start: end, end, ..token.at });
                statements.push(Statement { at, blank_before, what });
            }
        }
    }

    /// Whether a token ends the text, or the compound or group the parser is in. What closes an outer compound ends the
    /// groups in it as well: whoever opened them reports that they are not closed.
    fn ends_scope(&self, token: Token) -> bool {
        match token.kind {
            Kind::End => true,
            Kind::Sign('}') | Kind::DoubleBar => self.around.contains(&Around::Compound),
            Kind::Sign(')') => self.around.last() == Some(&Around::Group),
            _ => false,
        }
    }

    /// `a, b :: Class(x) [1] -> c => ...`
    fn chain(&mut self) -> Option<Saying> {
        let mut links: Vec<Link> = Vec::new();
        let mut arrow = None;
        loop {
            let items = self.items(links.is_empty());
            if items.is_empty() {
                break;
            }
            let implied = items.iter().find_map(Item::implied);
            links.push(Link { arrow, items });
            let token = self.after_items();
            arrow = match token.kind {
                Kind::Arrow | Kind::DoubleArrow => {
                    Some(Arrow { at: token.at, many: token.kind == Kind::DoubleArrow })
                }
                _ => break,
            };
            if let Some(at) = implied.filter(|_| links.len() > 1) {
                self.error(at, "implicit ports used in the middle of a chain");
            }
        }
        if links.is_empty() { None } else { Some(Saying::Chain(links)) }
    }

    /// The token that follows a set of elements: an arrow, or one that ends the chain. What begins a statement or
    /// closes a scope stays to be read.
    fn after_items(&mut self) -> Token {
        loop {
            let token = self.lexer.next();
            match token.kind {
                Kind::Sign(',') | Kind::DoubleColon => {
                    self.syntax_error(token);
                    continue;
                }
                Kind::Arrow | Kind::DoubleArrow | Kind::Sign(';') | Kind::End => {}
                Kind::Word
                | Kind::ElementClass
                | Kind::Require
                | Kind::Provide
                | Kind::Define
                | Kind::DoubleBar
                | Kind::Sign('{' | '}' | '[' | ')') => self.lexer.back_to(token),
                Kind::Variable | Kind::Dots | Kind::Sign(_) => self.syntax_error(token),
            }
            return token;
        }
    }

    /// Elements between commas.
    fn items(&mut self, first_in_chain: bool) -> Vec<Item> {
        let mut items = Vec::new();
        while let Some(item) = self.item(first_in_chain, items.is_empty()) {
            items.push(item);
            if self.accept(Kind::Sign(',')).is_none() {
                break;
            }
        }
        items
    }

    /// `[0] name :: Class(configuration) [1]`. None where there is no element; that is fine or was reported, and ends
    /// the chain.
    fn item(&mut self, first_in_chain: bool, first_in_set: bool) -> Option<Item> {
        let inputs = self.ports();
        let token = self.lexer.next();
        let start = inputs.as_ref().map_or(token.at, |ports| ports.at);
        let subject = match token.kind {
            Kind::Word => Subject::Name(self.word(token)),
            Kind::Sign('{') => Subject::Compound(self.compound(token)),
            Kind::Sign('(') => Subject::Group(self.group(token)),
            _ if self.implies_element(token, first_in_chain, first_in_set, inputs.is_some()) => {
                self.lexer.back_to(token);
                let at = inputs.as_ref().map_or(Span { end: token.at.start, ..token.at }, |ports| ports.at);
                // What stands before an arrow at the beginning are the outputs of the scope's input.
                let (subject, inputs, outputs) = if first_in_chain {
                    (Subject::ImpliedInput(at), None, inputs)
                } else {
                    (Subject::ImpliedOutput(at), inputs, None)
                };
                return Some(Item { at, inputs, subject, class: None, configuration: None, outputs });
            }
            _ => {
                if let Some(ports) = &inputs {
                    self.error(ports.at, "stranded port ignored");
                }
                if inputs.is_none() {
                    self.syntax_error(token);
                }
                if self.ends_scope(token) || inputs.is_some() || is_keyword(token.kind) {
                    self.lexer.back_to(token);
                }
                return None;
            }
        };
        let class = self.accept(Kind::DoubleColon).map(|_| self.class_of_declaration());
        let configuration = self.accept(Kind::Sign('(')).map(|open| self.configuration(open));
        let outputs = self.ports();
        let end = self.lexer.last_end();
        let at = start.to(Span { start: end, end, ..start });
        Some(Item { at, inputs, subject, class, configuration, outputs })
    }

    /// Whether the scope's `input` or `output` is meant where no element stands. Only compounds and groups have them.
    fn implies_element(&self, next: Token, first_in_chain: bool, first_in_set: bool, ports: bool) -> bool {
        if !self.nested() {
            return false;
        }
        match next.kind {
            Kind::Arrow | Kind::DoubleArrow => first_in_chain && (ports || first_in_set),
            Kind::Sign(',') => ports,
            Kind::DoubleColon => false,
            _ => !first_in_chain && (ports || first_in_set),
        }
    }

    fn class_of_declaration(&mut self) -> Class {
        let token = self.lexer.next();
        match token.kind {
            Kind::Word => Class::Named(self.word(token)),
            Kind::Sign('{') => Class::Compound(self.compound(token)),
            _ => {
                self.lexer.back_to(token);
                self.error(token.at, "missing element type in declaration");
                Class::Missing(token.at)
            }
        }
    }

    /// `[0, 1]`, `[2,]`, `[]`
    fn ports(&mut self) -> Option<Ports> {
        let open = self.accept(Kind::Sign('['))?;
        let mut ports = Ports { at: open.at, numbers: Vec::new(), open: false };
        loop {
            let token = self.lexer.next();
            ports.at.end = token.at.end;
            match token.kind {
                Kind::Word => {
                    let number = self.port_number(token);
                    ports.numbers.push(number);
                }
                Kind::Sign(']') => {
                    if ports.numbers.is_empty() {
                        ports.numbers.push(0);
                    }
                    ports.open = true;
                    return Some(ports);
                }
                _ => {
                    self.error(token.at, "syntax error: expected port number");
                    self.lexer.back_to(token);
                    ports.at.end = token.at.start;
                    return Some(ports);
                }
            }
            let token = self.lexer.next();
            match token.kind {
                Kind::Sign(']') => {
                    ports.at.end = token.at.end;
                    return Some(ports);
                }
                Kind::Sign(',') => {}
                Kind::Word => {
                    self.error(token.at, "syntax error: expected ','");
                    self.lexer.back_to(token);
                }
                _ => {
                    self.error(token.at, "syntax error: expected ']'");
                    self.lexer.back_to(token);
                    return Some(ports);
                }
            }
        }
    }

    fn port_number(&mut self, token: Token) -> u32 {
        let text = self.lexer.str(token.at);
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16),
            None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8),
            None => text.parse(),
        };
        match number {
            Ok(number) if number <= MAX_PORT.into() => number as u32,
            Ok(_) => {
                self.error(token.at, format!("port number {text} is too large; the largest is {MAX_PORT}"));
                0
            }
            Err(_) => {
                self.error(token.at, "syntax error: port number should be integer");
                0
            }
        }
    }

    /// What stands between an element's parentheses, the first of which was just read.
    fn configuration(&mut self, open: Token) -> Configuration {
        let (mut configuration, ending) = self.lexer.configuration(open);
        match ending {
            Ending::Closed => {
                self.lexer.next();
            }
            Ending::Open(unclosed) => {
                self.unclosed += 1;
                if self.unclosed <= MAX_UNCLOSED {
                    self.lexer.cut_at_line(&mut configuration);
                }
                self.error(open.at, "expected ')'");
                if unclosed != open.at && unclosed.start < configuration.at.end {
                    self.report.note(Some(unclosed), "this quote is not closed");
                }
            }
        }
        configuration
    }

    /// `{ ... || ... }`, the brace of which was just read.
    fn compound(&mut self, open: Token) -> Compound {
        let mut opening = open.at;
        let mut compound = Compound { at: open.at, parts: Vec::new(), extends: None };
        if self.around.len() >= MAX_NESTING {
            self.error(open.at, "maximum compound element nesting depth exceeded");
            compound.at.end = self.skip_nested();
            return compound;
        }
        loop {
            if let Some(dots) = self.accept(Kind::Dots) {
                compound.extends = Some(dots.at);
                if compound.parts.is_empty() || self.peek().kind != Kind::Sign('}') {
                    self.error(dots.at, "'...' should occur last, after one or more compounds");
                }
            }
            if compound.extends.is_none()
                || !matches!(self.peek().kind, Kind::Sign('}') | Kind::DoubleBar | Kind::End)
            {
                let part = self.part(opening);
                compound.parts.push(part);
            }
            let token = self.lexer.next();
            compound.at.end = token.at.end;
            match token.kind {
                Kind::DoubleBar => opening = token.at,
                Kind::Sign('}') => return compound,
                _ => {
                    self.error(token.at, "expected '}'");
                    self.report.note(Some(open.at), "to match this '{'");
                    self.lexer.back_to(token);
                    return compound;
                }
            }
        }
    }

    fn part(&mut self, open: Span) -> Part {
        let start = self.peek().at;
        self.around.push(Around::Compound);
        let parameters = self.parameters();
        let statements = self.statements();
        self.around.pop();
        Part { open, at: start.to(Span { end: self.lexer.last_end(), ..start }), parameters, statements }
    }

    /// `$a, KEYWORD $b, __REST__ $c |`, or nothing.
    fn parameters(&mut self) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        loop {
            let first = self.lexer.next();
            let parameter = match first.kind {
                Kind::Variable => Parameter { keyword: None, variable: self.word(first) },
                Kind::Word if self.peek().kind == Kind::Variable => {
                    let variable = self.lexer.next();
                    Parameter { keyword: Some(self.word(first)), variable: self.word(variable) }
                }
                Kind::Sign('|') => return parameters,
                _ => {
                    if !parameters.is_empty() {
                        self.error(first.at, "expected variable");
                    }
                    self.lexer.back_to(first);
                    return parameters;
                }
            };
            parameters.push(parameter);
            let separator = self.lexer.next();
            match separator.kind {
                Kind::Sign('|') => return parameters,
                Kind::Sign(',') => {}
                _ => {
                    self.error(separator.at, "expected ',' or '|'");
                    self.lexer.back_to(separator);
                    return parameters;
                }
            }
        }
    }

    /// `( ... )`, the parenthesis of which was just read.
    fn group(&mut self, open: Token) -> Group {
        let mut group = Group { at: open.at, statements: Vec::new() };
        if self.around.len() >= MAX_NESTING {
            self.error(open.at, "maximum element group nesting depth exceeded");
            group.at.end = self.skip_nested();
            return group;
        }
        self.around.push(Around::Group);
        group.statements = self.statements();
        self.around.pop();
        let token = self.lexer.next();
        group.at.end = token.at.end;
        if token.kind != Kind::Sign(')') {
            self.error(token.at, "expected ')'");
            self.report.note(Some(open.at), "to match this '('");
            self.lexer.back_to(token);
        }
        group
    }

    /// Skips to behind the sign that closes what was just opened, and says where that is.
    fn skip_nested(&mut self) -> u32 {
        let mut depth = 1usize;
        while depth > 0 {
            let token = self.lexer.next();
            match token.kind {
                Kind::Sign('(' | '{') => depth += 1,
                Kind::Sign(')' | '}') => depth -= 1,
                Kind::End => break,
                _ => {}
            }
        }
        self.lexer.last_end()
    }

    /// `Name { ... }` or `Name Other`, behind `elementclass`.
    fn element_class(&mut self) -> Option<Saying> {
        let token = self.lexer.next();
        let name = match token.kind {
            Kind::Word => self.word(token),
            _ => {
                self.lexer.back_to(token);
                self.error(token.at, "expected element type name");
                Word { text: String::new(), at: token.at }
            }
        };
        let token = self.lexer.next();
        let class = match token.kind {
            Kind::Sign('{') => Class::Compound(self.compound(token)),
            Kind::Word => Class::Named(self.word(token)),
            _ => {
                self.syntax_error(token);
                if !matches!(token.kind, Kind::Sign(';')) {
                    self.lexer.back_to(token);
                }
                Class::Missing(token.at)
            }
        };
        Some(Saying::ElementClass(name, class))
    }

    /// The parentheses behind `require` or `define`.
    fn directive(&mut self, keyword: Token) -> Option<Configuration> {
        let open = self.lexer.next();
        if open.kind == Kind::Sign('(') {
            return Some(self.configuration(open));
        }
        self.lexer.back_to(open);
        self.error(keyword.at, "expected '('");
        None
    }

    fn require(&mut self, keyword: Token) -> Option<Saying> {
        let configuration = self.directive(keyword)?;
        let mut requirements = Vec::new();
        for piece in split_arguments(&configuration.text) {
            let words = split_words(&piece.text);
            let at = piece_span(&configuration, piece.range);
            let text = |word: &str| String::from_utf8_lossy(&unquote(word)).into_owned();
            let (kind, value) = match words[..] {
                [] => continue,
                ["compact_config"] => ("compact_config".to_owned(), String::new()),
                [package] if !matches!(package, "package" | "library") => {
                    ("package".to_owned(), text(package))
                }
                [kind, value] if matches!(text(kind).as_str(), "package" | "library") => {
                    (text(kind), text(value))
                }
                _ => {
                    self.error(at, "syntax error at requirement");
                    continue;
                }
            };
            if kind == "library" && self.nested() {
                self.error(at, "'require library' must be used at file scope");
                continue;
            }
            requirements.push(Requirement { kind, value, at, library: None });
        }
        Some(Saying::Require(configuration, requirements))
    }

    fn define(&mut self, keyword: Token) -> Option<Saying> {
        let configuration = self.directive(keyword)?;
        let mut definitions = Vec::new();
        for piece in split_arguments(&configuration.text) {
            let at = piece_span(&configuration, piece.range);
            let Some((variable, value)) = first_word(&piece.text) else { continue };
            let name = variable.strip_prefix('$').unwrap_or("");
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                self.error(at, "bad 'define' declaration: not a variable");
                continue;
            }
            definitions.push(Definition { name: name.to_owned(), value: value.to_owned(), at });
        }
        Some(Saying::Define(configuration, definitions))
    }
}

fn is_keyword(kind: Kind) -> bool {
    matches!(kind, Kind::ElementClass | Kind::Require | Kind::Provide | Kind::Define)
}

/// Where an argument stands in the text, as far as the configuration's text is what stands there.
fn piece_span(configuration: &Configuration, range: std::ops::Range<usize>) -> Span {
    let at = configuration.at;
    if !configuration.verbatim {
        return at;
    }
    Span { start: at.start + range.start as u32, end: at.start + range.end as u32, ..at }
}
