/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Frames to groups (multicast). Those of which Linux's multicast routing tables have an entry that
 * workers can follow are a worker's; others are Linux's, which manages members and trees. Whoever
 * sent a packet, the worker finds out whether there is an entry of its source.
 */
#pragma once
#include "express.h"

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, MAX_GROUPS);
    __type(key, struct group_key);
    __type(value, __u8);
} groups SEC(".maps");

/*
 * Whether a frame to a group's link address is one that workers forward. Not inlined: so the
 * verifier follows what is in here once.
 */
static __noinline int is_forwarded_group(struct xdp_md *ctx, __u32 interface, __u32 flags) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct group_key key = {.interface = interface};
    if (data + ETHERNET > end)
        return 0;
    __u16 type = load16(data + 12);
    if (type == ETHERTYPE_IPV4 && flags & IF_FORWARD4) {
        struct ipv4 *ip = data + ETHERNET;
        if ((void *)(ip + 1) > end || !is_routed_group4(bpf_ntohl(ip->destination), ip->protocol))
            return 0;
        key.address[2] = bpf_htonl(0xffff);
        key.address[3] = ip->destination;
    } else if (type == ETHERTYPE_IPV6 && flags & IF_FORWARD6) {
        struct ipv6 *ip = data + ETHERNET;
        if ((void *)(ip + 1) > end || !is_routed_group6(ip))
            return 0;
        __builtin_memcpy(key.address, &ip->destination, sizeof(key.address));
    } else {
        return 0;
    }
    return bpf_map_lookup_elem(&groups, &key) != 0;
}
