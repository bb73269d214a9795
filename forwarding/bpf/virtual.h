/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Virtual routers (VRRP): frames to a link address that several routers have, one at a time.
 *
 * While the lease of this one holds, such a frame becomes one to the interface's own address, here
 * at the door and nowhere else: behind it no lane, no flow and not Linux either has to know of
 * virtual routers. The lease is renewed with every advertisement. So who dies has resigned, and so
 * has who hangs.
 *
 * A veth has noted for whom a frame is before it asks the program, and does not look again: Linux
 * would take nothing of these. So there they are all a worker's, who hands over as new what Linux
 * is to have. NICs look behind the program only, and VLANs look again.
 *
 * Who asks by ARP for an address of a virtual router must not be answered by Linux, which has the
 * address while the router is active, but not its link address. The question goes to Linux as one
 * for somebody else: only packet sockets see it, and so the thread that answers. On a bridge it
 * does so only while the lease holds, for others behind the bridge are asked else.
 */
#pragma once
#include "express.h"

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, MAX_VIRTUAL);
    __type(key, struct virtual_key);
    __type(value, __u64); /* until when (bpf_ktime_get_coarse_ns) */
} virtual_routers SEC(".maps");

/* The link addresses of virtual routers, without their last byte: of IPv4 and of IPv6. */
#define VIRTUAL4 0x00005e0001
#define VIRTUAL6 0x00005e0002

static __always_inline int holds(const struct virtual_key *key) {
    __u64 *until = bpf_map_lookup_elem(&virtual_routers, key);
    return until && bpf_ktime_get_coarse_ns() <= *(volatile __u64 *)until;
}

static __always_inline void write_destination(void *data, __u64 mac) {
    *(__be32 *)data = bpf_htonl(mac >> 16);
    *(__be16 *)(data + 4) = bpf_htons(mac);
}

/*
 * Has a frame to an active virtual router on its interface be one to the interface. Not inlined:
 * frames to the interface itself never come here, and the verifier follows what is behind only
 * once.
 */
static __noinline int enter_virtual(struct xdp_md *ctx, __u32 interface, __u64 mac) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + ETHERNET > end)
        return 0;
    __u64 destination = load64(data) >> 16;
    if (destination >> 8 != VIRTUAL4 && destination >> 8 != VIRTUAL6)
        return 0;
    struct virtual_key key = {.interface = interface, .kind = VIRTUAL_KIND_MAC, .what = (__u32)destination};
    if (!holds(&key))
        return 0;
    write_destination(data, mac);
    return 1;
}

struct arp4 {
    __be16 hardware, protocol;
    __u8 lengths[2];
    __be16 operation;
    __u8 sender_mac[6];
    __be32 sender;
    __u8 target_mac[6];
    __be32 target;
} __attribute__((packed));

/* Keeps Linux from answering for an address of a virtual router. */
static __noinline int keep_from_linux(struct xdp_md *ctx, __u32 interface) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct arp4 *arp = data + ETHERNET;
    if ((void *)(arp + 1) > end)
        return 0;
    struct virtual_key key = {
        .interface = interface, .kind = VIRTUAL_KIND_ADDRESS, .what = bpf_ntohl(arp->target)};
    if (arp->operation != bpf_htons(1) || !holds(&key))
        return 0;
    /* The virtual router 0 there is not. */
    write_destination(data, (__u64)VIRTUAL4 << 8);
    return 1;
}
