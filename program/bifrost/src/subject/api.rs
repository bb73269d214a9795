//! The interface for programs.

use chrono::{DateTime, Local};
use serde::{Deserialize, Serialize};

use super::Subject;
use crate::command::table::{Table, or_dash};
use crate::daemon::Control;
use crate::screen::units::count;

/// The interface for programs. Counters are since the daemon began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ApiStatus {
    /// Where it listens.
    pub listen: Vec<ApiAddress>,
    /// SHA-256 of the certificate, as `openssl x509 -fingerprint -sha256` prints it.
    pub fingerprint: Option<String>,
    /// The file of the certificate that was made here; none: the configuration names one.
    pub certificate: Option<String>,
    /// Why nobody is served.
    pub trouble: Option<String>,
    /// Who may use it.
    pub tokens: Vec<ApiToken>,
    /// Connections now.
    pub connections: u64,
    /// Requests whose token was known.
    pub requests: u64,
    /// Requests whose token nobody has.
    pub refused_tokens: u64,
    /// Connections for which there was no room.
    pub refused_connections: u64,
}

/// Where it listens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ApiAddress {
    /// The address and port.
    pub address: String,
    /// Whether it does.
    pub listens: bool,
    /// Why not.
    pub trouble: Option<String>,
}

/// Who may use it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ApiToken {
    /// What the history calls it.
    pub name: String,
    /// `viewer`, `operator` or `admin`.
    pub role: String,
    /// Its requests.
    pub requests: u64,
    /// When the last one came, in seconds since 1970.
    pub last: Option<u64>,
}

impl Subject for Option<ApiStatus> {
    const NAME: &'static str = "api";
    const ABOUT: &'static str =
        "The interface for programs: where it listens, its certificate, and its tokens";

    fn answer(control: &mut Control) -> Result<Self, String> {
        Ok(control.parts.api.status(&control.forwarding.router))
    }

    fn table(&self) -> String {
        let Some(status) = self else {
            return "programs are not served: [api] in router.toml begins it\n".to_owned();
        };
        let mut text = String::new();
        for place in &status.listen {
            text += &match &place.trouble {
                None => format!("https://{}/v1/\n", place.address),
                Some(trouble) => format!("https://{}/v1/ is NOT SERVED: {trouble}\n", place.address),
            };
        }
        text += &status.trouble.as_ref().map_or(String::new(), |trouble| format!("{trouble}\n"));
        let fingerprint = status.fingerprint.as_deref().unwrap_or("-");
        text += &format!("certificate {}\n", status.certificate.as_deref().unwrap_or("of the configuration"));
        text += &format!("fingerprint {fingerprint}\n");
        text += &format!(
            "{} connections now, {} requests; refused: {} tokens, {} connections\n",
            count(status.connections),
            count(status.requests),
            count(status.refused_tokens),
            count(status.refused_connections)
        );
        let mut table = Table::new(&["token", "role", ">requests", "last"]);
        for token in &status.tokens {
            let last = token.last.and_then(|last| DateTime::from_timestamp(last as i64, 0));
            let last = last.map(|last| last.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S"));
            table.row(vec![token.name.clone(), token.role.clone(), count(token.requests), or_dash(&last)]);
        }
        text + &table.render()
    }
}
