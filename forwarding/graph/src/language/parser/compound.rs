//! What nests: compounds and groups.

use super::{Around, Parser};
use crate::language::lexer::{Kind, Token};
use crate::language::report::Span;
use crate::language::tree::*;

impl Parser<'_, '_> {
    /// `{ ... || ... }`, the brace of which was just read.
    pub(super) fn compound(&mut self, open: Token) -> Compound {
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
    pub(super) fn group(&mut self, open: Token) -> Group {
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
}
