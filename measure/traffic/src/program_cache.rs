//! Programs in the kernel that are kept from one trial to the next, for the verifier takes half a
//! second for each.

use std::sync::{Arc, Mutex, PoisonError};

use crate::TrafficError;

/// Those of one kind and port. One that only the cache holds is free.
pub(crate) struct ProgramCache<T>(Mutex<Vec<Arc<T>>>);

impl<T> Default for ProgramCache<T> {
    fn default() -> ProgramCache<T> {
        ProgramCache(Mutex::default())
    }
}

impl<T> ProgramCache<T> {
    /// A free one that takes on the work, else a new one in the place of a free one: so there are
    /// never more than were at work at a time.
    pub(crate) fn take(
        &self,
        mut takes_on: impl FnMut(&mut T) -> bool,
        load: impl FnOnce() -> Result<T, TrafficError>,
    ) -> Result<Arc<T>, TrafficError> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = None;
        for (at, one) in all.iter_mut().enumerate() {
            let Some(program) = Arc::get_mut(one) else { continue };
            if takes_on(program) {
                return Ok(one.clone());
            }
            free = Some(at);
        }
        if let Some(at) = free {
            all.swap_remove(at);
        }
        let new = Arc::new(load()?);
        all.push(new.clone());
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_and_fits_is_taken_and_what_does_not_fit_makes_room() {
        let program_cache = ProgramCache::default();
        let take = |wanted: u32| program_cache.take(|held| *held == wanted, || Ok(wanted)).unwrap();
        let held = || program_cache.0.lock().unwrap().iter().map(|one| **one).collect::<Vec<_>>();
        let (first, second) = (take(1), take(1));
        assert!(!Arc::ptr_eq(&first, &second), "at work");
        let at = Arc::as_ptr(&first);
        drop((first, second));
        let again = take(1);
        assert_eq!(Arc::as_ptr(&again), at);
        let other = take(2);
        assert_eq!(held(), [1, 2]);
        drop((again, other));
        assert_eq!((*take(3), held().len()), (3, 2));
    }
}
