a :: Idle;
b :: Idle -> a :: Discard;
a(5) -> b;
Idle :: Null;
elementclass A { input :: Null; x :: Null; x :: Idle }
