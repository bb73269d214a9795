// A chain connects, and may declare on the way.
i :: Idle -> Counter -> q :: Queue(5) -> Unqueue -> Discard;
i [1] -> [1] j :: Join [2] -> Discard;
Idle -> j;
// To go round is allowed.
x :: Ring -> y :: Ring -> x;
