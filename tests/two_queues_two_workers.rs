//! With two queues a port and two workers, both work, and nothing is lost or reordered between
//! them. (The network of `network.rs`, with two queues each way.)

use crate::network::{Line, SERVER, all_arrive};

#[test]
fn both_forward() {
    let port = |name| format!("[[port]]\nname = \"{name}\"\nlane = \"worker\"\n");
    let config = format!("{}{}[workers]\ncores = [0, 1]\n", port("left"), port("right"));
    let net = Line::made("queues", &config, 1500, 2).started();
    all_arrive(&net.router, &net.customer, &net.server, &SERVER, 5000);
    if net.router.is_bifrost() {
        let workers = net.router.subject("workers").unwrap();
        let packets: Vec<u64> =
            workers.as_array().unwrap().iter().map(|worker| worker["packets"].as_u64().unwrap()).collect();
        assert_eq!(packets.len(), 2, "{workers}");
        assert!(packets.iter().all(|n| *n > 500), "both workers have their share: {workers}");
    }
}
