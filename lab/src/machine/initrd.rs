//! The archive a kernel starts from: busybox, the script it runs, and the modules by which the rest
//! is reached.
//!
//! It is made anew for each boot, which takes milliseconds, so that it never disagrees with this
//! crate. The format is cpio's "newc" (the kernel's
//! Documentation/driver-api/early-userspace/buffer-format.rst).

use std::{fs, io, path::Path};

/// What the root and the agent are reached by. Some of them are part of the kernel itself in newer
/// ones.
const MODULES: [&str; 5] = ["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"];

const INIT: &str = include_str!("init.sh");

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// The archive for the kernel whose modules are in `modules`, with the busybox at `busybox`.
pub fn initrd(busybox: &Path, modules: &Path) -> io::Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "proc", "sys", "host", "above", "root", "modules"] {
        archive.add(folder, FOLDER, b"");
    }
    archive.add("bin/busybox", PROGRAM, &fs::read(busybox)?);
    archive.add("bin/sh", LINK, b"busybox");
    archive.add("init", PROGRAM, INIT.as_bytes());
    archive.add("modules.folder", PROGRAM, modules.as_os_str().as_encoded_bytes());
    let mut names = String::new();
    for module in in_order(&fs::read_to_string(modules.join("modules.dep"))?) {
        let name = module.rsplit('/').next().unwrap_or_default();
        archive.add(&format!("modules/{name}"), PROGRAM, &fs::read(modules.join(module))?);
        names += &format!("{name}\n");
    }
    archive.add("modules.list", PROGRAM, names.as_bytes());
    Ok(archive.ended())
}

/// The files of [`MODULES`] and of what they depend on, each after those it depends on. A line of
/// modules.dep names a file and what it needs, nearest first.
fn in_order(dependencies: &str) -> Vec<&str> {
    let mut order: Vec<&str> = Vec::new();
    for module in MODULES {
        let line = dependencies.lines().filter_map(|line| line.split_once(':')).find(|(file, _)| {
            let name = file.rsplit('/').next().unwrap_or_default();
            name.split_once(".ko").is_some_and(|(name, _)| name == module)
        });
        if let Some((file, needs)) = line {
            for file in needs.split_whitespace().rev().chain([file]) {
                if !order.contains(&file) {
                    order.push(file);
                }
            }
        }
    }
    order
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    files: u32,
}

impl Archive {
    fn add(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.files += 1;
        let (size, name_size) = (content.len() as u32, path.len() as u32 + 1);
        // Number, mode, owner, group, links, time, size, device, device of a node, the name's size,
        // checksum.
        let fields = [self.files, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(path.bytes().chain([0]));
        self.align();
        self.bytes.extend(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn ended(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, b"");
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_what_they_depend_on() {
        let dependencies = "kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz\n\
            kernel/net/9p/9pnet_virtio.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz\n\
            kernel/drivers/net/vrf.ko.xz:\n\
            kernel/fs/overlayfs/overlay.ko.xz:\n";
        let names: Vec<&str> =
            in_order(dependencies).iter().map(|file| file.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["netfs.ko.xz", "9pnet.ko.xz", "9pnet_virtio.ko.xz", "9p.ko.xz", "overlay.ko.xz"]);
    }
}
