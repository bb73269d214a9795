//! `bifrost flows` and `bifrost show flowlog`.

use std::io::{BufWriter, stdout};
use std::path::Path;

use crate::control::status::{FlowLogStatus, FlowQuery};
use crate::control::{Client, ClientError, Request};
use flowlog::Record;
use flowlog::query::{self, QueryError};

use super::{Failure, PATIENCE};

/// Files from wherever the running router keeps them, and what lives there.
pub fn flows(mut asked: query::Flows, socket: &Path) -> Result<(), Failure> {
    asked.no_live |= !asked.files.is_empty();
    // One that is not named need not be there yet.
    if let Some(directory) = &asked.dir {
        std::fs::read_dir(directory)
            .map_err(|error| Failure::Io { what: format!("cannot read {}", directory.display()), error })?;
    }
    let mut client = match Client::connect(socket) {
        Ok(client) => Some(client),
        Err(error) => {
            if !asked.no_live {
                eprintln!("bifrost: only what files have: {error}");
            }
            None
        }
    };
    if let (Some(client), None, true) = (&mut client, &asked.dir, asked.files.is_empty()) {
        let status: Option<FlowLogStatus> = client.subject("flow_log")?;
        asked.dir = status.and_then(|status| status.directory);
    }
    let mut out = BufWriter::new(stdout().lock());
    let Some(client) = client.as_mut().filter(|_| !asked.no_live) else {
        return done(query::run(&asked, [], &mut out));
    };
    let mut lost = None;
    let living = client.stream::<Record>(&Request::Living(narrowed(&asked)), Some(PATIENCE))?;
    let living = living.map_while(|item| item.map_err(|error| lost = Some(error)).ok());
    done(query::run(&asked, living, &mut out))?;
    lost.map_or(Ok(()), |error: ClientError| Err(error.into()))
}

/// What the daemon need not send: the question itself is answered here.
fn narrowed(asked: &query::Flows) -> FlowQuery {
    FlowQuery {
        host: only(&asked.host).map(|network| network.0),
        port: only(&asked.port)
            .filter(|ports| ports.0.start() == ports.0.end())
            .map(|ports| *ports.0.start()),
        protocol: only(&asked.proto).map(|protocol| protocol.0),
        ..FlowQuery::default()
    }
}

fn only<T>(list: &[T]) -> Option<&T> {
    match list {
        [only] => Some(only),
        _ => None,
    }
}

fn done(answered: Result<query::Summary, QueryError>) -> Result<(), Failure> {
    match answered {
        Ok(query::Summary { unread: 0, .. }) => Ok(()),
        Ok(query::Summary { unread, .. }) => {
            Err(Failure::Said(format!("what {unread} file(s) have is missing here: they cannot be read")))
        }
        Err(QueryError::Output(error)) => Err(Failure::output(error)),
        Err(QueryError::Io { path, error }) => {
            Err(Failure::Io { what: format!("cannot read {}", path.display()), error })
        }
        Err(error) => Err(Failure::Said(error.to_string())),
    }
}
