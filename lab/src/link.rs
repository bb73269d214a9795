//! Links between hosts: veth pairs, with what AF_XDP and XDP need of them.
//!
//! Three settings matter and cost hours when forgotten. A host leaves its TCP and UDP checksums to
//! the device, which a packet that passes a router's XDP program never meets: so `tx` offload is
//! off, and segmentation with it (Bifrost's workers finish such checksums, but what is to be
//! forwarded in the driver must have none). A frame redirected into a veth vanishes unless the far
//! end polls (NAPI): generic receive offload switches that on, where it is set after both ends are
//! up. And both ends want the same number of queues, for the kernel refuses XDP where one end can
//! send on more than the other receives.

use std::{fs, time::Duration};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};

use crate::{Host, Lab, LabError, Result, wait_for};

/// One end of a link: an interface to be made.
#[derive(Clone, Debug)]
pub struct End {
    pub(crate) host: Host,
    pub(crate) interface: String,
    addresses: Vec<String>,
    mtu: u32,
    mac: Option<String>,
}

impl Host {
    /// Gives an interface's receive work to a kernel thread of its own on one core, before all else
    /// that runs there.
    ///
    /// Without this a veth's packets are received on the core that sent them, so a load and the
    /// router under it would share one.
    pub fn receive_on_core(&self, interface: &str, core: usize) -> Result<()> {
        let before = napi_threads(interface);
        self.run(&format!("echo 1 > /sys/class/net/{interface}/threaded"))?;
        let threads = wait_for("the receive threads", Duration::from_secs(2), || {
            let new: Vec<i32> =
                napi_threads(interface).into_iter().filter(|pid| !before.contains(pid)).collect();
            if new.is_empty() { Err(format!("none for {interface}")) } else { Ok(new) }
        })?;
        for thread in threads {
            pin(Pid::from_raw(thread), core).map_err(LabError::io(format!("core {core}")))?;
            self.run(&format!("chrt -f -p 1 {thread}"))?;
        }
        Ok(())
    }

    /// Undoes [`Host::receive_on_core`]: packets are received wherever they are sent.
    pub fn receive_anywhere(&self, interface: &str) -> Result<()> {
        self.run(&format!("echo 0 > /sys/class/net/{interface}/threaded")).map(drop)
    }

    /// An end of a link, at this host, not made yet.
    pub fn end(&self, interface: &str) -> End {
        End {
            host: self.clone(),
            interface: interface.to_owned(),
            addresses: Vec::new(),
            mtu: 1500,
            mac: None,
        }
    }
}

impl End {
    /// Gives it an address with a prefix length (`192.0.2.1/24`).
    pub fn address(mut self, address: &str) -> End {
        self.addresses.push(address.to_owned());
        self
    }

    /// Bytes of IP packet it carries (else 1500).
    pub fn mtu(mut self, mtu: u32) -> End {
        self.mtu = mtu;
        self
    }

    /// Its Ethernet address (else a random one).
    pub fn mac(mut self, mac: &str) -> End {
        self.mac = Some(mac.to_owned());
        self
    }

    pub(crate) fn configure(&self) -> Result<()> {
        let name = &self.interface;
        let mut script =
            format!("ethtool -K {name} tx off gro off >/dev/null\nip link set dev {name} mtu {}\n", self.mtu);
        if let Some(mac) = &self.mac {
            script += &format!("ip link set dev {name} address {mac}\n");
        }
        script += &format!("ip link set dev {name} up\n");
        for address in &self.addresses {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            script += &format!("ip address add {address} dev {name}{nodad}\n");
        }
        self.host.run(&script).map(drop)
    }
}

/// Keeps the calling thread on one core.
pub fn run_on_core(core: usize) -> std::io::Result<()> {
    pin(Pid::from_raw(0), core)
}

fn pin(thread: Pid, core: usize) -> std::io::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core)?;
    Ok(sched_setaffinity(thread, &cores)?)
}

/// The kernel's threads named `napi/<interface>-<id>`, of this interface name in any namespace.
fn napi_threads(interface: &str) -> Vec<i32> {
    let wanted = format!("napi/{interface}-");
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c.starts_with(&wanted))
    })
    .collect()
}

impl Lab {
    /// Joins two hosts by a link with one queue each way.
    pub fn link(&self, a: End, b: End) -> Result<()> {
        self.link_with_queues(a, b, 1)
    }

    /// Joins two hosts by a link with this many queues each way.
    pub fn link_with_queues(&self, a: End, b: End, queues: u32) -> Result<()> {
        let queues = format!("numrxqueues {queues} numtxqueues {queues}");
        a.host.run(&format!(
            "ip link add name {} {queues} type veth peer name {} {queues} netns {}",
            a.interface,
            b.interface,
            b.host.namespace(),
        ))?;
        a.configure()?;
        b.configure()?;
        // Only this, while both are up, tells the far end that it can be redirected to.
        [&a, &b]
            .into_iter()
            .try_for_each(|end| end.host.run(&format!("ethtool -K {} gro on", end.interface)).map(drop))
    }
}
