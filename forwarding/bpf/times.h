/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Times counted in buckets, checksums folded, and the stamp of a packet: what the generator
 * (generate.c) and the sink (tally.c) have in common. Layouts and numbers are declared in Rust, in
 * tables/abi/src/traffic.rs, from which forwarding/port/build.rs writes traffic_facts.h.
 */
#pragma once
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "traffic_facts.h"

/* Maps whose size the loader sets. */
#define ARRAY(name, block)                                                                                   \
    struct {                                                                                                 \
        __uint(type, BPF_MAP_TYPE_ARRAY);                                                                    \
        __uint(map_flags, BPF_F_MMAPABLE);                                                                   \
        __uint(max_entries, 1);                                                                              \
        __type(key, __u32);                                                                                  \
        __type(value, struct block);                                                                         \
    } name SEC(".maps")

static __always_inline __u32 log2_of(__u64 value) {
    __u32 result = 0;
    if (value >> 32)
        value >>= 32, result += 32;
    if (value >> 16)
        value >>= 16, result += 16;
    if (value >> 8)
        value >>= 8, result += 8;
    if (value >> 4)
        value >>= 4, result += 4;
    if (value >> 2)
        value >>= 2, result += 2;
    return result + (value >> 1);
}

static __always_inline void record(struct times *times, __u64 value) {
    __u64 index = value;
    if (value >> SUB) {
        __u32 shift = (log2_of(value) - SUB) & 63;
        index = ((__u64)(shift + 1) << SUB) + ((value >> shift) & ((1 << SUB) - 1));
    }
    if (index >= BUCKETS)
        index = BUCKETS - 1;
    times->bucket[index]++;
    times->count++;
    times->sum += value;
    if (value < times->min)
        times->min = value;
    if (value > times->max)
        times->max = value;
}

static __always_inline __u64 distance(__u64 a, __u64 b) {
    return a > b ? a - b : b - a;
}

static __always_inline __u16 folded(__u64 sum) {
    sum = (sum >> 32) + (sum & 0xffffffff);
    sum = (sum >> 32) + (sum & 0xffffffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    return sum;
}
