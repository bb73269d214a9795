//! What is there, as a `router.toml`: so that moving from *adopt* to *own* changes nothing.
//!
//! ```text
//!   ip -json ─────────────► linux ───────┐
//!   show running-config ──► routing ─────┤
//!   interfaces(5) ────────► interfaces ──┼──► Draft ──finish──► the file, and what is not in it
//!   netplan's YAML ───────► netplan ─────┤
//!   VyOS's config.boot ───► vyos ────────┘
//! ```
//!
//! Everything here is a function of texts. What a reader cannot turn it tells ([`Left`]); what it
//! turned is judged by the code that reads a `router.toml`, piece by piece, and stays out where
//! that refuses it.

use std::path::Path;

mod draft;
mod interfaces;
pub mod ip;
mod linux;
mod netplan;
mod routing;
mod vyos;
mod write;
mod yaml;

pub use draft::{Draft, Imported, Left};
pub use interfaces::Sourced;
pub use linux::{GIVEN, GIVEN_RULES, Texts};
pub use routing::hidden;

/// Any bytes, as each kind of foreign text: nothing panics, and what comes out is a file that is
/// read, unless the file itself says that it is not.
pub fn fuzz(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (first, rest) = text.split_once('\u{0}').unwrap_or(("", &text));
    let mut draft = Draft::default();
    match first {
        "frr" => draft.frr(rest, Path::new("/run/frr")),
        "linux" => {
            let mut parts = rest.split('\u{0}').map(str::to_owned);
            let mut next = || parts.next().unwrap_or_default();
            let texts = Texts {
                links: next(),
                routes: [next(), next()],
                rules: [next(), next()],
                ..Texts::default()
            };
            let _ = draft.linux(&texts);
        }
        "netplan" => draft.netplan("netplan.yaml", rest),
        "vyos" => draft.vyos("config.boot", rest),
        _ => {
            let mut again = |_: &str, _: bool| Ok(vec![("again".to_owned(), first.to_owned())]);
            draft.interfaces("interfaces", rest, &mut again);
        }
    }
    let found = draft.finish(None);
    let whole = found.left.iter().any(|left| left.what == "the whole");
    let text = found.annotated();
    assert!(whole || draft::judged(&text).is_ok(), "{text}");
    let _ = hidden(&text);
}
