// A library is read where it is required first.
require(library shared.click, package p)
require(library both.click);
Idle -> Shared -> Both -> Discard;
