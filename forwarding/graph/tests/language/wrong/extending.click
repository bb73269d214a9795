elementclass A { -> Null -> || ... }
elementclass Null { ... }
elementclass Null { -> Null -> || ... || Idle }
x :: { Idle || ... };
Foo, x -> Discard
