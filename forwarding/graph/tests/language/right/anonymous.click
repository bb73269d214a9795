// Anonymous elements are numbered by their place in the scope, tunnels and named elements included.
Idle -> Discard;
x :: Idle;
Idle -> Null -> Discard;
y :: { Idle -> Null -> Null -> output } -> Discard;
Idle -> (-> Null ->) -> Discard;
{ Idle -> output } -> Discard;
// A name that is taken is not given again.
Null@20 :: Null; Null@21 :: Null;
Idle -> Null -> Discard;
Idle -> Null -> Null@20 -> Null@21 -> Discard;
