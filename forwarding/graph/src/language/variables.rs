//! Variables: `$x`, `${x}`, `${x-default}`, `${x[2]}`.
//!
//! A variable is looked up where it is used, then in the scopes around it, as they stand in the
//! text. Its value may name variables again. Nothing is replaced in single quotes, in comments, or
//! where no variable of that name is in sight; in double quotes the value's own quotes are escaped,
//! so that the string stays one.

use std::cell::Cell;
use std::collections::HashMap;

use super::lexer::is_space;
use super::quoting::{begins_comment, escape_into, first_word, skip_space_and_comments};

/// How deep the values of variables may name variables.
const MAX_DEPTH: usize = 10;

/// What looking up a variable takes from the budget, besides the bytes it gives.
const REFERENCE_COST: usize = 32;

/// The variables of one scope, and those around it.
pub(super) struct Environment<'a> {
    pub values: HashMap<String, String>,
    /// How many scopes are around this one in the text.
    pub depth: usize,
    pub around: Option<&'a Environment<'a>>,
}

/// How much substitution is still allowed, in bytes of result and steps of work. Values that double
/// themselves run into it.
pub(super) struct Budget(Cell<usize>);

impl Budget {
    pub fn new(bytes: usize) -> Budget {
        Budget(Cell::new(bytes))
    }

    /// Takes from what is left.
    pub fn spend(&self, amount: usize) {
        self.0.set(self.0.get().saturating_sub(amount));
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

impl<'a> Environment<'a> {
    /// The nearest scope, from this one outwards, that has fewer than `depth` scopes around it.
    pub fn outside(&'a self, depth: usize) -> Option<&'a Environment<'a>> {
        let mut scope = Some(self);
        while let Some(environment) = scope.filter(|environment| environment.depth >= depth) {
            scope = environment.around;
        }
        scope
    }

    fn value(&self, name: &str) -> Option<&str> {
        let mut scope = Some(self);
        while let Some(environment) = scope {
            if let Some(value) = environment.values.get(name) {
                return Some(value);
            }
            scope = environment.around;
        }
        None
    }

    /// The text with its variables replaced.
    pub fn substitute(&self, text: &str, budget: &Budget) -> String {
        let out = self.substitute_at(text, 0, budget);
        budget.spend(out.len());
        out
    }

    fn substitute_at(&self, text: &str, depth: usize, budget: &Budget) -> String {
        if depth > MAX_DEPTH || !text.contains('$') {
            return text.to_owned();
        }
        copy(text, |reference, quote, out| {
            budget.spend(REFERENCE_COST);
            match self.resolve(reference, depth, budget) {
                Ok(value) if quote.is_some() => escape_into(value.as_bytes(), out),
                Ok(value) => out.push_str(&value),
                Err(name) => reference.keep(text, &name, out),
            }
            !budget.is_spent()
        })
    }

    /// The value of a reference, or its name where there is none.
    fn resolve(&self, reference: &Reference<'_>, depth: usize, budget: &Budget) -> Result<String, String> {
        let name = if reference.names_variables {
            self.substitute_at(reference.text, depth + 1, budget)
        } else {
            reference.text.to_owned()
        };
        let (variable, index, default) =
            if reference.braces { split_name(&name) } else { (&*name, None, None) };
        let value = match (self.value(variable), default) {
            (Some(value), _) => self.substitute_at(value, depth + 1, budget),
            (None, Some(default)) => return Ok(self.substitute_at(default, depth + 1, budget)),
            (None, None) => return Err(name),
        };
        budget.spend(value.len());
        Ok(match index {
            None => value,
            Some(index) => nth_word(&value, index).to_owned(),
        })
    }
}

/// Replaces the variables of a text, and what stands in `$(...)`, by what `value` says of each: it
/// is given the name, or what stands in the parentheses, with its own variables replaced, and
/// whether it is in parentheses. What it does not know stays. With `quoting`, values outside of
/// quotes are put into quotes, so that [`unquote`](super::unquote) gives them back as they were.
pub fn replace_variables(
    text: &str,
    quoting: bool,
    value: &mut dyn FnMut(&str, bool) -> Option<String>,
) -> String {
    replace_at(text, quoting, 0, value)
}

fn replace_at(
    text: &str,
    quoting: bool,
    depth: usize,
    value: &mut dyn FnMut(&str, bool) -> Option<String>,
) -> String {
    if depth > MAX_DEPTH || !text.contains('$') {
        return text.to_owned();
    }
    copy(text, |reference, quote, out| {
        let name = match reference.names_variables {
            true => replace_at(reference.text, false, depth + 1, value),
            false => reference.text.to_owned(),
        };
        match value(&name, reference.parentheses) {
            Some(value) if quote.is_some() => escape_into(value.as_bytes(), out),
            Some(value) if quoting => out.push_str(&super::quote(&value)),
            Some(value) => out.push_str(&value),
            None => reference.keep(text, &name, out),
        }
        true
    })
}

/// Copies a text; in the place of each reference, `write` writes something else, and says whether
/// to look for more.
fn copy(text: &str, mut write: impl FnMut(&Reference<'_>, Option<u8>, &mut String) -> bool) -> String {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut copied = 0;
    let mut quote = None;
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], quote) {
            (b'\\', Some(b'"')) => at += 1,
            (sign @ (b'"' | b'\''), None) => quote = Some(sign),
            (sign, Some(open)) if sign == open => quote = None,
            (b'/', None) if begins_comment(bytes, at) => {
                at = skip_space_and_comments(bytes, at);
                continue;
            }
            (b'$', None | Some(b'"')) => {
                let Some(reference) = Reference::read(text, at) else {
                    at += 1;
                    continue;
                };
                if reference.unclosed {
                    break;
                }
                out.push_str(&text[copied..at]);
                let more = write(&reference, quote, &mut out);
                at = reference.end;
                copied = at;
                if !more {
                    break;
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    out.push_str(&text[copied..]);
    out
}

/// A `$` and what belongs to it.
struct Reference<'t> {
    /// The name, or what stands in braces or parentheses.
    text: &'t str,
    dollar: usize,
    name: std::ops::Range<usize>,
    end: usize,
    braces: bool,
    parentheses: bool,
    /// Whether the name has a `$` of its own.
    names_variables: bool,
    /// Whether the brace or parenthesis is missing.
    unclosed: bool,
}

impl<'t> Reference<'t> {
    /// Writes it as it stands in the text: it names no variable, though variables in the name
    /// itself were replaced.
    fn keep(&self, text: &str, name: &str, out: &mut String) {
        out.push_str(&text[self.dollar..self.name.start]);
        out.push_str(name);
        out.push_str(&text[self.name.end..self.end]);
    }

    fn read(text: &'t str, dollar: usize) -> Option<Reference<'t>> {
        let bytes = text.as_bytes();
        let start = dollar + 1;
        let reference = |name: std::ops::Range<usize>, end| Reference {
            text: text.get(name.clone()).unwrap_or(""),
            dollar,
            name,
            end,
            braces: false,
            parentheses: false,
            names_variables: false,
            unclosed: false,
        };
        match *bytes.get(start)? {
            b'{' => {
                let inside = &bytes[start + 1..];
                let length = inside.iter().position(|&byte| byte == b'}');
                let name = start + 1..start + 1 + length.unwrap_or(inside.len());
                let names_variables = bytes[name.clone()].contains(&b'$');
                let end = name.end + 1;
                Some(Reference {
                    braces: true,
                    names_variables,
                    unclosed: length.is_none(),
                    ..reference(name, end)
                })
            }
            b'(' => {
                let (end, closed, names_variables) = skip_parentheses(bytes, start + 1);
                let name = start + 1..end.saturating_sub(1).max(start + 1);
                Some(Reference {
                    parentheses: true,
                    names_variables,
                    unclosed: !closed,
                    ..reference(name, end)
                })
            }
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                let word =
                    bytes[start..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_');
                let end = start + word.count();
                Some(reference(start..end, end))
            }
            b'?' | b'#' | b'$' => Some(reference(start..start + 1, start + 1)),
            _ => None,
        }
    }
}

/// The end of what stands in parentheses, whether they close, and whether a `$` stands in it.
fn skip_parentheses(bytes: &[u8], from: usize) -> (usize, bool, bool) {
    let (mut level, mut quote, mut dollar) = (1, None, false);
    let mut at = from;
    while at < bytes.len() {
        match (bytes[at], quote) {
            (b'(', None) => level += 1,
            (b')', None) => {
                level -= 1;
                if level == 0 {
                    return (at + 1, true, dollar);
                }
            }
            (sign @ (b'"' | b'\''), None) => quote = Some(sign),
            (sign, Some(open)) if sign == open => quote = None,
            (b'\\', None | Some(b'"')) => at += 1,
            (b'$', None | Some(b'"')) => dollar = true,
            _ => {}
        }
        at += 1;
    }
    (bytes.len(), false, dollar)
}

/// `name`, `name[2]`, `name-default`, `name[2]-default`
fn split_name(name: &str) -> (&str, Option<usize>, Option<&str>) {
    let trimmed = name.trim_start_matches(|sign: char| sign.is_ascii() && is_space(sign as u8));
    let length = trimmed.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let (variable, mut rest) = trimmed.split_at(length);
    rest = rest.trim_start();
    let mut index = None;
    if let Some((number, after)) = rest.strip_prefix('[').and_then(|inside| inside.split_once(']'))
        && let Ok(number) = number.trim_start().parse::<usize>()
    {
        index = Some(number);
        rest = after.trim_start();
    }
    (variable, index, rest.strip_prefix('-'))
}

fn nth_word(text: &str, index: usize) -> &str {
    let mut rest = text;
    let mut passed = 0;
    while let Some((word, after)) = first_word(rest) {
        if passed == index {
            return word;
        }
        passed += 1;
        rest = after;
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope<'a>(values: &[(&str, &str)], around: Option<&'a Environment<'a>>) -> Environment<'a> {
        let values = values.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Environment { values, depth: around.map_or(0, |around| around.depth + 1), around }
    }

    fn replaced(values: &[(&str, &str)], text: &str) -> String {
        scope(values, None).substitute(text, &Budget::new(1 << 20))
    }

    #[test]
    fn quotes_decide_how_a_value_is_put_in() {
        let values = [("a", "x \"y\" $b"), ("b", "z")];
        assert_eq!(replaced(&values, "$a \"$a\" '$a' ${a}s $as"), r#"x "y" z "x \"y\" z" '$a' x "y" zs $as"#);
        assert_eq!(replaced(&values, r#""\$b $b" \$b"#), r#""\$b z" \z"#);
        assert_eq!(replaced(&values, "$b // $b\n$b /* $b */ $b '// $b"), "z // $b\nz /* $b */ z '// $b");
    }

    #[test]
    fn a_name_may_have_an_index_or_a_default() {
        let values = [("a", "p 'q r' s"), ("n", "1")];
        assert_eq!(replaced(&values, "${a[0]} ${ a [ 1] } ${a[$n]} ${a[7]}|"), "p 'q r' 'q r' |");
        assert_eq!(replaced(&values, "${b-none} ${b-$n} ${b[0]-x} ${a[2]-x} ${b-}|"), "none 1 x s |");
    }

    #[test]
    fn what_names_nothing_stays() {
        let text = "$b ${b} ${} $ $, $$ $# $? $(a b) ${b";
        assert_eq!(replaced(&[("a", "1")], text), text);
        assert_eq!(replaced(&[("a", "1")], "$(f $a) ${x$a}"), "$(f 1) ${x1}");
    }

    #[test]
    fn inner_scopes_come_first_and_outer_ones_do_not_see_them() {
        let outer = scope(&[("a", "outer"), ("b", "$a")], None);
        let inner = scope(&[("a", "inner")], Some(&outer));
        let budget = Budget::new(1000);
        assert_eq!(inner.substitute("$a $b", &budget), "inner inner");
        assert_eq!(inner.outside(1).map(|scope| scope.substitute("$a", &budget)), Some("outer".to_owned()));
        assert!(outer.outside(0).is_none());
    }

    #[test]
    fn values_that_name_themselves_end() {
        assert_eq!(replaced(&[("a", "$a")], "$a"), "$a");
        let budget = Budget::new(10_000);
        let doubling = scope(&[("a", "$a$a$a$a$a$a$a$a")], None);
        assert!(doubling.substitute("$a", &budget).len() < 100_000);
        assert!(budget.is_spent());
    }
}
