//! Arguments that are written to a running element.

use graph::arguments::{Arguments, Refused};
use graph::language::Report;
use graph::{Context, HandlerError};

/// Reads `text` as an element's configuration, by `read`, which is what makes the element as well.
pub(crate) fn configuration<T>(
    text: &str,
    cx: &Context<'_>,
    read: impl FnOnce(&mut Arguments<'_>) -> Result<T, Refused>,
) -> Result<T, HandlerError> {
    let mut report = Report::new();
    let result = read(&mut Arguments::new(text, cx.scope(), &mut report));
    result.map_err(|Refused| {
        let reasons: Vec<&str> = report.messages().iter().map(|message| message.message.as_str()).collect();
        HandlerError::refused(reasons.join("\n"))
    })
}

/// The configuration that an element was given.
pub(crate) fn given(cx: &Context<'_>) -> String {
    let node = cx.description().nodes.get(cx.id().0);
    node.map_or(String::new(), |node| node.configuration.clone())
}
