//! What OpenSSH is told.

use std::path::Path;

use config::{RootLogin, System};

use crate::under;

/// Its file, which is one among others of a folder, and read before what the package says: of each
/// word OpenSSH takes the first. `None`: there is nothing to tell.
pub(crate) fn render(system: &System, root: &Path) -> Option<String> {
    let mut text = String::new();
    if system.users.iter().any(|user| !user.keys.is_empty()) {
        let keys = under(root, settings::KEYS);
        text += &format!("AuthorizedKeysFile .ssh/authorized_keys {}/%u\n", keys.display());
    }
    if let Some(ssh) = &system.ssh {
        text += &format!("Port {}\n", ssh.port);
        ssh.listen.iter().for_each(|address| text += &format!("ListenAddress {address}\n"));
        let yes = |on| if on { "yes" } else { "no" };
        text += &format!(
            "PasswordAuthentication {}\nKbdInteractiveAuthentication {}\n",
            yes(ssh.passwords),
            yes(ssh.passwords)
        );
        let login = match ssh.root {
            RootLogin::No => "no",
            RootLogin::Keys => "prohibit-password",
            RootLogin::Yes => "yes",
        };
        text += &format!("PermitRootLogin {login}\n");
        if system.banner.is_some() {
            text += &format!("Banner {}\n", under(root, settings::NET_BANNER).display());
        }
    }
    (!text.is_empty()).then_some(text)
}
