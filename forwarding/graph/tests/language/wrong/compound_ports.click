elementclass Gap { input -> a :: Null -> output; input [2] -> a -> [2] output }
elementclass Wrong { a :: Idle -> input; output -> a }
elementclass Good { -> Null ->; [1] -> Null -> [1] }
Idle -> g :: Good -> Discard;
h :: Good;
Idle -> [2] h [2] -> Discard;
Idle -> (-> Null ->; [2] -> Null) -> Discard;
