//! The configuration in force, as it can be put into a file.

use serde::{Deserialize, Serialize};

use super::Subject;
use crate::daemon::Control;

/// The configuration in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Where it was read; `None` when the ports were named on the command line.
    pub file: Option<String>,
    /// The file as it was read then, its secrets covered.
    pub text: String,
}

impl Subject for Config {
    const NAME: &'static str = "config";
    const ABOUT: &'static str =
        "The configuration in force: the file as it was last put in force, its secrets covered";
    const ALIASES: &'static [&'static str] = &["configuration"];

    fn answer(control: &mut Control) -> Result<Self, String> {
        Ok(Config { file: control.file(), text: control.forwarding.router.text.clone() })
    }

    fn table(&self) -> String {
        match &self.file {
            Some(_) => self.text.clone(),
            None => "# no file: the ports were named on the command line\n".to_owned(),
        }
    }
}
