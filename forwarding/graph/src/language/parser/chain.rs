//! Chains: elements with their ports, and the arrows between them.

use super::Parser;
use crate::language::lexer::{Kind, Token};
use crate::language::report::Span;
use crate::language::tree::*;

impl Parser<'_, '_> {
    /// `a, b :: Class(x) [1] -> c => ...`
    pub(super) fn chain(&mut self) -> Option<Saying> {
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

    /// The token that follows a set of elements: an arrow, or one that ends the chain. What begins
    /// a statement or closes a scope stays to be read.
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

    /// `[0] name :: Class(configuration) [1]`. None where there is no element; that is fine or was
    /// reported, and ends the chain.
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
                // What stands before an arrow at the beginning are the outputs of the scope's
                // input.
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

    /// Whether the scope's `input` or `output` is meant where no element stands. Only compounds and
    /// groups have them.
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
}

fn is_keyword(kind: Kind) -> bool {
    matches!(kind, Kind::ElementClass | Kind::Require | Kind::Provide | Kind::Define)
}
