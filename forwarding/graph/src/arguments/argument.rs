//! What an argument may be, and the texts among them.

use super::{Names, Scope};
use crate::language::{first_word, unquote};

/// A type that an argument is read as.
pub trait Argument: Sized {
    /// Reads one argument as the user wrote it, quotes and all. The error says what is wrong with
    /// it, in Click's words, without saying which argument it is.
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Self, String>;
}

/// Reads a text that is in no configuration, such as what is written to a handler: space around it
/// doesn't matter, and names that a configuration defines are not known.
///
/// # Errors
/// What is wrong with it, in Click's words.
pub fn read<T: Argument>(text: &str) -> Result<T, String> {
    T::parse(
        text.trim_matches(|character| matches!(character, ' ' | '\t'..='\r')),
        &Scope::new(&Names::new(), ""),
    )
}

/// Click's words for a text that is none of what is asked for.
pub fn parse_error() -> String {
    "parse error".to_owned()
}

/// `1`, `true`, `yes`, `t`, `y`, or `0`, `false`, `no`, `f`, `n`.
impl Argument for bool {
    fn parse(text: &str, _: &Scope<'_>) -> Result<bool, String> {
        match text {
            "1" | "true" | "yes" | "t" | "y" => Ok(true),
            "0" | "false" | "no" | "f" | "n" => Ok(false),
            _ => Err(parse_error()),
        }
    }
}

/// Any bytes: one text without spaces outside its quotes; quotes come off and `\<48 65>` becomes
/// bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Argument for Bytes {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Bytes, String> {
        if first_word(text) == Some((text, "")) { Ok(Bytes(unquote(text))) } else { Err(parse_error()) }
    }
}

/// As [`Bytes`], and text.
impl Argument for String {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<String, String> {
        String::from_utf8(Bytes::parse(text, scope)?.0).map_err(|_| "not UTF-8 text".to_owned())
    }
}

/// A text as the user wrote it, whatever it is, with its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw(pub String);

impl Argument for Raw {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Raw, String> {
        Ok(Raw(text.to_owned()))
    }
}

/// A text without spaces, quotes, backslashes, commas and what can't be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(pub String);

impl Argument for Word {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Word, String> {
        let word = String::parse(text, scope)?;
        let allowed = |byte: u8| byte.is_ascii_graphic() && !b"\"'\\,".contains(&byte);
        if !word.is_empty() && word.bytes().all(allowed) { Ok(Word(word)) } else { Err(parse_error()) }
    }
}

/// Letters, digits and `_.:?!`, without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyword(pub String);

impl Argument for Keyword {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Keyword, String> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:?!".contains(&byte);
        if !text.is_empty() && text.bytes().all(allowed) {
            Ok(Keyword(text.to_owned()))
        } else {
            Err(parse_error())
        }
    }
}

/// A file's path; `~` is the user's home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filename(pub String);

impl Argument for Filename {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Filename, String> {
        let mut path = String::parse(text, scope)?;
        if path.is_empty() {
            return Err(parse_error());
        }
        if let Some(rest) = path.strip_prefix('~') {
            let home = std::env::var("HOME").ok().filter(|_| rest.is_empty() || rest.starts_with('/'));
            path = home.map_or(path.clone(), |home| home + rest);
        }
        while path.contains("//") {
            path = path.replace("//", "/");
        }
        Ok(Filename(path))
    }
}

/// The name of an element as it is said in some element's place; [`Scope::places`] says what it may
/// be called there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementName(pub String);

impl Argument for ElementName {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<ElementName, String> {
        let name = String::parse(text, scope).map_err(|_| "bad name format".to_owned())?;
        if name.is_empty() { Err("bad name format".to_owned()) } else { Ok(ElementName(name)) }
    }
}

/// A handler: `element.handler`, or one of the whole router: `handler`, `.handler`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerName {
    /// The element as it is called in the place; `None`: the router itself.
    pub element: Option<ElementName>,
    /// The handler's name, never empty.
    pub handler: String,
}

impl Argument for HandlerName {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<HandlerName, String> {
        let name = String::parse(text, scope)?;
        let (element, handler) = name.split_once('.').unwrap_or(("", &name));
        if handler.is_empty() {
            return Err("bad handler name".to_owned());
        }
        let element = (!element.is_empty()).then(|| ElementName(element.to_owned()));
        Ok(HandlerName { element, handler: handler.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::unparse::quoted;
    use proptest::prelude::*;

    #[test]
    fn booleans() {
        assert_eq!(read("true"), Ok(true));
        assert_eq!(read(" true\n"), Ok(true));
        assert_eq!(read("n"), Ok(false));
        assert_eq!(read::<bool>("TRUE"), Err("parse error".to_owned()));
    }

    #[test]
    fn texts_come_without_quotes() {
        assert_eq!(read(r#"a"b c"'d'"#), Ok("ab cd".to_owned()));
        assert_eq!(read::<String>("a b"), Err(parse_error()));
        assert_eq!(read(r"\<00 ff>"), Ok(Bytes(vec![0, 255])));
        assert_eq!(read::<String>(r"\<ff>"), Err("not UTF-8 text".to_owned()));
        assert_eq!(read(r#""word""#), Ok(Word("word".to_owned())));
        assert!(read::<Word>(r#""two words""#).is_err());
        assert_eq!(read("A.b:1?"), Ok(Keyword("A.b:1?".to_owned())));
        assert!(read::<Keyword>("a-b").is_err());
        assert_eq!(read("'/tmp//a///b'"), Ok(Filename("/tmp/a/b".to_owned())));
    }

    #[test]
    fn handlers_are_of_elements_or_of_the_router() {
        let name = |element: &str, handler: &str| HandlerName {
            element: (!element.is_empty()).then(|| ElementName(element.to_owned())),
            handler: handler.to_owned(),
        };
        assert_eq!(read("a/c.count"), Ok(name("a/c", "count")));
        assert_eq!(read("stop"), Ok(name("", "stop")));
        assert_eq!(read(".stop"), Ok(name("", "stop")));
        assert!(read::<HandlerName>("c.").is_err());
    }

    proptest! {
        #[test]
        fn quoted_texts_are_read_back(text in ".*") {
            prop_assert_eq!(read::<String>(&quoted(&text)), Ok(text));
        }

        #[test]
        fn any_text_is_read_or_refused(text in r#"[a-c "'\\<>.~/0-9ä]{0,20}"#) {
            let _ = (read::<bool>(&text), read::<String>(&text), read::<Word>(&text), read::<Keyword>(&text));
            let _ = (read::<Filename>(&text), read::<HandlerName>(&text), read::<ElementName>(&text));
        }
    }
}
