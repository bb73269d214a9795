/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What goes to Linux is policed by class and by port, so that a flood of one kind cannot starve
 * another, nor what comes in by another port.
 *
 * The token bucket is kept as one number a class, the time at which it would be full again (GCRA,
 * ITU-T I.371): a packet conforms while that time is not further ahead than the burst allows. One
 * compare-and-swap serves all CPUs.
 */
#pragma once
#include "maps.h"

/* Whether a packet of this class that came in by this port is within its limit, and if so takes its
 * token from this bucket: the class's own, or one more of the kind. */
static __always_inline int within_limit(__u32 port, enum police_class class, __u32 bucket) {
    __u32 zero = 0;
    struct settings *set = bpf_map_lookup_elem(&settings, &zero);
    struct arrivals *arrival = bpf_map_lookup_elem(&arrivals, &port);
    if (!set || !arrival || class >= CLASSES || bucket >= BUCKETS)
        return 0;
    __u64 interval = set->limit[class].interval;
    if (interval == 0)
        return 1;
    __u64 now = bpf_ktime_get_ns();
    __u64 *time = &arrival->bucket[bucket].time;
    /* Losing the race four times means that others are taking tokens by the million: a flood. */
#pragma unroll
    for (int attempt = 0; attempt < 4; attempt++) {
        __u64 old = *(volatile __u64 *)time;
        __u64 start = old > now ? old : now;
        if (start - now >= set->limit[class].tolerance)
            return 0;
        if (__sync_val_compare_and_swap(time, old, start + interval) == old)
            return 1;
    }
    return 0;
}
