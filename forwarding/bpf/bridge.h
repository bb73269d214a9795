/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Members of bridges: what comes in by one to the bridge's address is the bridge's, but only from
 * hosts that Linux knows behind that member. Linux gets all else untouched, and so learns where a
 * host is from its first frame there, as if nobody had been in between; what it has learnt comes
 * here (daemon/bridges.rs).
 *
 * Where transit depends on flows, which Linux does not know, it is the worker's from all hosts. Of
 * a host that Linux does not know there the worker is told, in the frame: it has Linux learn
 * (elements/src/router/stranger.rs).
 */
#pragma once
#include "express.h"

/*
 * By the first six bytes the host's address, by the last two the member's port, or where the bridge
 * tells VLANs apart the interface on it.
 */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, MAX_SENDERS);
    __type(key, __u64);
    __type(value, __u8);
} senders SEC(".maps");

/* Not inlined: few frames come by a bridge, and the verifier follows what is behind only once. */
static __noinline int is_sender_known(struct xdp_md *ctx, __u32 member) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + ETHERNET > end)
        return 0;
    __u64 key = (load64(data + 6) & ~0xffffULL) | (member & 0xffff);
    return bpf_map_lookup_elem(&senders, &key) != 0;
}

/*
 * Tells the worker that it is from such a host, and behind which member. The destination that it is
 * written over is the bridge's own, which the worker knows.
 */
static __always_inline void mark_stranger(struct xdp_md *ctx) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + ETHERNET > end)
        return;
    *(__u8 *)data ^= STRANGER;
    *(__be16 *)(data + 2) = bpf_htons(ctx->ingress_ifindex >> 16);
    *(__be16 *)(data + 4) = bpf_htons(ctx->ingress_ifindex);
}
