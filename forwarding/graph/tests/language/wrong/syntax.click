-> Null;
a :: Idle -> -> b :: Null;
) ]
a b c :: Null, ;
provide(x);
elementclass;
elementclass X;
elementclass 5 { };
c :: ;
d :: Null [x] -> [1 2] e :: Null [3;
f :: Null -> $x;
