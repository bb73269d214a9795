a :: C(1,
# 7 "other.click"
2);
# 9 "other.click"
b :: C;
#line 20 ""
Idle -> Discard;
