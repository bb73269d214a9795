//! The mirror's part in the talk with zebra: what it tells goes into the model, and counts once it has told all.

use super::{HEARD_AT_ONCE, Mirror, Plane};
use crate::fpm::{Talk, Told};
use crate::model::{Effect, Source, Table};
use fib::Tables;
use ipnet::IpNet;
use std::time::Instant;

/// Prefixes that one step of the sweep after zebra's telling looks at.
const SWEEP: usize = 4096;

/// The walk that removes what zebra did not tell again.
pub(super) struct FpmSweep {
    ipv6: bool,
    after: Option<IpNet>,
}

impl Mirror {
    /// Takes in what zebra has sent, a few frames; whether more may wait.
    pub(super) fn hear_zebra(&mut self, tables: &mut Tables, plane: &mut dyn Plane) -> bool {
        let now = Instant::now();
        let Some(fpm) = &mut self.fpm else {
            return false;
        };
        if fpm.accept(now) {
            self.fpm_sweep = None;
            self.model.routes.begin_read(Source::Fpm);
            self.model.objects.begin_read(Source::Fpm);
        }
        for _ in 0..HEARD_AT_ONCE {
            let Some(frame) = self.fpm.as_mut().and_then(|fpm| fpm.next_frame(now)) else {
                return self.sweep_zebra();
            };
            for told in frame {
                self.told(told);
            }
        }
        self.flush(tables, plane);
        true
    }

    fn told(&mut self, told: Told) {
        let (of, effect) = match told {
            Told::Route(route) => ((route.prefix, route.table), self.model.routes.announce_fpm(&route)),
            Told::RouteGone(route) => ((route.prefix, route.table), self.model.routes.withdraw_fpm(&route)),
            Told::Object(object) => return self.model.set_object(Source::Fpm, &object, &mut self.changes),
            Told::ObjectGone(id) => return self.model.remove_object(Source::Fpm, id, &mut self.changes),
        };
        if effect == Effect::Changed {
            self.changes.prefixes.extend(Table::from_number(of.1).map(|table| (of.0, table)));
        }
    }

    /// Zebra's timers: the end of its telling, and the end of the patience with its absence.
    pub(super) fn time_zebra(&mut self, now: Instant) {
        let Some(fpm) = &mut self.fpm else {
            return;
        };
        match fpm.talk {
            Talk::Telling(last, true) if now.duration_since(last) >= fpm.options.quiet => {
                fpm.talk = Talk::Steady;
                self.programmer.use_fpm(true);
                self.fpm_sweep = Some(FpmSweep { ipv6: false, after: None });
                tracing::info!("zebra has told its routes; they are in force");
            }
            // Who is there and says nothing is no better than nobody.
            Talk::Away(since) | Talk::Telling(since, false)
                if self.programmer.uses_fpm() && now.duration_since(since) >= fpm.options.hold =>
            {
                tracing::warn!("zebra has stayed away; Linux's routes are in force again");
                self.programmer.use_fpm(false);
                self.model.routes.begin_read(Source::Fpm);
                self.model.objects.begin_read(Source::Fpm);
                self.fpm_sweep = Some(FpmSweep { ipv6: false, after: None });
            }
            _ => {}
        }
    }

    /// A step of the sweep after zebra's telling; whether it goes on.
    fn sweep_zebra(&mut self) -> bool {
        let Some(sweep) = &mut self.fpm_sweep else {
            return false;
        };
        let (gone, last) = self.model.routes.unseen(sweep.ipv6, Source::Fpm, sweep.after, SWEEP);
        for (prefix, table) in gone {
            self.model.routes.sweep(prefix, table, Source::Fpm);
            self.changes.prefixes.push((prefix, table));
        }
        match (last, sweep.ipv6) {
            (Some(last), _) => sweep.after = Some(last),
            (None, false) => *sweep = FpmSweep { ipv6: true, after: None },
            (None, true) => {
                self.fpm_sweep = None;
                for id in self.model.objects.unseen(Source::Fpm) {
                    self.model.remove_object(Source::Fpm, id, &mut self.changes);
                }
            }
        }
        true
    }
}
