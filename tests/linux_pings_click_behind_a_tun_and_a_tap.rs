//! Linux pings hosts that are only graphs: one behind a TUN device, and one behind a TAP device,
//! which answers ARP as well. The interfaces go with the program.

use std::time::Duration;

use lab::{Click, Lab};

use crate::network::turn;

const HOSTS: &str = "
tun :: KernelTun(10.9.0.1/24, DEVNAME tun7, MTU 1400);
tun -> CheckIPHeader -> ICMPPingResponder -> tun;

tap :: KernelTap(10.8.0.1/24, DEVNAME tap7);
tap -> kind :: Classifier(12/0806 20/0001, 12/0800, -);
kind[0] -> ARPResponder(10.8.0.2 02:00:00:00:08:02) -> tap;
kind[1] -> CheckIPHeader(14) -> ICMPPingResponder -> EtherMirror -> tap;
kind[2] -> Discard;
";

#[test]
fn as_long_as_it_runs() {
    let _turn = turn();
    let lab = Lab::new("clicktun").unwrap();
    let host = lab.host("host").unwrap();
    host.sysctl(&[("net.ipv6.conf.default.disable_ipv6", "1")]).unwrap();
    let mut click = Click::start(&host, HOSTS).unwrap();
    for (address, device) in [("10.9.0.2", "tun"), ("10.8.0.2", "tap")] {
        let said = host.run(&format!("ping -n -c5 -i0.05 -W1 -s 1300 {address}"));
        said.unwrap_or_else(|error| panic!("{error}\n{}", click.process().output()));
        let packets: u64 = click.read(&format!("{device}.packets")).unwrap().trim().parse().unwrap();
        assert!(packets >= 5, "{device}: {packets}");
        assert_eq!(click.read(&format!("{device}.dev_name")).unwrap().trim(), format!("{device}7"));
    }
    assert_eq!(host.interface_number("tun7", "mtu").unwrap(), 1400);
    let neighbour = host.run("ip neighbour show 10.8.0.2").unwrap();
    assert!(neighbour.contains("02:00:00:00:08:02"), "{neighbour}");

    click.process().stop(Duration::from_secs(5)).unwrap();
    assert!(host.run("ip link show tun7").is_err() && host.run("ip link show tap7").is_err());
}
