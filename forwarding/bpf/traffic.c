// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Load for benches: a source of packets to many destinations, run on "live frames"
 * (BPF_F_TEST_XDP_LIVE_FRAMES: what the program returns really happens to the frame, millions of
 * times a second), and a sink that counts and drops.
 */
#include "maps.h"
#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Destinations in use, a power of two; the family of the packets. */
volatile const __u32 DESTINATIONS = 1;
volatile const __u32 VERSION = 4;
/* Whether packets differ by where they come from, and not by where they go. */
volatile const __u32 ANSWERS = 0;
/* Bytes of tags behind the addresses of frames. */
volatile const __u32 TAGS_LENGTH = 0;

#define TEMPLATE 64
struct template {
    __u64 word[TEMPLATE / 8];
};

TABLE(template, template);
TABLE(destinations, block32); /* 1 word each, or 4: network order */

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} count SEC(".maps");

/* A frame comes back as the router left it, so it is written anew: the template, and the next
 * destination. */
SEC("xdp")
int source(struct xdp_md *ctx) {
    __u32 zero = 0;
    void *data = (void *)(long)ctx->data;
    struct template *from = bpf_map_lookup_elem(&template, &zero);
    __u64 *next = bpf_map_lookup_elem(&count, &zero);
    if (!from || !next || data + TEMPLATE > (void *)(long)ctx->data_end)
        return XDP_DROP;
#pragma unroll
    for (int i = 0; i < TEMPLATE / 8; i++)
        ((__u64 *)data)[i] = from->word[i];
    __u32 number = (*next)++ & (DESTINATIONS - 1);
    if (VERSION == 4) {
        __u32 destination = word32(&destinations, number);
        __u16 *sum_at = data + 24 + TAGS_LENGTH;
        __u32 sum = *sum_at + (destination & 0xffff) + (destination >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        *sum_at = ~sum;
        *(__u32 *)(data + (ANSWERS ? 26 : 30) + TAGS_LENGTH) = destination;
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            *(__u32 *)(data + (ANSWERS ? 22 : 38) + TAGS_LENGTH + 4 * i) =
                word32(&destinations, number * 4 + i);
    }
    return XDP_TX;
}

SEC("xdp")
int sink(struct xdp_md *ctx) {
    __u32 zero = 0;
    __u64 *seen = bpf_map_lookup_elem(&count, &zero);
    (void)ctx;
    if (seen)
        ++*seen;
    return XDP_DROP;
}
