//! Secrets may come from the environment of whoever reads the file.

use std::process::Command;

use config::{Cores, Machine, Router};

const NAME: &str = "BIFROST_SECRET_OF_A_TEST";

/// The environment of a process is set for one of its own: this test, once more.
#[test]
fn a_secret_may_be_in_the_environment() {
    let Ok(secret) = std::env::var(NAME) else {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "a_secret_may_be_in_the_environment"]).env(NAME, "tell-nobody");
        assert!(again.status().unwrap().success());
        return;
    };
    let text = format!(
        "without_ports = \"on\"\n[bgp]\nas = 65001\nrouter_id = \"192.0.2.1\"\n\
         [bgp.neighbour.\"192.0.2.9\"]\nremote_as = 65002\npassword = {{ env = \"{NAME}\" }}\nipv4 = {{}}\n"
    );
    let read = Router::read("router.toml", &text, &Machine { cores: Cores(vec![0, 1]) });
    let router = read.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let [instance] = router.routing.bgp.as_ref().unwrap().instances.as_slice() else { panic!("one") };
    let password = instance.neighbours[0].speaker.password.as_ref().unwrap();
    assert_eq!(password.reveal(), secret);
    assert!(!router.text.contains(&secret) && router.text.contains(NAME));
    let other = text.replace(NAME, "BIFROST_NOTHING");
    let refused = Router::read("router.toml", &other, &Machine { cores: Cores(vec![0, 1]) });
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("the environment here has no BIFROST_NOTHING"), "{refused}");
}
