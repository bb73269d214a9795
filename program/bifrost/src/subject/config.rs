//! The configuration in force, as it can be put into a file.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Subject;
use crate::control::Rates;
use crate::daemon::Control;

/// The configuration in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Where it was read; `None` when the ports were named on the command line.
    pub file: Option<String>,
    /// The file as it was read then, its secrets covered.
    pub text: String,
    /// The file has another text by now, which is not in force.
    pub disk_differs: bool,
    /// The file as it was read, which nobody sees.
    #[serde(skip)]
    pub raw: Arc<str>,
}

impl Subject for Config {
    const NAME: &'static str = "config";
    const ABOUT: &'static str =
        "The configuration in force: the file as it was last put in force, its secrets covered";
    const ALIASES: &'static [&'static str] = &["configuration"];

    fn answer(control: &mut Control) -> Result<Self, String> {
        let router = &control.forwarding.router;
        let (text, raw) = (router.text.clone(), router.raw.clone());
        Ok(Config { file: control.file(), text, raw, disk_differs: false })
    }

    fn complete(&mut self, _: &Rates) {
        // A file may take long to read: not on the control thread.
        let disk = self.file.as_ref().map(|file| std::fs::read(file).unwrap_or_default());
        self.disk_differs = disk.is_some_and(|disk| !self.raw.is_empty() && disk != self.raw.as_bytes());
    }

    fn table(&self) -> String {
        match &self.file {
            Some(file) if self.disk_differs => {
                let told = format!("# {file} was changed since: `bifrost compare running disk`");
                format!("{told}\n{}", self.text)
            }
            Some(_) => self.text.clone(),
            None => "# no file: the ports were named on the command line\n".to_owned(),
        }
    }
}
