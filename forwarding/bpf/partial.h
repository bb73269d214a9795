/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Partial checksums: wire::partial in C.
 *
 * A veth hands on what its sender left to a NIC. Whoever sends such a packet finishes its sum; to
 * Linux, which still has the note that came with it, it goes as it is. So here it is done when
 * nothing can go wrong any more, and before a byte of the packet is changed. That is for TCP and
 * UDP right behind the header; what could hide in others is the worker's to find.
 */
#pragma once
#include "classify.h"

/* What the kernel sums up at once, in bytes: no version of it refuses so many. */
#define SUMMED 512
/* Packets so long are not finished here. */
#define FINISHED (8 * SUMMED)

/* The sum of a pseudo-header, folded: a word in network order, as it lies in the field. */
static __always_inline __u16 fold(__u64 sum) {
    sum = (sum >> 32) + (__u32)sum;
    sum = (sum >> 32) + (__u32)sum;
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    return sum;
}

/* Of TCP and UDP; `sum`: of the pseudo-header without the protocol. */
static __always_inline int is_partial(__u64 sum, __u8 protocol, void *upper, void *end) {
    if (protocol == 6)
        return upper + 18 <= end && *(__u16 *)(upper + 16) == fold(sum + bpf_htons(6));
    return protocol == 17 && upper + 8 <= end && *(__u16 *)(upper + 6) == fold(sum + bpf_htons(17));
}

static __always_inline int is_tunnel(__u8 protocol) {
    return protocol == 4 || protocol == 41 || protocol == 47;
}

/* VXLAN and Geneve. */
static __always_inline int is_tunnel_port(void *upper, void *end) {
    if (upper + 8 > end)
        return 0;
    __u16 port = load16(upper + 2);
    return port == 4789 || port == 8472 || port == 6081;
}

static __always_inline __u64 sum4(struct ipv4 *ip) {
    __u16 length = bpf_ntohs(ip->total_length) - sizeof(*ip);
    return (__u64)ip->source + ip->destination + bpf_htons(length);
}

static __always_inline __u64 sum6(struct ipv6 *ip) {
    __u32 *word = (void *)&ip->source;
    __u64 sum = ip->payload_length;
    for (int i = 0; i < 8; i++)
        sum += word[i];
    return sum;
}

/* Whether the packet in a tunnel may be partial; what is not simple may. */
static __always_inline int inside4(struct ipv4 *ip, void *end) {
    if ((void *)(ip + 1) > end)
        return 0;
    if (ip->version_ihl != 0x45 || ip->protocol == 132 || is_tunnel(ip->protocol))
        return 1;
    return is_partial(sum4(ip), ip->protocol, ip + 1, end);
}

static __always_inline int inside6(struct ipv6 *ip, void *end) {
    if ((void *)(ip + 1) > end)
        return 0;
    __u8 next = ip->next_header;
    if (next == 0 || next == 43 || next == 60 || next == 132 || is_tunnel(next))
        return 1;
    return is_partial(sum6(ip), next, ip + 1, end);
}

/* GRE (RFC 2784, 2890), perhaps with a checksum of its own, a key, and a sequence number. */
static __always_inline int inside_gre(void *gre, void *end) {
    if (gre + 4 > end)
        return 0;
    __u16 flags = load16(gre), type = load16(gre + 2);
    if (type == 0x6558)
        return 1;
    if (type != ETHERTYPE_IPV4 && type != ETHERTYPE_IPV6)
        return 0;
    if (flags & ~0xb000)
        return 1;
    void *ip = gre + 4 + (flags >> 15) * 4 + (flags >> 13 & 1) * 4 + (flags >> 12 & 1) * 4;
    return type == ETHERTYPE_IPV4 ? inside4(ip, end) : inside6(ip, end);
}

/* Whether the worker is to look for what is partial. */
static __always_inline int hides(__u8 protocol, void *upper, void *end) {
    switch (protocol) {
    case 17:
        return is_tunnel_port(upper, end);
    case 4:
        return inside4(upper, end);
    case 41:
        return inside6(upper, end);
    case 47:
        return inside_gre(upper, end);
    case 132: /* SCTP, whose checksum is then 0 */
        return upper + 12 <= end && *(__u32 *)(upper + 8) == 0;
    default:
        return 0;
    }
}

/* Without options; those with some are no business of the express lane's. */
static __always_inline int hides4(struct ipv4 *ip, void *end) {
    /* Who fragments a packet finishes it. */
    if (ip->fragment & bpf_htons(0x3fff))
        return 0;
    return hides(ip->protocol, ip + 1, end);
}

static __always_inline int hides6(struct ipv6 *ip, void *end) {
    /* Routing, destination options: behind them may be anything. */
    if (ip->next_header == 43 || ip->next_header == 60)
        return 1;
    return hides(ip->next_header, ip + 1, end);
}

/* Behind the last whole `step` bytes. */
static __always_inline void *part_at(void *upper, __u32 length, __u32 step) {
    void *part = upper + (length & (FINISHED - 1) & ~(step - 1));
    asm volatile("" : "+r"(part)); /* the register that is compared is the one that is used */
    return part;
}

/*
 * Finishes the checksum of a packet of IP without options, if it is partial and its port may bring
 * such: before anything is changed that it is over. Where each part is follows from the length
 * alone, and not from how many there were before it; and the port's flag is asked for in here: so
 * the kernel's verifier has little to combine. Says whether it was.
 */
static __noinline int finish(struct xdp_md *ctx, __u32 port) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *upper;
    struct ipv4 *ip = data + ETHERNET;
    __u32 length;
    __u64 sum;
    __u8 protocol;
    if (!(pair64(&interfaces, 2 * port).first & IF_PARTIAL) || (void *)(ip + 1) > end)
        return 0;
    if (ip->version_ihl == 0x45) {
        if (ip->fragment & bpf_htons(0x3fff))
            return 0;
        length = bpf_ntohs(ip->total_length) - sizeof(*ip);
        sum = sum4(ip);
        protocol = ip->protocol;
        upper = ip + 1;
    } else {
        struct ipv6 *ip6 = data + ETHERNET;
        if ((void *)(ip6 + 1) > end)
            return 0;
        length = bpf_ntohs(ip6->payload_length);
        sum = sum6(ip6);
        protocol = ip6->next_header;
        upper = ip6 + 1;
    }
    if (!is_partial(sum, protocol, upper, end) || length >= FINISHED)
        return 0;
    __u16 *field = upper + (protocol == 6 ? 16 : 6);
    if ((void *)(field + 1) > end)
        return 0;
    /* The pseudo-header's sum is in the field. */
    sum = 0;
    for (__u32 at = 0; at < FINISHED - SUMMED; at += SUMMED) {
        __u64 is_there = is_below(at + SUMMED - 1, length);
        void *part = upper + is_there * at;
        if (is_there && part + SUMMED <= end)
            sum += (__u32)bpf_csum_diff(0, 0, part, SUMMED, 0);
    }
#pragma unroll
    for (__u32 size = SUMMED / 2; size >= 4; size /= 2) {
        void *part = part_at(upper, length, 2 * size);
        if (length & size && part + size <= end)
            sum += (__u32)bpf_csum_diff(0, 0, part, size, 0);
    }
    void *part = part_at(upper, length, 4);
    if (length & 2 && part + 2 <= end)
        sum += *(__u16 *)part;
    part = part_at(upper, length, 2);
    if (length & 1 && part + 1 <= end)
        sum += *(__u8 *)part;
    __u16 checksum = ~fold(sum);
    *field = checksum ? checksum : 0xffff;
    return 1;
}
