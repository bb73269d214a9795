12 :: Idle;
a/34 :: Idle;
é :: Idle;
