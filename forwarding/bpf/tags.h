/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tags of VLANs: which interface a frame with tags enters by (fib::Hops::enter in C), and how they come off
 * and on.
 *
 * They come off in front of everything else, by a program of its own (`tagged` in bifrost.c): behind it the
 * frame looks as any other, so that no program looks for a header at two places, which the kernel's verifier
 * would have to follow each on its own. Who gets the frame otherwise than by the express lane gets it as it
 * came. They go on last, when the way out is decided.
 */
#pragma once
#include "express.h"

/* The addresses of a frame, and the tags behind them as they lie there. */
struct link_header {
    __u64 addresses, tags;
    __u32 source; /* the rest of the addresses */
    __u32 length; /* bytes of tags: 0, 4 or 8 */
};

/*
 * How the frame entered that this processor is at: for the programs that carry flows, which one behind
 * another ask.
 */
struct entered {
    struct link_header header;
    __u32 interface;
};

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

/* Whether a tag follows. */
static __always_inline int is_tag(__u16 type) {
    return type == ETHERTYPE_VLAN || type == ETHERTYPE_QINQ;
}

/*
 * The interface of a frame whose bytes from the first tag's type on are these, and how many are its tags'.
 * NO_PORT: no interface of ours has them. One with the identifier 0 says only a priority.
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

static __always_inline void read_addresses(void *data, struct link_header *header) {
    header->addresses = *(__u64 *)data;
    header->source = *(__u32 *)(data + 8);
}

static __always_inline void write_addresses(void *data, struct link_header *header) {
    *(__u64 *)data = header->addresses;
    *(__u32 *)(data + 8) = header->source;
}

/* Takes the tags off, and has the frame begin behind them; false: it is too short. */
static __always_inline int take_tags(struct frame *frame, struct link_header *header) {
    read_addresses(frame->data, header);
    if (bpf_xdp_adjust_head(frame->ctx, header->length))
        return 0;
    frame->data = (void *)(long)frame->ctx->data;
    frame->end = (void *)(long)frame->ctx->data_end;
    if (frame->data + ETHERNET > frame->end)
        return 0;
    write_addresses(frame->data, header);
    return 1;
}

/* Puts tags into a frame that has none of these; false: there is no room. */
static __noinline int put_tags(struct xdp_md *ctx, __u64 tags, __u32 length) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct link_header header;
    if (data + ETHERNET > end)
        return 0;
    read_addresses(data, &header);
    if (bpf_xdp_adjust_head(ctx, -(int)length))
        return 0;
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    if (data + ETHERNET + 8 > end)
        return 0;
    write_addresses(data, &header);
    *(__u32 *)(data + 12) = (__u32)tags;
    if (length == 8)
        *(__u32 *)(data + 16) = tags >> 32;
    return 1;
}

/* The frame as it came; false: it cannot be. */
static __always_inline int restore(struct xdp_md *ctx, struct link_header *header) {
    return !header->length || put_tags(ctx, header->tags, header->length);
}
