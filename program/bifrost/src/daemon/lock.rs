//! The lock of the configuration: the administrator who has it commits, and nobody else.
//!
//! It is forgotten when it was not asked for again for a minute, so a client that died locks nobody
//! out. What goes back by itself, and a signal, pass it by.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::control::{Holder, LockStatus, LockWish, Who};

/// How long it lasts.
const LEASE: Duration = Duration::from_secs(60);

/// The lock.
#[derive(Clone, Default)]
pub(super) struct Lock(Arc<Mutex<Option<Held>>>);

struct Held {
    who: Who,
    from: Option<String>,
    since: Instant,
    until: Instant,
}

impl Held {
    fn holder(&self) -> Holder {
        Holder {
            user: self.who.user.clone(),
            login: self.who.login.clone(),
            from: self.from.clone(),
            seconds: self.since.elapsed().as_secs(),
        }
    }
}

impl Lock {
    /// Does what is wanted, and says who has it then.
    pub fn ask(&self, wish: LockWish, from: Option<&str>, who: &Who) -> Result<LockStatus, String> {
        self.ask_at(Instant::now(), wish, from, who)
    }

    fn ask_at(
        &self,
        now: Instant,
        wish: LockWish,
        from: Option<&str>,
        who: &Who,
    ) -> Result<LockStatus, String> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = held.take().filter(|held| held.until > now);
        let mine = current.as_ref().is_some_and(|held| held.who == *who);
        let other = current.as_ref().filter(|_| !mine).map(|held| refused(&held.holder()));
        let until = now + LEASE;
        let new = || Held { who: who.clone(), from: from.map(str::to_owned), since: now, until };
        *held = match (wish, current) {
            (LockWish::Hold | LockWish::Take, Some(held)) if mine => Some(Held { until, ..held }),
            (LockWish::Take, _) | (LockWish::Hold, None) => Some(new()),
            (LockWish::Release, Some(_)) if mine => None,
            (LockWish::Break, _) => None,
            (_, current) => current,
        };
        if let (LockWish::Hold, Some(other)) = (wish, other) {
            return Err(other);
        }
        let yours = held.as_ref().is_some_and(|held| held.who == *who);
        Ok(LockStatus { holder: held.as_ref().map(Held::holder), yours })
    }

    /// Whether this one may put a configuration in force.
    pub fn permits(&self, who: &Who) -> Result<(), String> {
        match self.ask(LockWish::Show, None, who)? {
            LockStatus { holder: Some(holder), yours: false } => Err(refused(&holder)),
            _ => Ok(()),
        }
    }
}

fn refused(holder: &Holder) -> String {
    format!(
        "{} has locked the configuration, {}: wait, or take the lock: `bifrost cli -c 'unlock force'`",
        holder.name(),
        holder.since()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(name: &str) -> Who {
        Who { user: Some("root".into()), login: Some(name.into()) }
    }

    #[test]
    fn one_has_it_until_it_is_given_back_taken_or_forgotten() {
        let lock = Lock::default();
        let (alice, bob) = (who("alice"), who("bob"));
        let start = Instant::now();
        let ask =
            |wish, who: &Who, after: u64| lock.ask_at(start + Duration::from_secs(after), wish, None, who);
        assert_eq!(ask(LockWish::Show, &alice, 0).unwrap(), LockStatus::default());
        assert!(ask(LockWish::Hold, &alice, 0).unwrap().yours);
        assert!(ask(LockWish::Hold, &bob, 50).unwrap_err().starts_with("alice has locked"));
        assert!(lock.permits(&bob).is_err() && lock.permits(&alice).is_ok());
        // Asked for again it lasts.
        assert!(ask(LockWish::Hold, &alice, 50).unwrap().yours);
        assert!(!ask(LockWish::Show, &bob, 100).unwrap().yours);
        // Another's is not given back.
        assert!(ask(LockWish::Release, &bob, 100).unwrap().holder.is_some());
        assert!(ask(LockWish::Hold, &bob, 111).unwrap().yours, "alice has not asked again");
        assert!(ask(LockWish::Take, &alice, 112).unwrap().yours);
        assert_eq!(ask(LockWish::Break, &bob, 113).unwrap(), LockStatus::default());
        ask(LockWish::Hold, &bob, 114).unwrap();
        assert_eq!(ask(LockWish::Release, &bob, 115).unwrap().holder, None);
    }
}
