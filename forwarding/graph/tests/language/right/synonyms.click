elementclass Q Queue
elementclass R Q;
elementclass S { -> R(3) -> }
elementclass T S
Idle -> Q(1) -> R(2) -> T -> Discard;
