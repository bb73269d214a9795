x :: Idle
  -> y;
