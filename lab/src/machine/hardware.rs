//! What a machine is made of, as QEMU is told it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use nix::unistd::geteuid;

use super::{
    BOOT, CACHE, FOLDERS, KERNELS, Machine,
    initrd::initrd,
    nic::{Nic, Wire, tap},
    start,
};
use crate::{Host, LabError, Result};

const QEMU: &str = "qemu-system-x86_64";
/// The processor of an emulated guest. QEMU executes `rep movsb` byte by byte, so the flags that
/// tell Linux to copy with it (ERMS, FSRM) are off. A fifth level of page tables (LA57) costs time.
const EMULATED: &str = "max,-erms,-fsrm,-la57";

/// Whether guests start with KVM here, found out once: `kvm` or `tcg` (emulated).
const ACCELERATOR: &str = "/run/bifrost-machines/accelerator";
/// Where a guest starts with KVM at all, it needs a second or two.
const KVM_BOOT: Duration = Duration::from_secs(15);

/// A machine to be booted.
#[derive(Clone, Debug)]
pub struct Hardware {
    pub(super) kernel: String,
    cores: u32,
    megabytes: u32,
    systemd: bool,
    pub(super) nics: Vec<Nic>,
}

impl Hardware {
    /// One core, 2 GB of memory, and one of [`KERNELS`].
    ///
    /// Each emulated core is a thread here. Several wait for one another while they have no core of
    /// this machine's: two guests with two each took 175 s for what took 101 s with one each. Linux
    /// changes its code while other cores run it, too, which QEMU sometimes gets wrong (a kernel
    /// panic at `int3`).
    pub fn new(kernel: &str) -> Hardware {
        let kernel = kernel.to_owned();
        Hardware { kernel, cores: 1, megabytes: 2048, systemd: false, nics: Vec::new() }
    }

    /// Another number of cores: a card has no more queues than that.
    pub fn cores(mut self, cores: u32) -> Hardware {
        self.cores = cores;
        self
    }

    /// Another size of memory.
    pub fn megabytes(mut self, megabytes: u32) -> Hardware {
        self.megabytes = megabytes;
        self
    }

    /// With systemd, which starts nothing but what it needs itself; else there are no services.
    pub fn systemd(mut self) -> Hardware {
        self.systemd = true;
        self
    }

    /// One more network card.
    pub fn nic(mut self, nic: Nic) -> Hardware {
        self.nics.push(nic);
        self
    }

    /// Boots it.
    ///
    /// # Errors
    /// As [`Machine::boot`].
    pub fn boot(self) -> Result<Machine> {
        if !geteuid().is_root() {
            return Err(LabError::NotRoot);
        }
        match fs::read_to_string(ACCELERATOR).unwrap_or_default().as_str() {
            "" if Path::new("/dev/kvm").exists() => match self.boot_with("kvm", KVM_BOOT) {
                Ok(machine) => remember("kvm", machine),
                Err(_) => remember("tcg", self.boot_with("tcg", BOOT)?),
            },
            "kvm" => self.boot_with("kvm", BOOT),
            _ => self.boot_with("tcg", BOOT),
        }
    }

    fn boot_with(&self, accelerator: &str, limit: Duration) -> Result<Machine> {
        let kernel = self.fetched()?;
        let folder = self.folder()?;
        let modules = kernel.join("modules");
        let made = initrd(&Path::new(CACHE).join("busybox"), &modules)
            .and_then(|archive| fs::write(folder.join("initrd"), archive))
            .and_then(|()| fs::write(folder.join("agent"), include_str!("agent.sh")));
        made.map_err(LabError::io(folder.display().to_string()))?;

        let within = |file: &str| folder.join(file).display().to_string();
        let mut qemu: Vec<String> = self.namespace();
        qemu.push(QEMU.into());
        let mut says = |words: &str| qemu.extend(words.split(' ').map(str::to_owned));
        says("-nodefaults -no-user-config -display none -no-reboot -M q35 -cpu");
        says(if accelerator == "kvm" { "max" } else { EMULATED });
        says(&format!("-accel {accelerator} -smp {} -m {}", self.cores, self.megabytes));
        says(&format!("-kernel {}/vmlinuz -initrd {}", kernel.display(), within("initrd")));
        says(&format!("-serial file:{}", within("console")));
        says("-virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap");
        says(&format!("-virtfs local,path={},mount_tag=share,security_model=none", folder.display()));
        says("-device virtio-serial-pci -device virtserialport,chardev=agent,name=agent");
        says(&format!("-chardev socket,id=agent,server=on,wait=off,path={}", within("agent.sock")));
        says(&format!("-qmp unix:{},server=on,wait=off", within("qmp.sock")));
        for (number, nic) in self.nics.iter().enumerate() {
            says(&format!("-netdev {} -device {}", nic.netdev(number), Nic::slot(number)));
            says(&format!("-device {}", nic.device(number)));
        }
        says("-append");
        let systemd = if self.systemd { " net.ifnames=0 machine.systemd" } else { "" };
        qemu.push(format!("console=ttyS0 quiet oops=panic panic=-1 mitigations=off{systemd}"));
        start(self, &folder, &qemu, limit)
    }

    /// The words that start QEMU where its TAPs may be made: in a namespace of the lab, never in
    /// this machine's own.
    fn namespace(&self) -> Vec<String> {
        match self.taps().next() {
            Some((_, host, _)) => ["ip", "netns", "exec", host.namespace()].map(str::to_owned).into(),
            None => Vec::new(),
        }
    }

    /// Moves each TAP, which QEMU has made, to the host it is for.
    pub(super) fn connect(&self) -> Result<()> {
        let Some((_, first, _)) = self.taps().next() else { return Ok(()) };
        for (number, host, interface) in self.taps() {
            let (tap, namespace) = (tap(number), host.namespace());
            first.run(&format!("ip link set {tap} netns {namespace} name {interface}"))?;
            host.run(&format!("ip link set {interface} up"))?;
        }
        Ok(())
    }

    fn taps(&self) -> impl Iterator<Item = (usize, &Host, &str)> {
        self.nics.iter().enumerate().filter_map(|(number, nic)| match &nic.wire {
            Wire::Tap(host, interface) => Some((number, host, interface.as_str())),
            Wire::Cable(_) => None,
        })
    }

    /// Where its kernel is.
    fn fetched(&self) -> Result<PathBuf> {
        let kernel = Path::new(CACHE).join(&self.kernel);
        let fails = |what: String| {
            Err(LabError::Machine { kernel: self.kernel.clone(), what, console: String::new() })
        };
        if !KERNELS.contains(&self.kernel.as_str()) {
            return fails(format!("is none of those there are: {}", KERNELS.join(", ")));
        }
        if !kernel.join("release").exists() {
            return fails(format!("has no kernel in {}: lab/setup.sh machines fetches it", kernel.display()));
        }
        if !Path::new("/usr/bin").join(QEMU).exists() {
            return fails(format!("needs {QEMU}: lab/setup.sh machines installs it"));
        }
        Ok(kernel)
    }

    /// A folder for it, which the leash removes.
    fn folder(&self) -> Result<PathBuf> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Relaxed);
        let folder = Path::new(FOLDERS).join(format!("{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).map_err(LabError::io(folder.display().to_string()))?;
        Ok(folder)
    }
}

/// For the next machine, once one has booted.
fn remember(accelerator: &str, machine: Machine) -> Result<Machine> {
    let _it_is_found_out_again = fs::write(ACCELERATOR, accelerator);
    Ok(machine)
}
