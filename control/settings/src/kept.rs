//! What places had before Bifrost wrote them.
//!
//! It is on the disk before a place is written, so that whoever is killed between the two loses
//! nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::SettingsError;
use crate::place::{Place, Value, replace};

/// Who may read it: a banner is nobody's secret, but a file of somebody's may be.
const MODE: u32 = 0o600;

pub(crate) struct Kept {
    path: PathBuf,
    values: BTreeMap<Place, Value>,
}

impl Kept {
    /// What the file has; none is empty.
    pub fn open(path: &Path) -> Result<Kept, SettingsError> {
        let failed = |error| SettingsError::File { path: path.to_owned(), error };
        let values = match fs::read_to_string(path) {
            Ok(text) => {
                let pairs: Vec<(Place, Value)> =
                    serde_json::from_str(&text).map_err(|error| failed(io::Error::other(error)))?;
                pairs.into_iter().collect()
            }
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(failed(error)),
        };
        Ok(Kept { path: path.to_owned(), values })
    }

    /// Keeps what a place has now, unless something is kept of it.
    pub fn keep(&mut self, place: &Place) -> Result<(), SettingsError> {
        if self.values.contains_key(place) {
            return Ok(());
        }
        let value = place.read().map_err(|error| SettingsError::Place { place: place.clone(), error })?;
        self.values.insert(place.clone(), value);
        self.save()
    }

    /// Forgets a place, which has again what it had.
    pub fn forget(&mut self, place: &Place) -> Result<(), SettingsError> {
        self.values.remove(place);
        self.save()
    }

    /// All places, with what they had.
    pub fn all(&self) -> impl Iterator<Item = (Place, Value)> {
        self.values.iter().map(|(place, value)| (place.clone(), value.clone()))
    }

    fn save(&self) -> Result<(), SettingsError> {
        let pairs: Vec<_> = self.values.iter().collect();
        let saved = match pairs.is_empty() {
            true => fs::remove_file(&self.path),
            false => serde_json::to_string_pretty(&pairs)
                .map_err(io::Error::other)
                .and_then(|text| replace(&self.path, &text, MODE)),
        };
        saved.map_err(|error| SettingsError::File { path: self.path.clone(), error })
    }
}
