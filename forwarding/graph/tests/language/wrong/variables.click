define($a 1, b 2, $c-d 3, $a 4);
define $e;
elementclass A { $a, $a | define($a 1, $b 2, $b 3); }
elementclass B { KEY $a, $b | }
elementclass C { __REST__ $a, KEY $b, KEY $c | }
elementclass D { $a $b | -> Null -> }
elementclass E { $a, Null -> Null }
