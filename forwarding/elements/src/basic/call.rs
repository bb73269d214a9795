//! Handlers that an element writes by itself when something has happened: `COUNT_CALL`, `END_CALL`.

use graph::arguments::{Argument, HandlerName, Scope};
use graph::{Context, Element, HandlerError};

/// A handler and what to write to it: `stop`, `queue.reset`, `switch.switch 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    name: HandlerName,
    value: String,
}

impl Argument for Call {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Call, String> {
        let text = text.trim();
        let (name, value) = text.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((text, ""));
        Ok(Call { name: HandlerName::parse(name, scope)?, value: value.trim_start().to_owned() })
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let space = if self.value.is_empty() { "" } else { " " };
        write!(f, "{}{space}{}", self.path(), self.value)
    }
}

impl Call {
    /// The handler `stop` of the whole graph.
    pub fn stop() -> Call {
        Call { name: HandlerName { element: None, handler: "stop".to_owned() }, value: String::new() }
    }

    fn path(&self) -> String {
        match &self.name.element {
            Some(element) => format!("{}.{}", element.0, self.name.handler),
            None => self.name.handler.clone(),
        }
    }

    /// Whether the handler is one of the element that calls.
    fn is_own(&self, cx: &Context<'_>) -> bool {
        self.name.element.as_ref().is_some_and(|element| cx.find(&element.0) == Some(cx.id()))
    }

    /// Whether the handler exists and can be written; for [`Element::initialize`]. `own` is the
    /// element that calls.
    pub fn check(&self, own: &dyn Element, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let handlers = if self.is_own(cx) {
            own.handlers()
        } else {
            cx.handlers(self.name.element.as_ref().map_or("", |element| &element.0))?
        };
        let handler = &self.name.handler;
        match handlers.iter().find(|found| found.name == *handler) {
            Some(found) if found.writes => Ok(()),
            Some(_) => Err(HandlerError::ReadOnly(handler.clone())),
            // Every element has these while it has a task.
            None if ["scheduled", "tickets"].contains(&handler.as_str()) => Ok(()),
            None => Err(HandlerError::unknown(handler)),
        }
    }

    /// Writes the handler. What goes wrong nobody is told, as nobody asked.
    pub fn write(&self, own: &mut dyn Element, cx: &mut Context<'_>) {
        let _ = if self.is_own(cx) {
            own.write(&self.name.handler, &self.value, cx)
        } else {
            cx.write_handler(&self.path(), &self.value)
        };
    }
}

/// A call that is made once, when a count is reached: `1000 stop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountCall {
    pub count: u64,
    pub call: Call,
}

impl Argument for CountCall {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<CountCall, String> {
        let text = text.trim();
        let (count, call) = text.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((text, ""));
        Ok(CountCall { count: u64::parse(count, scope)?, call: Call::parse(call, scope)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::arguments::read;

    #[test]
    fn calls_have_a_handler_and_a_value() {
        for text in ["stop", "q.reset", "a/b.switch 1", "s.data  two words"] {
            assert_eq!(read::<Call>(text).unwrap().to_string(), text.replace("  ", " "));
        }
        assert_eq!(read::<CountCall>("0x10 c.reset").unwrap().count, 16);
        assert!(read::<CountCall>("c.reset").is_err() && read::<CountCall>("5").is_err());
        assert!(read::<Call>("").is_err() && read::<Call>("q.").is_err());
    }
}
