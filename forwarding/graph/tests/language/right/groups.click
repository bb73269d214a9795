// A group has inputs and outputs of its own, yet its elements belong to the scope around it.
a, z :: Box;
a => (-> b :: Box ->), (-> c :: Box ->), d :: Box -> z;
b [1] -> [1] c;
a [5] -> (-> (->) -> (->) ->) -> [5] z;
Idle -> ([0] -> Null -> [0]) -> [6] z;
a [7, 8] => (-> Null ->; [1] -> Paint(1) -> [1]) => [7, 8] z;
