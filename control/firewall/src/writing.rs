//! A rule of nftables as it is written anew: one of the filter for each of its alternatives, and
//! for what it does before it asks for more.

use rules::{Effects, Family, Match, RateMatch, Rule, Verdict};

use crate::Why;

/// A rule as far as it has been read, and what was written of it.
#[derive(Default)]
pub(crate) struct Writing {
    /// What all that it comes to have in common.
    pub form: Rule,
    pub matches: Vec<Match>,
    pub rate: Option<RateMatch>,
    /// The rate is not quite what was asked for.
    pub rounded: bool,
    pub effects: Effects,
    /// What lines in the log begin with.
    pub prefix: Option<String>,
    /// The verdict is to go elsewhere, and not to come back.
    pub goes: bool,
    pub rules: Vec<Rule>,
}

impl Writing {
    /// It is about packets of a family alone.
    pub fn of_family(&mut self, family: Family) {
        self.matches.retain_mut(|of| *of.family.get_or_insert(family) == family);
    }

    /// More is asked for, or done, behind what was read: that is done before.
    pub fn goes_on(&mut self) -> Result<(), Why> {
        if self.rate.is_some() {
            return Err("a condition behind a limit".to_owned());
        }
        if self.effects == Effects::default() {
            return Ok(());
        }
        let changes = self.effects.mark.is_some() || self.effects.dscp.is_some();
        if changes && self.matches.iter().any(|of| of.mark.is_some() || of.dscp.is_some()) {
            return Err("a condition for what the rule has changed".to_owned());
        }
        self.write(None)?;
        self.effects = Effects::default();
        Ok(())
    }

    /// Writes the rule with a verdict.
    pub fn write(&mut self, verdict: Option<Verdict>) -> Result<(), Why> {
        if self.rate.is_some() && self.matches.len() > 1 {
            return Err("a limit that several kinds of packets share".to_owned());
        }
        if verdict.is_none() && self.effects == Effects::default() {
            return Ok(());
        }
        let only_logs = Effects { log: None, ..self.effects.clone() } == Effects::default();
        if self.rounded && !(verdict.is_none() && only_logs) {
            return Err("a limit of no whole number a second".to_owned());
        }
        let mut effects = self.effects.clone();
        if let (None, true, Some(log), Some(rate)) = (&verdict, only_logs, &mut effects.log, self.rate)
            && !rate.over
        {
            // Lines have a rate of their own.
            (log.limit, self.rate) = (rate.rate, None);
        }
        for of in &self.matches {
            let matches = Match { rate: self.rate, ..of.clone() };
            let changing = matches.rate.is_some() || matches.mark.is_some() || matches.dscp.is_some();
            if self.goes && changing {
                return Err("a goto by what may be another the next moment".to_owned());
            }
            let effects = effects.clone();
            let name = effects.log.as_ref().and(self.prefix.clone());
            self.rules.push(Rule { matches, effects, verdict: verdict.clone(), name, ..self.form.clone() });
            if self.goes {
                // What comes back from there goes on behind this chain.
                let verdict = Some(Verdict::Return);
                self.rules.push(Rule { matches: of.clone(), verdict, ..self.form.clone() });
            }
        }
        Ok(())
    }

    /// Writes the rule for the last time.
    pub fn end(&mut self, verdict: Option<Verdict>) -> Result<(), Why> {
        self.write(verdict)?;
        self.matches.clear();
        Ok(())
    }
}
