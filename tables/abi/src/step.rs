//! The driver's programs behind the first, and their places in the maps by which it goes on to
//! them. Names are those of the programs.

numbered! {
    steps, "STEP_", "STEPS";
    /// A program of the map `steps`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Step as "step" {
        OffloadedIpv4 "offloaded_ipv4" "Packets of IPv4 whose flow is decided.",
        OffloadedIpv6 "offloaded_ipv6" "Packets of IPv6 whose flow is decided.",
        SendIpv6 "send_ipv6" "Behind the one before: sends them.",
        Tagged "tagged" "Frames with VLAN tags: takes them off.",
        Untagged "untagged" "Behind the one before: decides about them.",
        Beside "beside" "Frames of interfaces in VRFs: looks for their route.",
        Routed "routed" "Behind the one before: decides about them.",
        Strange "strange" "Frames of hosts that their bridge does not know.",
    }
}

numbered! {
    gates, "GATE_", "GATES";
    /// A program of the map `gate`: the last step to a worker.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Gate as "gate" {
        ToWorker "to_worker" "Whatever is for a worker.",
        StrangerToWorker "stranger_to_worker" "The same of a host that its bridge does not know.",
    }
}
