// Many ports at once.
a, b, c, d, e :: Box;
a [0, 1, 2] => b, c, [4] d;     // one each
b => [1, 3] c;                  // as many outputs as needed
a [5,] => [7, 8, 9] e;          // 5 and on
c [1] -> b, [1] d;              // one to each
d, e [2] -> [0x10] b;           // each to one
d [1, 2] => [] e;
