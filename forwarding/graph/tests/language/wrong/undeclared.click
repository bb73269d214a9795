a -> Discard;
Idle -> b -> Discard;
a -> c;
input -> Null -> output;
