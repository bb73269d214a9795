//! A machine's network cards: the hardware that a driver of the guest sees, and what is at the
//! other end of the wire.
//!
//! Each sits in a slot of its own, from which it can be taken while the guest runs. In the guest
//! they are nic0, nic1 and so on, in the order they were given; one that was taken out and put back
//! is eth0, as nobody there renames it.

use crate::Host;

/// A network card of a machine to be booted.
#[derive(Clone, Debug)]
pub struct Nic {
    device: String,
    queues: u32,
    pub(super) wire: Wire,
}

#[derive(Clone, Debug)]
pub(super) enum Wire {
    /// To the other card that names the same cable.
    Cable(u32),
    /// To an interface of a host of a lab.
    Tap(Host, String),
}

impl Nic {
    /// A virtio-net card. More than one pair of queues needs a wire to a host ([`Nic::to`]).
    pub fn virtio(queues: u32) -> Nic {
        let vectors = 2 * queues + 2;
        let many = if queues > 1 { format!(",mq=on,vectors={vectors}") } else { String::new() };
        Nic::of(format!("virtio-net-pci{many}"), queues)
    }

    /// Intel's 82574, with the driver e1000e.
    pub fn e1000e() -> Nic {
        Nic::of("e1000e".to_owned(), 1)
    }

    /// Intel's 82576, with the driver igb, which knows XDP. QEMU has it from release 8 on; an older
    /// one refuses to boot.
    pub fn igb() -> Nic {
        Nic::of("igb".to_owned(), 1)
    }

    fn of(device: String, queues: u32) -> Nic {
        Nic { device, queues, wire: Wire::Cable(0) }
    }

    /// Further properties of QEMU's device: `iommu_platform=on,disable-legacy=on` is what zero-copy
    /// needs of virtio-net.
    pub fn with(mut self, properties: &str) -> Nic {
        self.device += &format!(",{properties}");
        self
    }

    /// Its Ethernet address (else one that QEMU chooses).
    pub fn mac(self, mac: &str) -> Nic {
        self.with(&format!("mac={mac}"))
    }

    /// Joins it to the other card of the machine that is given the same number.
    pub fn cable(mut self, number: u32) -> Nic {
        self.wire = Wire::Cable(number);
        self
    }

    /// Joins it to an interface that a host of a lab gets: the host is a neighbour of the guest.
    pub fn to(mut self, host: &Host, interface: &str) -> Nic {
        self.wire = Wire::Tap(host.clone(), interface.to_owned());
        self
    }

    /// QEMU's words for its end of the wire.
    pub(super) fn netdev(&self, number: usize) -> String {
        match &self.wire {
            Wire::Cable(cable) => format!("hubport,id=wire{number},hubid={cable}"),
            Wire::Tap(..) => format!(
                "tap,id=wire{number},ifname={},script=no,downscript=no,queues={}",
                tap(number),
                self.queues
            ),
        }
    }

    /// QEMU's words for the card: `MODEL,PROPERTY=VALUE...`.
    pub(super) fn device(&self, number: usize) -> String {
        format!("{},id=nic{number},netdev=wire{number},bus=slot{number}", self.device)
    }

    /// QEMU's words for the slot it sits in.
    pub(super) fn slot(number: usize) -> String {
        format!("pcie-root-port,id=slot{number},chassis={0},slot={0}", number + 1)
    }
}

/// The name of a TAP until it is moved to its host.
pub(super) fn tap(number: usize) -> String {
    format!("bf-nic{number}")
}
