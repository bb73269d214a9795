elementclass A {
    -> Null ->;
a :: (-> Idle };
x -> Discard;
