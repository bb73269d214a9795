elementclass A { $x | -> Null($x) -> || $x, KEY $y | -> Null($x, $y) -> || __REST__ $z | Idle($z) }
Idle -> A -> Discard;
Idle -> A(1, OTHER 2) -> Discard;
elementclass B { $x, $y | -> Null($x) -> }
Idle -> B(1) -> Discard;
{ $a | Idle($a) };
