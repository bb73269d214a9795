require(library shared.click)
elementclass Both { -> Shared -> Print(both) -> }
fromlibrary :: Idle -> Discard;
