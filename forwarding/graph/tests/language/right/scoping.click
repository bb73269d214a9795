// Classes and variables belong to the scope they are in, and to those inside it.
define($v outer, $w W)
elementclass Null { -> Null(wrapped) -> }          // the Null inside is the one before
elementclass A {
    define($v inner)
    elementclass B { -> Print($v $w $u) -> }
    -> B -> c :: B -> { $u | -> B -> Print($u) -> } (third) ->
}
Idle -> A -> Null -> Print($v) -> Discard;
elementclass A { -> A -> }
Idle -> A -> Discard;
