/* First */ a /* name */ :: /* class */ Idle /* configuration */ (1 /* inside */, 2 // to the end )
) /* behind */; // end

// On its own line,
// and another.

a // first
    -> b :: Null // second
    /* own line */
    -> /* third */ Discard;

elementclass E { // opens
    // alone
    -> /* in */ Null ->; // last
    // closing
} /* over */
b [1] -> e :: E -> Discard; /* more
   than one line */ // and one
(/* group */ Idle ->) -> Discard // the end
