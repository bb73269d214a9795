/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tags of VLANs: which interface a frame with tags enters by (fib::Hops::enter in C), and how they
 * come off and on.
 *
 * They come off in front of everything else, by a program of its own (`tagged` in bifrost.c):
 * behind it the frame looks as any other, so that no program looks for a header at two places,
 * which the kernel's verifier would have to follow each on its own. Who gets the frame otherwise
 * than by the express lane gets it as it came. They go on last, when the way out is decided.
 *
 * A veth whose other end has txvlan on hands a tag over beside the frame: no program sees that one.
 */
#pragma once
#include "express.h"

/* How a frame entered. */
struct entered {
    __u64 tags;   /* as they lay in it */
    __u32 length; /* bytes of these: 0, 4 or 8 */
    __u32 interface;
};

/* That of the frame that this processor is at: the programs of offloaded flows, one behind another,
 * ask. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct entered);
} entered SEC(".maps");

static __always_inline struct entered *find_entered(void) {
    __u32 zero = 0;
    return bpf_map_lookup_elem(&entered, &zero);
}

static __always_inline int has_tags(struct frame *frame) {
    if (frame->data + ETHERNET > frame->end)
        return 0;
    __u16 type = load16(frame->data + 12);
    return type == ETHERTYPE_VLAN || type == ETHERTYPE_QINQ;
}

/*
 * The interface of a frame whose bytes from the first tag's type on are these, and how many are its
 * tags'. NO_PORT: no interface of ours has them. One with the identifier 0 says only a priority.
 */
static __always_inline __u32 interface_of(__u32 port, __u32 outer, __u32 inner, __u32 *length) {
    __u32 root = word32(&tags, 2 * port + (outer >> 16 == ETHERTYPE_QINQ));
    __u32 found = root ? word32(&tags, root * FIB_TAGS + (outer & 0xfff)) : 0;
    int again = inner >> 16 == ETHERTYPE_VLAN, inside = (found & FIB_POINTER) != 0;
    if (inside)
        found = word32(&tags, (found & ~FIB_POINTER) * FIB_TAGS + (again ? inner & 0xfff : 0));
    *length = again && (inside || !(inner & 0xfff)) ? 8 : 4;
    if (found)
        return (__u16)(found - 1);
    return (outer & 0xfff) || again ? NO_PORT : port;
}

/* Both addresses of a frame. */
struct addresses {
    __u64 first;
    __u32 rest;
};

static __always_inline struct addresses read_addresses(void *data) {
    return (struct addresses){*(__u64 *)data, *(__u32 *)(data + 8)};
}

static __always_inline void write_addresses(void *data, struct addresses addresses) {
    *(__u64 *)data = addresses.first;
    *(__u32 *)(data + 8) = addresses.rest;
}

/* Takes the tags off, and has the frame begin behind them; false: it is too short. */
static __always_inline int take_tags(struct frame *frame, __u32 length) {
    struct addresses addresses = read_addresses(frame->data);
    if (bpf_xdp_adjust_head(frame->ctx, length))
        return 0;
    frame->data = (void *)(long)frame->ctx->data;
    frame->end = (void *)(long)frame->ctx->data_end;
    if (frame->data + ETHERNET > frame->end)
        return 0;
    write_addresses(frame->data, addresses);
    return 1;
}

/* Puts tags into a frame that has none of these; false: there is no room. */
static __noinline int put_tags(struct xdp_md *ctx, __u64 tags, __u32 length) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + ETHERNET > end)
        return 0;
    struct addresses addresses = read_addresses(data);
    if (bpf_xdp_adjust_head(ctx, -(int)length))
        return 0;
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    if (data + ETHERNET + 8 > end)
        return 0;
    write_addresses(data, addresses);
    *(__u32 *)(data + 12) = (__u32)tags;
    if (length == 8)
        *(__u32 *)(data + 16) = tags >> 32;
    return 1;
}

/*
 * The tags that a packet leaves with: what they say of its priority may follow from two bits of
 * IPv4's type of service (fib::tags_of in C). `link`: see fib::LinkWord.
 */
#define OTHERS_AT 24
static __noinline __u64 tags_for(struct xdp_md *ctx, __u64 tags, __u64 link) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (!(link >> OTHERS_AT & 0x3ffff) || data + ETHERNET + 2 > end || load16(data + 12) != ETHERTYPE_IPV4)
        return tags;
    __u32 class = *(__u8 *)(data + ETHERNET + 1) >> 3 & 3;
    __u64 bits = class ? link >> (OTHERS_AT + 6 * (class - 1)) : 0;
    return tags ^ (bits & 7) << 45 ^ (bits >> 3 & 7) << 13;
}

/* The frame as it came; false: it cannot be. */
static __always_inline int restore(struct xdp_md *ctx, struct entered *entered) {
    return !entered->length || put_tags(ctx, entered->tags, entered->length);
}
