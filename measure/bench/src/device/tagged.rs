//! The same rig and the same routes, with frames that come and leave by a VLAN, beside frames
//! without a tag. Linux is not measured: not every kernel has VLANs.

use lab::prefixes::Random;
use port::traffic::{Sink, Source};

use super::{CASES, Outcome, ROUTER_MAC, Rig, SOURCE_MAC, index, median, table};
use crate::ruler::Ruler;

/// The ratio to frames without a tag, and the rate.
const NAMES: [&str; 2] = ["device/v4/vlan", "device/v4/vlan/bifrost"];
const VLAN: u16 = 100;

/// All rows.
pub(super) fn run(ruler: &mut Ruler) {
    if !NAMES.iter().any(|name| ruler.wants(name)) {
        return;
    }
    let measured = std::thread::scope(|scope| {
        let measure = || measure().map_err(|error| error.to_string());
        scope.spawn(measure).join().unwrap_or_else(|_| Err("the bench panicked".into()))
    });
    match measured {
        Ok((tagged, plain)) => {
            let ratio = tagged.iter().map(|rate| rate / median(&plain)).collect();
            ruler.record(NAMES[0], "x small", ratio);
            ruler.record(NAMES[1], "Mpps", tagged);
        }
        Err(error) => eprintln!("{}: not measured: {error}", NAMES[0]),
    }
}

/// Rates with a tag and without, in turns.
fn measure() -> Outcome<(Vec<f64>, Vec<f64>)> {
    let rig = Rig::new()?;
    let (routes, destinations) = table(&CASES[0], &mut Random(20_261_121));
    rig.source.enter()?;
    let (to, from) = (ROUTER_MAC[0], "10.0.0.2".parse()?);
    let tagged = Source::in_vlan(SOURCE_MAC, to, from, &destinations, VLAN)?;
    let plain = Source::new(SOURCE_MAC, to, from, &destinations)?;
    rig.sink.enter()?;
    let sink = Sink::attach(index("dvk")?)?;
    rig.pin("dvk", rig.cores[0])?;
    rig.router.enter()?;
    let rates = |vlan: bool, source: &Source| -> Outcome<Vec<f64>> {
        rig.router.enter()?;
        let (driver, _tables) = rig.attach(&routes, vlan.then_some(VLAN))?;
        rig.pin("dvr0", rig.cores[1])?;
        let rates = rig.rates(source, &sink)?;
        super::all_express(&driver)?;
        Ok(rates)
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        without.extend(rates(false, &plain)?);
        with.extend(rates(true, &tagged)?);
    }
    Ok((with, without))
}
