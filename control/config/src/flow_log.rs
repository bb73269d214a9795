//! How `[flow_log]` and `[sflow]` are read: by serde, then checked by the flow log itself. What is
//! wrong is shown at the key that it names.

use std::ops::Range;

use flowlog::settings::{Mistakes, Plan, Settings, SflowPlan, SflowSettings};
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::DeValue;

use crate::mistake::{Hint, Page};

/// The flow log's plan, if nothing is wrong with it.
pub fn flow_log(page: &mut Page, value: &Spanned<DeValue>) -> Option<Plan> {
    let plan = checked(page, value, "[flow_log]", Settings::check)?;
    if plan.collectors.is_empty() && plan.files.is_none() {
        let hint = Hint::expected("[flow_log.files], or a [[flow_log.collector]], or both");
        page.wrong(value.span(), "[flow_log] leads nowhere", hint);
    }
    Some(plan)
}

/// sFlow's plan, if nothing is wrong with it.
pub fn sflow(page: &mut Page, value: &Spanned<DeValue>) -> Option<SflowPlan> {
    checked(page, value, "[sflow]", SflowSettings::check)
}

/// What a section comes to.
fn checked<S: DeserializeOwned, P>(
    page: &mut Page,
    value: &Spanned<DeValue>,
    section: &str,
    check: impl Fn(&S) -> Result<P, Mistakes>,
) -> Option<P> {
    let settings = match S::deserialize(toml::de::ValueDeserializer::from(value.clone())) {
        Ok(settings) => settings,
        Err(error) => {
            let at = error.span().unwrap_or(value.span());
            page.wrong(at, format!("{section}: {}", error.message().replace('\n', ", ")), Hint::default());
            return None;
        }
    };
    match check(&settings) {
        Ok(plan) => Some(plan),
        Err(mistakes) => {
            for mistake in mistakes.0 {
                let message = format!("{section} {}: {}", mistake.key, mistake.message);
                page.wrong(place(value, &mistake.key), message, Hint::expected(mistake.expected));
            }
            None
        }
    }
}

/// Where a key such as `collector[1].mtu` stands, or as much of it as there is.
fn place(section: &Spanned<DeValue>, key: &str) -> Range<usize> {
    let mut at = section;
    for part in key.split('.') {
        let (name, number) = match part.split_once('[') {
            Some((name, rest)) => (name, rest.trim_end_matches(']').parse::<usize>().ok()),
            None => (part, None),
        };
        let DeValue::Table(table) = at.get_ref() else { break };
        let Some(found) = table.get(name) else { break };
        at = match (number, found.get_ref()) {
            (Some(number), DeValue::Array(list)) => list.get(number).unwrap_or(found),
            _ => found,
        };
    }
    at.span()
}
