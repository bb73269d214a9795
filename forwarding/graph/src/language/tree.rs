//! A configuration as it is written: what was read, where it stands, with its comments.
//!
//! The tree owns its words, so that it outlives the texts it came from. Compounds and groups nest
//! at most [`MAX_NESTING`] deep: every walk over the tree may recurse.

use super::report::Span;

/// How deep compounds `{...}` and groups `(...)` may stand inside each other, and how deep
/// compounds may expand into compounds.
pub const MAX_NESTING: usize = 100;

/// The largest port number that can be written.
pub const MAX_PORT: u32 = 65_535;

/// A whole text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    /// What it says.
    pub statements: Vec<Statement>,
    /// Every comment outside of configuration strings, in order of place.
    pub comments: Vec<Comment>,
}

/// A comment with its signs: `// ...` or `/* ... */`.
#[derive(Clone, Debug, PartialEq)]
pub struct Comment {
    /// Where it stands.
    pub at: Span,
    /// The comment, without the newline that ends it.
    pub text: String,
    /// Whether nothing stands before it on its line.
    pub own_line: bool,
    /// Whether an empty line stands before it.
    pub blank_before: bool,
}

/// A word of the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// The word; a variable's is without its `$`.
    pub text: String,
    /// Where it stands.
    pub at: Span,
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Where it stands.
    pub at: Span,
    /// Whether an empty line stands before it.
    pub blank_before: bool,
    /// What it says.
    pub what: Saying,
}

/// What a statement says.
#[derive(Clone, Debug, PartialEq)]
pub enum Saying {
    /// Declarations and connections: `a, b :: Queue`, `a -> Counter -> [1] b`.
    Chain(Vec<Link>),
    /// `elementclass Name { ... }` or `elementclass Name Other`.
    ElementClass(Word, Class),
    /// `require(package "x", library "lib.click")`
    Require(Configuration, Vec<Requirement>),
    /// `define($a 1, $b 2)`
    Define(Configuration, Vec<Definition>),
}

/// One set of elements in a chain, and the arrow that leads to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The arrow before it; `None` for the first.
    pub arrow: Option<Arrow>,
    /// The elements between commas, at least one.
    pub items: Vec<Item>,
}

/// `->` or `=>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Where it stands.
    pub at: Span,
    /// Whether it is `=>`, which connects many ports to many.
    pub many: bool,
}

/// An element in a chain, with the ports on both of its sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// From the first to the last sign of it.
    pub at: Span,
    /// The ports written before it.
    pub inputs: Option<Ports>,
    /// The element, or the class of an anonymous one.
    pub subject: Subject,
    /// What stands behind `::`.
    pub class: Option<Class>,
    /// What stands in its parentheses.
    pub configuration: Option<Configuration>,
    /// The ports written behind it.
    pub outputs: Option<Ports>,
}

/// What an [`Item`] is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// An element's name, or a class's.
    Name(Word),
    /// `{ ... }`: an element of a class without a name.
    Compound(Compound),
    /// `( ... )`: elements of the surrounding scope behind inputs and outputs of their own.
    Group(Group),
    /// Nothing: `-> x` at the beginning of a chain inside a compound or group means its input.
    /// Where it would stand.
    ImpliedInput(Span),
    /// Nothing: `x ->` at the end of a chain means the output.
    ImpliedOutput(Span),
}

impl Item {
    /// Where the element would stand that was left out, because the scope's input or output is
    /// meant.
    pub fn implied(&self) -> Option<Span> {
        match self.subject {
            Subject::ImpliedInput(at) | Subject::ImpliedOutput(at) => Some(at),
            _ => None,
        }
    }
}

/// Ports in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// From `[` to `]`.
    pub at: Span,
    /// The numbers, in order.
    pub numbers: Vec<u32>,
    /// Whether they go on as far as needed: `[2,]`, `[]`.
    pub open: bool,
}

/// A class, named or written out.
#[derive(Clone, Debug, PartialEq)]
pub enum Class {
    /// By its name.
    Named(Word),
    /// `{ ... }`
    Compound(Compound),
    /// It is missing, and the mistake is in the report.
    Missing(Span),
}

/// `{ ... || ... || ... }`
#[derive(Clone, Debug, PartialEq)]
pub struct Compound {
    /// From `{` to `}`.
    pub at: Span,
    /// The alternatives, told apart by their parameters and ports. At least one, unless the text
    /// was wrong.
    pub parts: Vec<Part>,
    /// The `...` at the end: what matches no part is of the class that had this name before.
    pub extends: Option<Span>,
}

/// One alternative of a compound.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The `{` or `||` before it.
    pub open: Span,
    /// From its first sign to its last.
    pub at: Span,
    /// `$a, KEYWORD $b, __REST__ $c |`
    pub parameters: Vec<Parameter>,
    /// What is in it.
    pub statements: Vec<Statement>,
}

/// A compound's parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The keyword it is given by; `None` for one given by its place.
    pub keyword: Option<Word>,
    /// The variable's name.
    pub variable: Word,
}

/// `( ... )`
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// From `(` to `)`.
    pub at: Span,
    /// What is in it.
    pub statements: Vec<Statement>,
}

/// The text between an element's parentheses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The text, without the line directives in it.
    pub text: String,
    /// Where it stands, without the parentheses.
    pub at: Span,
    /// Whether `text` is exactly what stands there.
    pub verbatim: bool,
}

/// One part of a `require` statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    /// `package`, `library`, `compact_config`.
    pub kind: String,
    /// What is required; empty where the kind says it all.
    pub value: String,
    /// Where it stands.
    pub at: Span,
    /// What a library says, once it was read.
    pub library: Option<Box<Tree>>,
}

/// One part of a `define` statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The variable's name, without its `$`.
    pub name: String,
    /// Its value, in which other variables may stand.
    pub value: String,
    /// Where it stands.
    pub at: Span,
}
