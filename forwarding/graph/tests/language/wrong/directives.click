# nonsense
x -> Discard;
# 30 "elsewhere.click"
y -> Discard;
#include "a"
z :: C(
#pragma
);
