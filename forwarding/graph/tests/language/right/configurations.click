// A configuration ends at its own parenthesis.
a :: C(simple, (balanced (parentheses)), ")", '(', "\")", \<28 /* ) */ 29>);
b :: C( spaces stay , "several
lines" ,
    // a comment with a ) in it
    last);
c :: C();
d :: C("\\") e :: C('\');
f :: C(ünïcödé "→");
