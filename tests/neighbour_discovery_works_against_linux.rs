//! `bifrost click` routes IPv6 between two Linux hosts, and finds them, and is found by them, by
//! neighbour discovery. (The network of `ethernets.rs`.)

use std::time::Duration;

use lab::{Flows, Ping, Sink, transfer};

use crate::ethernets::{ETHERS, Ethernets};
use crate::network::at;

const ROUTER: &str = r"
elementclass Ethernet { $device, $ip, $ether, $mtu |
    FromDevice($device, PROMISC true)
        -> kind :: Classifier(12/86dd 20/3a 54/87, 12/86dd 20/3a 54/88, 12/86dd, -);
    out :: Queue(500) -> ToDevice($device);
    nd :: IP6NDSolicitor($ip, $ether) -> out;
    kind[0] -> IP6NDAdvertiser($ip/128 $ether) -> out;
    kind[1] -> [1] nd;
    kind[2] -> Strip(14) -> output;
    kind[3] -> Discard;

    input -> hops :: DecIP6HLIM -> cut :: IP6Fragmenter($mtu) -> [0] nd;
    hops[1] -> ICMP6Error($ip, 3, 0) -> output;
    cut[1] -> ICMP6Error($ip, 2, 0, PMTU $mtu) -> output;
}

left :: Ethernet(left, 2001:db8:1::1, 02:00:00:00:01:01, 1500);
right :: Ethernet(right, 2001:db8:2::1, 02:00:00:00:02:01, 1300);

check :: CheckIP6Header
    -> GetIP6Address(24)
    -> table :: LookupIP6Route(2001:db8:1::/64 0, 2001:db8:2::/64 1, ::/0 2);
left -> check;
right -> check;
table[0] -> left;
table[1] -> right;
table[2] -> Discard;
";

#[test]
fn and_packets_pass_both_ways() {
    let mut net = Ethernets::new("clicknd", 1300, ROUTER);
    let second = Duration::from_secs(1);
    let reached = net.alice.reaches("2001:db8:2::2", 5 * second);
    reached.unwrap_or_else(|e| panic!("{e}\n{}", net.click.process().output()));
    net.bob.reaches("2001:db8:1::2", second).unwrap();

    // Each side has learnt the other's Ethernet address.
    assert_eq!(Ethernets::neighbour(&net.alice, "2001:db8:1::1"), ETHERS[0]);
    assert_eq!(Ethernets::neighbour(&net.bob, "2001:db8:2::1"), ETHERS[1]);
    for (interface, host, address) in
        [("left", &net.alice, "2001:db8:1::2"), ("right", &net.bob, "2001:db8:2::2")]
    {
        let table = net.click.read(&format!("{interface}/nd.table")).unwrap().to_lowercase();
        let ether = host.mac("eth0").unwrap().replace(':', "-");
        assert!(
            table.lines().any(|line| line.contains(address) && line.contains(&ether)),
            "{ether}: {table}"
        );
    }

    // Linux asks again, of the router alone, when it is no longer sure; the router answers that as
    // well.
    net.alice.run("ip neighbour change 2001:db8:1::1 dev eth0 nud probe").unwrap();
    lab::wait_for("the neighbour to be confirmed", 3 * second, || {
        let line = net.alice.run("ip neighbour show 2001:db8:1::1").map_err(|error| error.to_string())?;
        if line.contains("REACHABLE") { Ok(()) } else { Err(line) }
    })
    .unwrap();

    let hops = net.alice.run("traceroute -6 -n -q 1 -w 2 -m 5 2001:db8:2::2").unwrap();
    let seen: Vec<_> = hops.lines().skip(1).filter_map(|hop| hop.split_whitespace().nth(1)).collect();
    // The errors of this text are from the interface that the packet would have left by.
    assert_eq!(seen, ["2001:db8:2::1", "2001:db8:2::2"], "{hops}");
    let too_big = net.alice.run("ping -6 -n -c1 -W2 -M do -s 1400 2001:db8:2::2").unwrap_err().to_string();
    assert!(too_big.contains("1300"), "{too_big}");

    // Nothing is lost, and a stream is whole.
    let ping = Ping::start(&net.bob, "2001:db8:1::2", Duration::from_millis(10)).unwrap();
    let sink = Sink::start(&net.bob, 9000).unwrap();
    let flows = Flows::start(&net.alice, vec![at("2001:db8:2::2", 9000)], 8, 64, 2000).unwrap();
    sink.has_received(2000, Duration::from_secs(10)).unwrap();
    let sent = flows.stop();
    sink.has_received(sent, 2 * second).unwrap();
    let ping = ping.stop();
    assert_eq!(ping.lost(), 0, "{ping:?}");
    let stream = transfer(&net.alice, &net.bob, "2001:db8:2::2".parse().unwrap(), 10 << 20).unwrap();
    assert_eq!(stream.sent, stream.arrived);
    assert_eq!(net.between.linux_forwarded().unwrap(), 0, "Linux is no router there");
}
