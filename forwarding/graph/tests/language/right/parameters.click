// Parameters are positional, by keyword, or what is left.
elementclass A { $x, LIMIT $limit, __REST__ $rest |
    input -> Print($x, $rest) -> Queue($limit) -> output
}
elementclass B { $a, $b | Idle -> Print($a, "$b") -> Discard }
elementclass All { __REST__ $all | InfiniteSource($all) -> Discard }
Idle -> A(hello, MAXLENGTH 10, LIMIT 5, NBYTES 3) -> Discard;
Idle -> A("x, y", LIMIT 7) -> Discard;
B(1, "two \"words\"");
All(DATA "a", LIMIT 1);
All;
All(/* nothing */);
