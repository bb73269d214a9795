elementclass A { -> Null -> [0], Null -> output }
elementclass B { -> Null -> Discard; -> Null -> }
elementclass C { [1] }
[1];
