/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
#include "maps.h"

static __always_inline __u32 lookup4(__u32 address) {
    for (__u32 i = 0; i < 16; i++) {
        __u32 mask = word32(&fib4, 3 * i + 1), hop = word32(&fib4, 3 * i + 2);
        if (hop && (address & mask) == word32(&fib4, 3 * i))
            return hop;
    }
    return 0;
}

static __always_inline __u32 lookup6(__u64 hi, __u64 lo) {
    (void)lo;
    for (__u32 i = 0; i < 16; i++) {
        __u32 mask = word32(&fib6, 3 * i + 1), hop = word32(&fib6, 3 * i + 2);
        if (hop && ((__u32)(hi >> 32) & mask) == word32(&fib6, 3 * i))
            return hop;
    }
    return 0;
}
