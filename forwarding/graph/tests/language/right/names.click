// Letters, digits, underscores, at-signs; slashes inside.
_a :: Idle; b2 :: Idle; 3c :: Idle; a@b :: Idle; x/y :: Idle; x/y/z9 :: Idle; elementclass2 :: Idle;
x/y// a comment, for a slash ends no name
-> x/y/z9
