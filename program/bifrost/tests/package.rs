//! The package installs into a root of its own, is complete, and leaves nothing behind.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

fn dpkg(root: &Path, arguments: &[&str]) {
    let mut command = Command::new("dpkg");
    command.arg(format!("--root={}", root.display()));
    // Nobody's system: without the libraries that the package needs, and without a shell for its
    // scripts.
    run(command.args(["--force-depends", "--force-script-chrootless"]).args(arguments));
}

/// Files and links below a folder.
fn files(root: &Path) -> BTreeSet<String> {
    let said = run(Command::new("find").arg(root).args(["!", "-type", "d", "-printf", "%P\n"]));
    said.lines().filter(|file| !file.starts_with("var/lib/dpkg/")).map(str::to_owned).collect()
}

#[test]
fn a_package_installs_whole_and_goes_without_a_trace() {
    let house = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_bifrost"));
    run(Command::new("lab/package.sh").arg(program).current_dir(house));
    let made = house.join("target/package");
    let package = files(&made).into_iter().find(|file| file.ends_with(".deb")).unwrap();
    let package = made.join(package);

    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    for folder in ["info", "updates", "triggers"] {
        std::fs::create_dir_all(root.join("var/lib/dpkg").join(folder)).unwrap();
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    dpkg(root, &["--install", package.to_str().unwrap()]);
    let there = files(root);
    for file in [
        "usr/sbin/bifrost",
        "lib/systemd/system/bifrost.service",
        "lib/systemd/system/bifrost-bfd.service",
        "usr/lib/x86_64-linux-gnu/wireshark/extcap/bifrost",
        "etc/bifrost/router.toml",
        "usr/share/man/man1/bifrost.1.gz",
        "usr/share/man/man1/bifrost-explain.1.gz",
        "usr/share/man/man5/router.toml.5.gz",
        "usr/share/bash-completion/completions/bifrost",
        "usr/share/zsh/site-functions/_bifrost",
        "usr/share/fish/vendor_completions.d/bifrost.fish",
        "usr/share/doc/bifrost/configuration.md",
    ] {
        assert!(there.contains(file), "{file} is not among {there:?}");
    }
    let unit = std::fs::read_to_string(root.join("lib/systemd/system/bifrost.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/sbin/bifrost ") && !unit.contains("/usr/local"), "{unit}");

    // Stripped, with its symbols beside the package; and it runs.
    let installed = root.join("usr/sbin/bifrost");
    let symbols = files(&made).into_iter().find(|file| file.ends_with(".debug")).unwrap();
    let sections = |path: &Path| run(Command::new("readelf").arg("-SW").arg(path));
    let (built, stripped, kept) = (sections(program), sections(&installed), sections(&made.join(symbols)));
    for section in [".symtab", ".debug_line"] {
        assert!(!stripped.contains(section), "{stripped}");
        assert_eq!(kept.contains(section), built.contains(section), "{kept}");
    }
    assert!(kept.contains(".symtab"), "{kept}");
    assert!(run(Command::new(&installed).arg("--version")).starts_with("bifrost "));

    // The operator's own file outlives the package, and goes when it is purged.
    dpkg(root, &["--remove", "bifrost"]);
    assert_eq!(files(root), BTreeSet::from(["etc/bifrost/router.toml".to_owned()]));
    dpkg(root, &["--purge", "bifrost"]);
    assert_eq!(files(root), BTreeSet::new());
    assert!(!root.join("etc/bifrost").exists() && !root.join("usr").exists());
}

#[test]
fn what_make_installs_it_removes() {
    let house = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let script = |name: &str| {
        let mut command = Command::new(name);
        command.arg(scratch.path()).args(["/opt/bifrost", env!("CARGO_BIN_EXE_bifrost")]).current_dir(house);
        run(&mut command);
    };
    script("lab/install.sh");
    let there = files(scratch.path());
    assert!(there.contains("opt/bifrost/sbin/bifrost") && there.len() > 30, "{there:?}");
    script("lab/uninstall.sh");
    assert_eq!(files(scratch.path()), BTreeSet::from(["etc/bifrost/router.toml".to_owned()]));
}

/// The units let the services do what the programs do, and no more.
#[test]
fn the_units_are_confined_as_the_programs_are() {
    let house = Path::new(env!("CARGO_MANIFEST_DIR"));
    let needed = confine::NEEDED.iter().map(|(capability, _)| *capability).chain([confine::LOCKING]);
    let needed = needed.map(|capability| capability.to_string()).collect();
    for (unit, needed) in [("bifrost.service", needed), ("bifrost-bfd.service", BTreeSet::new())] {
        let path = house.join("systemd").join(unit);
        let text = std::fs::read_to_string(&path).unwrap();
        let bounding = text.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
        let bounding: BTreeSet<String> = bounding.split_whitespace().map(str::to_owned).collect();
        assert_eq!(bounding, needed, "{unit}: the capabilities are those of confine");
        // A thread of each is urgent.
        assert!(text.contains("LimitRTPRIO=1") && !text.contains("RestrictRealtime=yes"), "{unit}");

        // Exposure in tenths. Where systemd is too old to judge a file, or absent, nobody can.
        let judged = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--threshold=26", "--no-pager"])
            .arg(&path)
            .output();
        match judged {
            Ok(judged) => {
                let said = [judged.stdout, judged.stderr].concat();
                let said = String::from_utf8_lossy(&said);
                assert!(judged.status.success() || said.contains("nrecognized option"), "{said}");
            }
            Err(error) => eprintln!("no systemd-analyze here: {error}"),
        }
    }
}
