/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Partial checksums: wire::partial in C, as far as it takes to say whose a packet is.
 *
 * A veth hands on what its sender left to a NIC. Who finishes such sums is the worker; so these packets go
 * there, and to Linux, which still has the note that came with them, untouched. What could hide one inside is
 * looked at by the worker as well.
 */
#pragma once
#include "classify.h"

/* The sum of a pseudo-header, folded: a word in network order, as it lies in the field. */
static __always_inline __u16 fold(__u64 sum) {
    sum = (sum >> 32) + (__u32)sum;
    sum = (sum >> 32) + (__u32)sum;
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    return sum;
}

/* `sum`: of the pseudo-header without the protocol. */
static __always_inline int may_be_partial(__u64 sum, __u8 protocol, void *upper, void *end) {
    switch (protocol) {
    case 6:
        return upper + 18 <= end && *(__u16 *)(upper + 16) == fold(sum + bpf_htons(6));
    case 17: {
        if (upper + 8 > end)
            return 0;
        __u16 port = load16(upper + 2);
        return *(__u16 *)(upper + 6) == fold(sum + bpf_htons(17)) || port == 4789 || port == 8472 ||
               port == 6081;
    }
    case 4:   /* IPv4 */
    case 41:  /* IPv6 */
    case 47:  /* GRE */
    case 132: /* SCTP */
        return 1;
    default:
        return 0;
    }
}

/* Without options; those with some are no business of the express lane's. */
static __always_inline int may_be_partial4(struct ipv4 *ip, void *end) {
    /* Who fragments a packet finishes it. */
    if (ip->fragment & bpf_htons(0x3fff))
        return 0;
    __u16 length = bpf_ntohs(ip->total_length) - sizeof(*ip);
    __u64 sum = (__u64)ip->source + ip->destination + bpf_htons(length);
    return may_be_partial(sum, ip->protocol, ip + 1, end);
}

static __always_inline int may_be_partial6(struct ipv6 *ip, void *end) {
    __u8 next = ip->next_header;
    /* Routing, destination options: behind them may be anything. */
    if (next == 43 || next == 60)
        return 1;
    __u32 *word = (void *)&ip->source;
    __u64 sum = ip->payload_length;
    for (int i = 0; i < 8; i++)
        sum += word[i];
    return may_be_partial(sum, next, ip + 1, end);
}
