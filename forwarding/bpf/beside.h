/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Frames of interfaces in a VRF: a table beside the main one routes them.
 *
 * Two programs more do that. One (`beside` in bifrost.c) walks the tables, and leaves the next hops
 * that both addresses have in a map; behind it `routed` does with the frame what is done with any
 * other. So neither program has walks of several tables and all that depends on them, which the
 * kernel's verifier would combine.
 */
#pragma once
#include "tags.h"

/* Where a frame's destination and source lead, by the table of its interface and the main one
 * behind it. */
struct routed {
    __u64 hop;
    __u64 back; /* 0 where nobody asks */
};

/* Those of the frame that this processor is at. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct routed);
} routes SEC(".maps");

static __always_inline struct routed *find_routed(void) {
    __u32 zero = 0;
    return bpf_map_lookup_elem(&routes, &zero);
}

/* Where a frame leads, of which `beside` left word. */
static __always_inline int lead_beside(struct frame *frame) {
    struct routed *routed = find_routed();
    if (!routed)
        return 0;
    frame->beside = 1;
    frame->hop = routed->hop;
    frame->back = routed->back;
    return 1;
}

/* The next hop of an address, which begins with `high`. */
static __always_inline __u64 hop_beside(__u32 table, int ipv6, __u64 high, __u64 low) {
    __u64 hop = word64(&nexthops, lookup_beside(table, ipv6, high, low));
    if (kind_of(hop) != KIND_NONE)
        return hop;
    return word64(&nexthops, ipv6 ? lookup6(high, low) : lookup4(high >> 32));
}

/* Looks up what will be asked of a frame; what has no whole header is asked nothing. */
static __always_inline void route_beside(struct frame *frame, __u32 table, struct routed *routed) {
    struct in6 *source, *destination;
    __u64 s1 = 0, s2 = 0, d1 = 0, d2 = 0;
    int ipv6 = 0, asked = 0;
    void *network = frame->data + ETHERNET;
    *routed = (struct routed){};
    if (network > frame->end)
        return;
    __u16 type = load16(frame->data + 12);
    if (type == ETHERTYPE_IPV4) {
        struct ipv4 *ip = network;
        if ((void *)(ip + 1) > frame->end)
            return;
        __u32 from = bpf_ntohl(ip->source);
        s1 = (__u64)from << 32;
        d1 = (__u64)bpf_ntohl(ip->destination) << 32;
        asked = frame->flags & (IF_RPF4_STRICT | IF_RPF4_LOOSE) || is_local4_of(from, LOCAL_BESIDE);
    } else if (type == ETHERTYPE_IPV6) {
        struct ipv6 *ip = network;
        if ((void *)(ip + 1) > frame->end)
            return;
        source = &ip->source;
        destination = &ip->destination;
        s1 = bpf_be64_to_cpu(source->half[0]);
        s2 = bpf_be64_to_cpu(source->half[1]);
        d1 = bpf_be64_to_cpu(destination->half[0]);
        d2 = bpf_be64_to_cpu(destination->half[1]);
        ipv6 = 1;
        asked = frame->flags & (IF_RPF6_STRICT | IF_RPF6_LOOSE);
    } else {
        return;
    }
    routed->hop = hop_beside(table, ipv6, d1, d2);
    if (asked)
        routed->back = hop_beside(table, ipv6, s1, s2);
}
