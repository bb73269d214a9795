//! A crate with an element of its own, `examples/own-element`, is a whole Bifrost that has this
//! element as any other: on the command line, and at a hook of a router. (The network of
//! `network.rs`.)

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::network::{Line, SERVER, ports};

/// Bifrost's own crates, which cargo builds anew for another workspace.
const CRATES: [&str; 19] = [
    "bfd",
    "bifrost",
    "config",
    "discovery",
    "doctor",
    "elements",
    "fib",
    "flow",
    "flowlog",
    "graph",
    "mirror",
    "nat",
    "plane",
    "port",
    "rules",
    "traffic",
    "trial",
    "vrrp",
    "wire",
];

/// Builds the crate as it stands, with the versions of everything that the workspace was built
/// with, by the same profile, and of what others made as it was built then. Bifrost's own part is
/// not optimised: that takes minutes, and speed is not the question.
fn build() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let package = workspace.join("examples/own-element");
    std::fs::copy(workspace.join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    // This program is target/debug/deps/system-...
    let me = std::env::current_exe().unwrap();
    let built_in = me.ancestors().nth(2).unwrap();
    let profile = match built_in.file_name().and_then(|name| name.to_str()).unwrap() {
        "debug" => "dev",
        other => other,
    };
    // Other tests run meanwhile, and are not to lose packets for lack of a core.
    let built = Command::new("nice")
        .args(["-n", "19"])
        .arg(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["build", "--profile", profile, "--offline", "--quiet"])
        .args(CRATES.map(|name| format!("--config=profile.{profile}.package.{name}.opt-level=0")))
        .current_dir(&package)
        .env("CARGO_TARGET_DIR", built_in.parent().unwrap())
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", said(&built));
    built_in.join("own")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

#[test]
fn on_the_command_line_and_at_a_hook() {
    let own = build();
    let click = |arguments: &[&str]| said(&Command::new(&own).arg("click").args(arguments).output().unwrap());

    // Two packets with TTL 64 and one of IPv6 with hop limit 255, in ranges of 16.
    let text = r"
        h :: TtlHistogram(16) -> Discard;
        InfiniteSource(\<45000014 00000000 40110000 0a000001 0a000002>, LIMIT 2) -> MarkIPHeader -> h;
        InfiniteSource(\<60000000 00003bff>, LIMIT 1, STOP true) -> MarkIPHeader -> h";
    assert_eq!(click(&["-e", text, "-h", "h.histogram"]), "64 2\n240 1\n");
    let wrong = click(&["-e", "Idle -> TtlHistogram(0) -> Discard"]);
    assert!(wrong.contains("WIDTH: must be positive"), "{wrong}");
    let page = click(&["--doc", "TtlHistogram"]);
    assert!(page.contains("counts packets by their TTL") && page.contains("histogram"), "{page}");

    let hook = "[graph]\nforward = \"input -> h :: TtlHistogram -> output\"\n";
    let mut net = Line::stopped("own", &(ports("worker", &["left", "right"]) + hook));
    if !net.router.is_bifrost() {
        return;
    }
    net.router.use_program(&own);
    let net = net.started();
    for (address, element) in SERVER.into_iter().zip(["forward4/h", "forward6/h"]) {
        net.router.ask(&format!("write {element}.reset")).unwrap();
        for ttl in [40, 41, 41] {
            net.customer.run(&format!("ping -n -c1 -W1 -t {ttl} {address}")).unwrap();
        }
        let histogram = net.router.ask(&format!("read {element}.histogram")).unwrap();
        // What comes back is the server's own, and so is what it asks of its neighbour.
        assert!(histogram.starts_with("40 1\n41 2\n64 "), "{histogram}");
    }
}
