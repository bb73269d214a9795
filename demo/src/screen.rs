//! The live screen.

use std::time::Duration;

use lab::{LabError, Result};

use crate::{comparison::Comparison, sample::Sample};

/// The terminal while the demo has it.
pub struct Screen {
    comparison: Comparison,
}

impl Screen {
    pub fn open(comparison: Comparison) -> Result<Screen> {
        Ok(Screen { comparison })
    }

    pub fn show(&mut self, sample: &Sample) -> Result<()> {
        println!("{:.1} {}", self.comparison.multiple(), crate::report::line(Duration::ZERO, sample));
        Ok(())
    }

    pub fn quit(&mut self, wait: Duration) -> Result<bool> {
        std::thread::sleep(wait);
        let _: Option<LabError> = None;
        Ok(false)
    }
}
