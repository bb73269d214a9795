define($a 1, $b "two $a", $c 'three $a', $list x y z, $n 1, $empty, $self ${self}, $q say "hi" \ there);
p1 :: Print($a$b, ${a}5, "$a", '$a', \$a, "\$a", $undefined);
p2 :: Print($c, ${undefined-default $a}, ${a-unused}, ${list[1]}, ${list[$n]}, ${list[9]}, ${undefined[0]-none});
p3 :: Print("$q", $q);
p4 :: Print(/* $a */ $a // $a
    , "// $a", $(sub $a), $$, $, $?, ${a, x$a_y, ${});
p5 :: Print([$empty], $self);
