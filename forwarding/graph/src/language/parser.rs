//! From text to [`Tree`].
//!
//! By recursive descent, at most [`MAX_NESTING`] deep: what stands deeper is skipped with one
//! message. After a mistake the parser goes on with the next statement, so that one reading finds
//! them all. It knows nothing of classes; that `Queue -> x` makes a queue while `x` has to be there
//! already is found out when the tree is expanded.

mod chain;
mod compound;

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

/// After how many configurations without an end the rest of the text is taken for one: each was
/// searched for its end through all that follows.
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

    /// Whether a token ends the text, or the compound or group the parser is in. What closes an
    /// outer compound ends the groups in it as well: whoever opened them reports that they are not
    /// closed.
    fn ends_scope(&self, token: Token) -> bool {
        match token.kind {
            Kind::End => true,
            Kind::Sign('}') | Kind::DoubleBar => self.around.contains(&Around::Compound),
            Kind::Sign(')') => self.around.last() == Some(&Around::Group),
            _ => false,
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

/// Where an argument stands in the text, as far as the configuration's text is what stands there.
fn piece_span(configuration: &Configuration, range: std::ops::Range<usize>) -> Span {
    let at = configuration.at;
    if !configuration.verbatim {
        return at;
    }
    Span { start: at.start + range.start as u32, end: at.start + range.end as u32, ..at }
}
