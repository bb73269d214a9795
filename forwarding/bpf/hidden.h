/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Arithmetic that the compiler cannot look through, so that it neither makes branches of it nor
 * something that the kernel's verifier cannot follow.
 */
#pragma once
#include <linux/types.h>

/*
 * Whether two numbers differ, so that the kernel's verifier learns nothing of them: else it would
 * follow the way from here on once more for each thing that it has learnt.
 */
static __always_inline __u32 differ(__u32 one, __u32 other) {
    __u32 bits = one ^ other;
    asm volatile("" : "+r"(bits));
    return bits;
}

/*
 * 1 if one number is below another, else 0. Without a branch, both ways of which the verifier would
 * follow, and which the CPU often guesses wrongly. The compiler is to see neither that, nor what
 * bits it has: see `whole`.
 */
static __always_inline __u64 is_below(__u32 one, __u32 other) {
    __u64 is = (__u64)one - other;
    asm volatile("" : "+r"(is));
    is >>= 63;
    asm volatile("" : "+r"(is));
    return is;
}

/*
 * A number in which the compiler sees no parts. Otherwise it takes the remainder of each part of an
 * index and joins them with "or", of which the verifier of Linux 6.1 knows no bounds.
 */
static __always_inline __u32 whole(__u32 number) {
    asm volatile("" : "+r"(number));
    return number;
}
