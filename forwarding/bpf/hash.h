/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The flow hash: tables/wire/src/flow_hash.rs in C, bit for bit. Both lanes must choose the same
 * path for a flow. */
#pragma once
#include <linux/types.h>

/* wire::flow_key, which user space sets. */
volatile const __u64 FLOW_KEY = 0;

static __always_inline __u64 mix(__u64 x) {
    x ^= x >> 32;
    x *= 0x9E3779B97F4A7C15ull;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9ull;
    return x ^ x >> 32;
}

static __always_inline __u32 flow_hash(__u64 addresses, __u8 protocol, __u32 ports) {
    __u64 p = (__u64)protocol << 32 | ports;
    return (__u32)(mix(mix(addresses) ^ p) >> 16);
}

/* Host order numbers. `ports` is source << 16 | destination, or 0 where there are none. */
static __always_inline __u32 flow_hash4(__u32 source, __u32 destination, __u8 protocol, __u32 ports) {
    return flow_hash(((__u64)source << 32 | destination) ^ FLOW_KEY, protocol, ports);
}

static __always_inline __u32 flow_hash6(__u64 source_hi, __u64 source_lo, __u64 destination_hi,
                                        __u64 destination_lo, __u8 next_header, __u32 ports) {
    __u64 a = mix(source_hi ^ FLOW_KEY) ^ (source_lo << 17 | source_lo >> 47);
    a = mix(a) ^ destination_hi;
    a = mix(a) ^ destination_lo;
    return flow_hash(a, next_header, ports);
}
