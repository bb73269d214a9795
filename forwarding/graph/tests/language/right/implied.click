// Where nothing stands before the first arrow or behind the last, the input and the output are meant.
elementclass A { -> Null -> }
elementclass B { [1] -> Null -> [1]; -> Null -> }
elementclass C { [0], [1] -> x :: Null -> [1], [0] }
elementclass D { => a :: Null, b :: Null => }
Idle -> A -> Discard;
s :: Split [0,1] => B => [0,1] j :: Join;
s [2,3] => C => [2,3] j;
s [4,5] => D => [4,5] j;
