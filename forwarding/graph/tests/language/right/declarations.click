// Elements are declared by name, several at once, or by their class alone.
source :: InfiniteSource(LIMIT 5, STOP true);
a, b, c :: Queue(10);
Idle;
d :: Discard() e :: Discard;   // no semicolon is needed
