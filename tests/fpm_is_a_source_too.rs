//! Routes that FRR sends over its forwarding plane manager (FPM) are forwarded like those that
//! Linux has. (The network of `bgp_learnt_routes_forward`.)

use std::time::Duration;

use lab::{prefixes, wait_for};

use crate::network::all_arrive;
use crate::upstream::Upstream;

#[test]
fn and_survives_a_restart_of_the_plane() {
    let mut groups = vec![
        (
            "four",
            prefixes::ipv4(2000, &mut prefixes::Random(3)).into_iter().map(Into::into).collect::<Vec<_>>(),
        ),
        ("six", prefixes::ipv6(1000, &mut prefixes::Random(3)).into_iter().map(Into::into).collect()),
    ];
    groups[0].1.push("198.18.7.0/24".parse().unwrap());
    groups[1].1.push("2001:db8:77::/48".parse().unwrap());
    let mut net = Upstream::new("fpm", "auto", &groups, "[fpm]\nlisten = \"127.0.0.1:2620\"\n");
    net.learnt(3002, Duration::from_secs(15));
    let hosts = ["198.18.7.1", "2001:db8:77::1"];
    hosts.iter().for_each(|address| net.isp_is(address));
    for _ in 0..2 {
        if net.router.is_bifrost() {
            wait_for("the routes by FPM", Duration::from_secs(15), || {
                let mirror = net.router.subject("mirror").unwrap();
                let connected =
                    mirror["fpm"]["connected"] == true && mirror["fpm"]["frames"].as_u64() > Some(100);
                if connected && mirror["synced"] == true { Ok(()) } else { Err(mirror.to_string()) }
            })
            .unwrap();
        }
        hosts.iter().for_each(|address| net.customer.reaches(address, Duration::from_secs(5)).unwrap());
        all_arrive(&net.router, &net.customer, &net.isp, &hosts, 1000);
        net.router.stop().unwrap();
        net.router.restart().unwrap();
    }
}
