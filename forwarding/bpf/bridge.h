/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Members of bridges: what comes in by one to the bridge's address is the bridge's, but only from
 * hosts that Linux knows behind that member. Linux gets all else untouched, and so learns where a
 * host is from its first frame there, as if nobody had been in between; what it has learnt comes
 * here (daemon/bridges.rs).
 */
#pragma once
#include "express.h"

/* By the first six bytes the host's address, by the last two the member's interface. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, MAX_SENDERS);
    __type(key, __u64);
    __type(value, __u8);
} senders SEC(".maps");

/* Not inlined: few frames come by a bridge, and the verifier follows what is behind only once. */
static __noinline int is_sender_known(struct xdp_md *ctx, __u32 interface) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + ETHERNET > end)
        return 0;
    __u64 key = (load64(data + 6) & ~0xffffULL) | (interface & 0xffff);
    return bpf_map_lookup_elem(&senders, &key) != 0;
}
