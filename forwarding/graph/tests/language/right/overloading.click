// The part that fits the arguments and the ports is taken.
elementclass Q {
    input -> Queue -> output
|| $n | input -> Queue($n) -> output
|| $n | input, input [1] -> Queue($n) -> output
}
Idle -> Q -> Discard;
Idle -> Q(5) -> Discard;
q :: Q(6) -> Discard;
Idle -> q; Idle -> [1] q;

// What fits none is of the class before: the compound above, then the elements of that name.
elementclass Q { $n, $m | input -> Queue($m) -> output || ... }
Idle -> Q(5) -> Q(5, 7) -> Discard;
elementclass Print { input -> Print(nothing) -> output || ... }
Idle -> Print -> Print(label) -> Discard;
