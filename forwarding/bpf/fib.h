/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Longest-prefix match in the driver: the same words that the workers read (tables/fib/src/ipv4.rs
 * and ipv6.rs say why they are laid out so; tables/fib/tests/driver.rs holds the two walks against
 * each other).
 *
 * Expects, included before: the maps `fib4` and `fib6` (arrays of struct block32: BLOCK32 = 1024
 * words of 32 bits), word32(map, index), and FIB4_REST, 8 or 16. The answer is an index into
 * `nexthops`; 0 = no route.
 *
 * A word without FIB_POINTER is a route: the next hop in its low 22 bits (above them the prefix
 * length, which only the writer needs).
 *
 * fib4: the word of the first bits at address >> FIB4_REST; with FIB_POINTER it is the number of a
 * block of 256 words, one for each value of the next 8 bits. At the last 8 a word is a route.
 *
 * fib6: the word of the first 16 bits at 0; with FIB_POINTER, the line (of 16 words) where 4096
 * words begin, one for each value of the next 12 bits. From there on the address is taken in
 * windows of 32 bits. A word with FIB_POINTER is a line: eight range ends, ascending, then eight
 * words; the key belongs to the first range whose end is not below it. With FIB_NEXT the line
 * belongs to the next window.
 *
 * A table beside the main one (tables/fib/src/beside.rs) is two words at FIB_ROOTS, one for each
 * family, with which a walk of windows begins.
 *
 * The writer stores single words, and shows a line only when it is complete; no line is used again
 * before an RCU grace period, and the program runs inside an RCU read section. So a walk never sees
 * a half-made state.
 */
#pragma once

#include "abi.h"
#include "hidden.h"

/* More than the writer ever makes a walk (four windows of at most eight lines, and a spare). What
 * would be longer is answered as no route, which the worker looks into. */
#define FIB_LINES 36

static __always_inline __u32 lookup4(__u32 address) {
    __u32 word = word32(&fib4, address >> FIB4_REST);
    if (FIB4_REST == 16 && word & FIB_POINTER)
        word = word32(&fib4, word << 8 | (address >> 8 & 255));
    if (word & FIB_POINTER)
        word = word32(&fib4, word << 8 | (address & 255));
    return word & FIB_ID;
}

/* One step down: the word of the key's range. */
static __always_inline __u32 fib_step(__u32 line, __u32 key) {
    __u32 number = line / (BLOCK32 / 16);
    struct block32 *block = bpf_map_lookup_elem(&fib6, &number);
    if (!block)
        return 0;
    volatile __u32 *words = &block->word[line % (BLOCK32 / 16) * 16];
    __u64 range = is_below(words[3], key) * 4;
    range += is_below(words[range + 1], key) * 2;
    range += is_below(words[range], key);
    return words[8 + range];
}

/* From the word of a window on, with which the address begins. */
static __always_inline __u32 fib_walk(__u32 word, __u64 high, __u64 low) {
    for (int i = 0; i < FIB_LINES; i++) {
        if (!(word & FIB_POINTER))
            return word & FIB_ID;
        /* 32 with FIB_NEXT, else 0. */
        __u32 bits = word / (FIB_NEXT / 32) & 32;
        high = high << bits | low >> 32 >> (32 - bits);
        low <<= bits;
        word = fib_step(word & FIB_LINE, high >> 32);
    }
    return 0;
}

/* The address as two numbers, host order. */
static __always_inline __u32 lookup6(__u64 high, __u64 low) {
    __u32 word = word32(&fib6, high >> 48);
    if (!(word & FIB_POINTER))
        return word & FIB_ID;
    word = word32(&fib6, (word & FIB_LINE) * 16 + (high >> 36 & 4095));
    return fib_walk(word, high << 28 | low >> 36, low << 28);
}

/* The same in a table beside the main one; an address of IPv4 is the first half of `high`. Where
 * the next hop is of KIND_NONE, the main one decides. */
static __always_inline __u32 lookup_beside(__u32 table, int ipv6, __u64 high, __u64 low) {
    return fib_walk(word32(&fib6, FIB_ROOTS + table * 2 + ipv6), high, low);
}
