//! What chrony is told.

use std::path::Path;

use config::Ntp;

/// Its file. `var` has what it keeps.
pub(crate) fn render(ntp: &Ntp, var: &Path) -> String {
    let var = var.display();
    let mut text = String::new();
    let nts = if ntp.nts { " nts" } else { "" };
    for (word, names) in [("server", &ntp.servers), ("pool", &ntp.pools)] {
        names.iter().for_each(|name| text += &format!("{word} {name} iburst{nts}\n"));
    }
    ntp.serve.iter().for_each(|net| text += &format!("allow {net}\n"));
    ntp.local_stratum.iter().for_each(|stratum| text += &format!("local stratum {stratum}\n"));
    // As Debian's package has it.
    text + &format!(
        "driftfile {var}/lib/chrony/chrony.drift\nntsdumpdir {var}/lib/chrony\nlogdir {var}/log/chrony\n\
         maxupdateskew 100.0\nrtcsync\nmakestep 1 3\nleapsectz right/UTC\n"
    )
}
