//! What the kernel can do, and what it counts time with.

use crate::{Area, Finding, Level, Place, Unread};

/// AF_XDP with busy polling, and links for XDP programs that die with the process.
const OLDEST: (u32, u32) = (5, 11);
/// Tells of interfaces' XDP features, virtio's zero-copy among them.
const BETTER: (u32, u32) = (6, 11);

pub(crate) fn check(place: &Place, findings: &mut Vec<Finding>) {
    findings.push(release(place));
    findings.push(btf(place));
    findings.push(jit(place));
    findings.push(sockets(place));
    findings.push(clock(place));
}

fn release(place: &Place) -> Finding {
    let finding = |level, text: String| Finding::new(Area::Kernel, "release", level, text);
    let release = match place.text("proc/sys/kernel/osrelease") {
        Ok(release) => release,
        Err(why) => return finding(Level::Unknown, why.to_string()),
    };
    let mut numbers =
        release.split(|character: char| !character.is_ascii_digit()).map(|part| part.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (numbers.next(), numbers.next()) else {
        let release: String = release.chars().take(40).collect();
        return finding(Level::Unknown, Unread::Garbage(release).to_string());
    };
    let (oldest, better) = (format!("{}.{}", OLDEST.0, OLDEST.1), format!("{}.{}", BETTER.0, BETTER.1));
    match (major, minor) {
        version if version < OLDEST => {
            finding(Level::Problem, format!("{release}: Bifrost's ports need {oldest}"))
                .mend("install a newer kernel")
        }
        version if version < BETTER => {
            let text = format!("{release}: works; {better} has zero-copy for more drivers, and tells which");
            finding(Level::Advice, text).mend("install a newer kernel")
        }
        _ => finding(Level::Ok, release),
    }
}

fn btf(place: &Place) -> Finding {
    let finding = |level, text: &str| Finding::new(Area::Kernel, "BTF", level, text);
    match place.has("sys/kernel/btf/vmlinux") {
        true => finding(Level::Ok, "the kernel describes its types"),
        false if !place.has("sys/kernel") => finding(Level::Unknown, &Unread::Missing.to_string()),
        false => finding(Level::Advice, "missing: tools that look into the kernel (bpftrace, perf) see less")
            .mend("install a kernel with CONFIG_DEBUG_INFO_BTF=y"),
    }
}

fn jit(place: &Place) -> Finding {
    let finding = |level, text: String| Finding::new(Area::Kernel, "BPF", level, text);
    match place.number("proc/sys/net/core/bpf_jit_enable") {
        Ok(0) => {
            finding(Level::Problem, "programs in the driver are interpreted, many times slower".to_owned())
                .mend("sysctl -w net.core.bpf_jit_enable=1")
        }
        Ok(_) => match place.number("proc/sys/net/core/bpf_jit_harden") {
            Ok(2) => finding(
                Level::Advice,
                "compiled, but hardened for root's programs as well, which are slower".to_owned(),
            )
            .mend("sysctl -w net.core.bpf_jit_harden=1"),
            _ => finding(Level::Ok, "programs are compiled".to_owned()),
        },
        // Settings of the whole machine are seen in its own network namespace only: this one, and
        // that of the budget.
        Err(Unread::Missing) if !place.has("proc/sys/net/core/netdev_budget") => {
            finding(Level::Unknown, "not to be seen in this network namespace".to_owned())
        }
        Err(Unread::Missing) => match place.has("proc/sys/kernel/unprivileged_bpf_disabled") {
            true => {
                let text = "this kernel cannot compile programs in the driver, so they are interpreted, many times slower";
                finding(Level::Problem, text.to_owned()).mend("install a kernel with CONFIG_BPF_JIT=y")
            }
            false => finding(Level::Problem, "this kernel has none: no port can be taken".to_owned())
                .mend("install a kernel with CONFIG_BPF_SYSCALL=y and CONFIG_BPF_JIT=y"),
        },
        Err(why) => finding(Level::Unknown, why.to_string()),
    }
}

fn sockets(place: &Place) -> Finding {
    let finding = |level, text: String| Finding::new(Area::Kernel, "AF_XDP", level, text);
    match place.text("proc/net/protocols") {
        Ok(text) if text.lines().any(|line| line.split_whitespace().next() == Some("XDP")) => {
            finding(Level::Ok, "there".to_owned())
        }
        Ok(_) => finding(Level::Problem, "missing: workers have no way to packets".to_owned())
            .mend("install a kernel with CONFIG_XDP_SOCKETS=y"),
        Err(why) => finding(Level::Unknown, why.to_string()),
    }
}

fn clock(place: &Place) -> Finding {
    let finding = |level, text: String| Finding::new(Area::Kernel, "clock", level, text);
    let base = "sys/devices/system/clocksource/clocksource0";
    let current = match place.text(&format!("{base}/current_clocksource")) {
        Ok(current) => current,
        Err(why) => return finding(Level::Unknown, why.to_string()),
    };
    match current.as_str() {
        "tsc" | "arch_sys_counter" => finding(Level::Ok, current),
        "kvm-clock" | "hyperv_clocksource_tsc_page" => finding(
            Level::Ok,
            format!("{current}: read without leaving the machine, by way of the host's table"),
        ),
        _ => {
            let other = place.text(&format!("{base}/available_clocksource")).unwrap_or_default();
            let text = format!("{current}: every look at the time costs about a microsecond");
            let mended = finding(Level::Problem, text);
            match other.split_whitespace().any(|name| name == "tsc") {
                true => mended.mend(format!("echo tsc >/{base}/current_clocksource")),
                false => mended.mend("find in `dmesg | grep -i tsc` why the TSC was given up"),
            }
        }
    }
}
