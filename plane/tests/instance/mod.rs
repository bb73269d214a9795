//! The standard router with a policy, between the ports `inside` and `outside`, as tests run it.

use elements::router::SharedSeat;
use elements::router::standard::{self, Hooks, Stages, Standard};
use fib::PortId;
use graph::{Environment, Graph, NodeId, Sinks};
use plane::Policy;

pub const IN: PortId = PortId(1);
pub const OUT: PortId = PortId(2);

/// What runs, and where its packets end up.
pub struct Instance {
    pub graph: Graph,
    pub entry: NodeId,
    pub seat: SharedSeat,
    pub sinks: Sinks,
}

impl Instance {
    /// With the policy's stages, or others.
    pub fn new(mut environment: Environment, policy: &Policy, stages: Stages) -> Instance {
        policy.share(&mut environment);
        policy.translate(&[(IN, "inside"), (OUT, "outside")].map(|(id, name)| nat::Port {
            number: id.0,
            name: name.to_owned(),
            addresses: Vec::new(),
        }));
        let seat = policy.seat(0).unwrap();
        environment.share(seat.clone());
        let registry = elements::registry();
        let program = standard::program(&Hooks::default(), &stages, &registry, &environment).unwrap();
        let Standard { graph, entry } = standard::instance(&program, &environment).unwrap();
        let mut sinks = Sinks::new();
        [IN, OUT].into_iter().for_each(|port| sinks.open(port));
        Instance { graph, entry, seat, sinks }
    }
}
