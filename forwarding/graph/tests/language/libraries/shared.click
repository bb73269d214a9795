elementclass Shared { -> Print(shared $who) -> }
define($who me)
