//! What can be done to a running machine from outside: QEMU's monitor (QMP), and cards that are
//! pulled out and put back.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use serde_json::{Map, Value, json};

use super::Machine;
use crate::{LabError, Result, wait_for};

/// The guest is asked first whether a card may go, and waits some seconds in case the button is
/// pressed twice.
const UNPLUGGED: Duration = Duration::from_secs(60);

impl Machine {
    /// Asks QEMU's monitor (`set_link`, `device_del`; QEMU's QMP reference lists them) and gives
    /// its answer.
    ///
    /// # Errors
    /// [`LabError::Machine`] with what QEMU said instead.
    pub fn ask_qemu(&self, command: &str, arguments: &Value) -> Result<Value> {
        let failed = |error: std::io::Error| self.error(format!("does not hear '{command}': {error}"));
        let mut socket = UnixStream::connect(self.folder.join("qmp.sock")).map_err(failed)?;
        socket.set_read_timeout(Some(Duration::from_secs(20))).map_err(failed)?;
        let capabilities = json!({ "execute": "qmp_capabilities" });
        let asked = json!({ "execute": command, "arguments": arguments });
        write!(socket, "{capabilities}\n{asked}\n").map_err(failed)?;
        let answers = BufReader::new(socket).lines().map_while(std::result::Result::ok);
        let answers = answers.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        // The first answer is to the capabilities; between them, QEMU greets and tells events.
        let said = answers.filter(|said| said.get("return").or(said.get("error")).is_some()).nth(1);
        match said {
            Some(said) if said.get("error").is_none() => Ok(said["return"].clone()),
            said => {
                Err(self.error(format!("refuses '{command}': {}", said.unwrap_or_default()["error"]["desc"])))
            }
        }
    }

    /// Pulls the cable of a card (counted from 0), or puts it back.
    pub fn carrier(&self, nic: usize, up: bool) -> Result<()> {
        self.ask_qemu("set_link", &json!({ "name": format!("nic{nic}"), "up": up })).map(drop)
    }

    /// Takes a card out of its slot, and waits until the guest has let go of it.
    pub fn unplug(&self, nic: usize) -> Result<()> {
        let id = format!("nic{nic}");
        self.ask_qemu("device_del", &json!({ "id": id }))?;
        wait_for("the guest to let go of a card", UNPLUGGED, || {
            match self.ask_qemu("qom-list", &json!({ "path": format!("/machine/peripheral/{id}") })) {
                Err(LabError::Machine { .. }) => Ok(()),
                answer => Err(format!("{answer:?}")),
            }
        })
    }

    /// Puts a card that was taken out back into its slot. The guest finds it a little later.
    pub fn plug(&self, nic: usize) -> Result<()> {
        let words = self.nics[nic].device(nic);
        let mut arguments = Map::new();
        for (position, word) in words.split(',').enumerate() {
            let (key, value) =
                if position == 0 { ("driver", word) } else { word.split_once('=').unwrap_or((word, "on")) };
            arguments.insert(key.to_owned(), value.into());
        }
        self.ask_qemu("device_add", &Value::Object(arguments)).map(drop)
    }
}
