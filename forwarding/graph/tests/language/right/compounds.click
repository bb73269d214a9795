// A compound stands for the elements in it.
elementclass Pipe {
    input -> q :: Queue(10) -> Unqueue -> output;
    input [1] -> q;
    q [1] -> [1] output
}
elementclass Line { input -> a :: Pipe -> output; a [1] -> Discard; Idle -> [1] a }
p :: Pipe;
Idle -> p -> Discard;
Idle -> [1] p [1] -> Discard;
Idle -> l :: Line -> Discard;
Idle -> { input -> Null -> output } -> named :: { -> Null -> } -> Discard;
