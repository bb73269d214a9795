//! The flow table where the driver's programs read it, so that they forward the flows that workers
//! have decided.
//!
//! A packet for a worker is copied on ports without zero-copy, which costs several times what there
//! is to do for the packet of a flow that is decided. On such ports the driver does it
//! (`forwarding/bpf/flows.h`), in the entries of the flow table themselves: nothing is handed to
//! and fro, and what a worker changes holds for the driver's next packet. What it forwards it
//! counts in the flow's entry, and by verdict for the rules' counters
//! ([`elements::router::Rulebook::fold`]).

use std::sync::Arc;
use std::time::Duration;

use elements::router::Rulebook;
use flow::{Settings, Table};
use port::Driver;
use tracing::{info, warn};

use crate::PlaneError;

/// Memory of a table that is there only for the driver's sake: some 260,000 flows.
const MODEST: usize = 32 << 20;

/// The table for the flows of a filter that asks for none, so that it need not be asked for each
/// packet.
pub(crate) fn modest() -> Settings {
    Settings { memory: MODEST, ..Settings::default() }
}

/// A flow table that the driver shares, if it can; else one of the workers' own. What is offloaded
/// is counted in column `workers` of the rules' accounts.
pub(crate) fn table(
    settings: &Settings,
    driver: Option<&mut Driver>,
    book: &Rulebook,
    workers: usize,
) -> Result<Arc<Table>, PlaneError> {
    if let Some(driver) = driver {
        match shared(settings, driver, book, workers) {
            Ok(table) => {
                info!("flows that are decided are carried in the driver, on ports without zero-copy");
                return Ok(table);
            }
            Err(error) => {
                warn!("every packet of a flow passes a worker, for the driver cannot carry flows: {error}")
            }
        }
    }
    Ok(Table::new(settings)?)
}

fn shared(
    settings: &Settings,
    driver: &mut Driver,
    book: &Rulebook,
    workers: usize,
) -> Result<Arc<Table>, PlaneError> {
    let now = Duration::from_nanos(graph::steady_now());
    let (memory, verdicts) = driver.share_flows(settings.sizes()?, now)?;
    let table = Table::shared(settings, memory)?;
    book.offload(verdicts, workers);
    Ok(table)
}
