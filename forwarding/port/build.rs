//! Writes the headers of what the driver's programs (`forwarding/bpf/*.c`) share with Rust, and
//! compiles the programs with clang.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bpf");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed={}", source.display());
    for (header, facts) in [("facts.h", abi::facts()), ("traffic_facts.h", abi::traffic::facts())] {
        std::fs::write(out.join(header), facts).expect("OUT_DIR can be written");
    }
    for program in ["bifrost", "generate", "inject", "redirect", "tally", "traffic"] {
        compile(&source.join(program).with_extension("c"), &out.join(program).with_extension("o"), &out);
    }
}

fn compile(source: &Path, object: &Path, headers: &Path) {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    println!("cargo::rerun-if-env-changed=CLANG");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    // Debian keeps <asm/types.h> in a folder of the architecture, which clang does not search for
    // the bpf target.
    let include = format!("-I/usr/include/{arch}-linux-gnu");
    let result = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror", &include, "-I"])
        .arg(headers)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .output();
    let advice = "`make run` or `make test` installs what is needed (clang, libbpf-dev); \
                  by hand: apt install clang llvm libbpf-dev";
    match result {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr);
            panic!("{clang} cannot compile {}:\n{message}\n{advice}", source.display());
        }
        Err(error) => {
            panic!("{clang} is needed to compile {}, and does not start: {error}\n{advice}", source.display())
        }
    }
}
