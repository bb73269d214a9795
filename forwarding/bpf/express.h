/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The express lane: plain forwarding, right in the driver.
 *
 * It does what needs no answer and no memory of other packets, exactly as the worker's graph and as
 * Linux would do it, and nothing else. What it cannot do goes to the worker (who answers with ICMP,
 * fragments, and so on) or, where only Linux can (an unresolved neighbour), to Linux, always
 * untouched: bytes are written only once nothing can go wrong any more.
 */
#pragma once
#include "classify.h"
#include "fib.h"
#include "hash.h"

/* What becomes of a packet: the lane, and for LANE_PASS the class, for LANE_DROP the reason. */
typedef __u32 verdict;
#define VERDICT(lane, detail) ((lane) << 8 | (detail))
#define PASS(class) VERDICT(LANE_PASS, class)
/* To Linux, by its own class: it is for this machine; or so it seems, or not, by its link
 * address. */
#define OURS VERDICT(LANE_PASS, 0xfe)
#define FOREIGN VERDICT(LANE_PASS, 0xfd)
#define DROP(reason) VERDICT(LANE_DROP, reason)
#define WORKER VERDICT(LANE_WORKER, 0)
#define UNDECIDED 0xffffffffu

/* A frame on its way through the program. */
struct frame {
    struct xdp_md *ctx;
    void *data, *end;
    __u32 port;      /* the one that it came in by */
    __u32 tags;      /* bytes of tags that it came with and has no more */
    __u32 interface; /* the one that it entered by: the port's own, or that of its tags */
    __u32 flags;     /* enum interface_flag of that */
    __u32 length;    /* bytes, including those in further buffers */
    __u32 joined;    /* longer than its port's MTU allows; known of ports with IF_PARTIAL */
    __u32 out;       /* the interface that it leaves by, once decided */
    __u32 beside;    /* a table beside the main one has routed it: */
    __u64 hop, back; /* where its destination and its source lead */
};

static __always_inline __u8 kind_of(__u64 hop) {
    return hop >> 56;
}

/* The adjacency that this hash selects among the paths of a forward hop. */
static __always_inline __u32 select_path(__u64 hop, __u32 hash) {
    __u32 base = (__u32)hop, log2 = hop >> 48 & 31;
    return log2 == 0 ? base : word32(&buckets, base + (hash & ((1u << log2) - 1)));
}

static __always_inline __u64 mac_of(struct pair entry) {
    return entry.first >> 16;
}

/* Adjacencies and interfaces: mtu in the high half, interface or ifindex in the low. */
static __always_inline __u32 mtu_of(struct pair entry) {
    return entry.second >> 32 & FIB_MTU;
}

/* Of an interface: the last two of them stand in front of its mtu. */
static __always_inline __u32 flags_of(struct pair entry) {
    return (__u16)entry.first | (__u32)(entry.second >> 62) << 16;
}

/* The next hops of a frame's destination, and of its source. */
static __always_inline __u64 hop4(struct frame *frame, __u32 destination) {
    return frame->beside ? frame->hop : word64(&nexthops, lookup4(destination));
}

static __always_inline __u64 back4(struct frame *frame, __u32 source) {
    return frame->beside ? frame->back : word64(&nexthops, lookup4(source));
}

/* Whether the source is this machine's. With tables beside the main one it takes its table to
 * say. */
static __always_inline int is_own4(struct frame *frame, __u32 source) {
    if (!frame->beside)
        return is_local4(source);
    return is_local4_of(source, LOCAL_BESIDE) && kind_of(frame->back) == KIND_LOCAL;
}

#define PATHS_LOOKED_AT 16

/* Linux's interface: those of ours that are one of Linux's, a bond, have the same. */
static __always_inline __u32 ifindex_of(__u32 interface) {
    return pair64(&interfaces, 2 * interface).second;
}

/*
 * RFC 3704: is the source reached by the interface it came from (strict), or at all (loose)?
 * UNDECIDED means yes. A source with very many paths is left to the worker.
 */
static __always_inline verdict reverse_path(struct frame *frame, __u64 hop, int strict) {
    __u8 kind = kind_of(hop);
    if (kind != KIND_FORWARD && kind != KIND_GLEAN && kind != KIND_PUNT)
        return DROP(REASON_REVERSE_PATH);
    if (!strict)
        return UNDECIDED;
    if (kind == KIND_PUNT)
        return DROP(REASON_REVERSE_PATH);
    __u32 own = ifindex_of(frame->interface);
    if (kind == KIND_GLEAN)
        return !differ(ifindex_of((__u16)hop), own) ? UNDECIDED : DROP(REASON_REVERSE_PATH);
    __u32 paths = 1u << (hop >> 48 & 31);
    for (__u32 i = 0; i < PATHS_LOOKED_AT && i < paths; i++) {
        __u16 interface = pair64(&adjacencies, select_path(hop, i)).second;
        if (!differ(ifindex_of(interface), own))
            return UNDECIDED;
    }
    return paths > PATHS_LOOKED_AT ? WORKER : DROP(REASON_REVERSE_PATH);
}

/* What a hop that is not KIND_FORWARD means. */
static __always_inline verdict without_forwarding(__u8 kind) {
    switch (kind) {
    case KIND_GLEAN:
        return PASS(CLASS_UNRESOLVED);
    case KIND_PUNT:
        return PASS(CLASS_TRANSIT);
    case KIND_BLACKHOLE:
        return DROP(REASON_BLACKHOLE);
    default: /* no route, unreachable, prohibit: the worker answers */
        return WORKER;
    }
}

/*
 * Whether a frame that came in by a bridge leaves by it. Not inlined, flags and all: so the
 * verifier learns nothing of them that would make it follow all that is behind once more.
 */
static __noinline int is_same_bridge(__u32 flags, __u32 interface, __u32 out) {
    return flags & IF_BRIDGED && !differ(out, ifindex_of(interface));
}

/*
 * Where a packet of `length` bytes (from the network header) goes by this hop. UNDECIDED means that
 * it can leave by frame->out with the link header returned in `adjacency` and `out`.
 */
static __always_inline verdict resolve(struct frame *frame, __u64 hop, __u32 hash, __u32 length,
                                       struct pair *adjacency, struct pair *out) {
    __u32 path = select_path(hop, hash);
    *adjacency = pair64(&adjacencies, path);
    if (!(adjacency->first & 1))
        return PASS(CLASS_UNRESOLVED);
    frame->out = (__u16)adjacency->second;
    if (!differ(frame->out, frame->interface))
        return WORKER; /* out where it came in: the worker tells the sender */
    *out = pair64(&interfaces, 2 * frame->out);
    if (is_same_bridge(frame->flags, frame->interface, (__u32)out->second))
        return WORKER; /* by another member of the same bridge */
    if ((out->first & (IF_UP | IF_TARGET)) != (IF_UP | IF_TARGET))
        return WORKER;
    if (length > mtu_of(*adjacency) || length > mtu_of(*out))
        return WORKER;
    /* A frame in several buffers: not every device sends those that were redirected. */
    if (frame->length != (__u32)(frame->end - frame->data))
        return WORKER;
    __u32 key = path / BLOCK32;
    struct block32 *block = bpf_map_lookup_elem(&used, &key);
    if (block && !block->word[path % BLOCK32])
        block->word[path % BLOCK32] = 1;
    return UNDECIDED;
}

static __always_inline void write_macs(void *data, struct pair adjacency, struct pair out) {
    *(__be64 *)data = bpf_cpu_to_be64(mac_of(adjacency) << 16 | mac_of(out) >> 32);
    *(__be32 *)(data + 8) = bpf_htonl((__u32)mac_of(out));
}

/* Cuts what stands behind the packet (Ethernet's padding), as Linux does, and sends it. */
static __always_inline verdict leave(struct frame *frame, __u32 length) {
    int behind = frame->length - ETHERNET - length;
    if (behind > 0 && bpf_xdp_adjust_tail(frame->ctx, -behind) < 0)
        return DROP(REASON_REDIRECT_FAILED);
    return VERDICT(LANE_EXPRESS, 0);
}

/* The bytes of the frame when the first buffer does not have exactly `expected`. */
static __always_inline void measure(struct frame *frame, __u32 expected) {
    frame->length = frame->end - frame->data;
    if (frame->length != expected)
        frame->length = bpf_xdp_get_buff_len(frame->ctx);
}

static __always_inline int matches(struct frame *frame, struct divert *rule, void *source, void *destination,
                                   int words, __u8 version, __u8 protocol, __u32 ports) {
    if (rule->version && rule->version != version)
        return 0;
    if ((rule->protocol && rule->protocol != protocol) ||
        (rule->interface != NO_PORT && differ(rule->interface, frame->interface)) ||
        (rule->source_port && rule->source_port != ports >> 16) ||
        (rule->destination_port && rule->destination_port != (ports & 0xffff)))
        return 0;
    for (int i = 0; rule->version && i < words; i++) {
        __u32 s = ((__u32 *)source)[i] & ((__u32 *)rule->source_mask)[i];
        __u32 d = ((__u32 *)destination)[i] & ((__u32 *)rule->destination_mask)[i];
        if (s != ((__u32 *)rule->source)[i] || d != ((__u32 *)rule->destination)[i])
            return 0;
    }
    return 1;
}

/* Whether somebody wants to see this packet in the graph (trace, capture). */
static __always_inline int is_diverted(struct frame *frame, void *source, void *destination, int words,
                                       __u8 version, __u8 protocol, __u32 ports) {
    __u32 zero = 0;
    struct settings *set = bpf_map_lookup_elem(&settings, &zero);
    if (!set || !set->diverts)
        return 0;
    for (__u32 i = 0; i < DIVERTS && i < set->diverts; i++)
        if (matches(frame, &set->divert[i], source, destination, words, version, protocol, ports))
            return 1;
    return 0;
}

/* The ports of a packet as one number, source first; 0 where not every packet of the flow shows
 * them. */
static __always_inline __u32 ports_of(__u8 protocol, void *upper, void *end, __u32 upper_length) {
    if (!has_ports(protocol) || upper_length < 4 || upper + 4 > end)
        return 0;
    return load32(upper);
}

/* RFC 1071, over a header without options. */
static __always_inline int is_checksum_right(struct ipv4 *ip) {
    __u32 *word = (void *)ip;
    __u64 sum = (__u64)word[0] + word[1] + word[2] + word[3] + word[4];
    sum = (sum >> 32) + (__u32)sum;
    sum = (sum >> 32) + (__u32)sum;
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    return sum == 0xffff;
}

/* RFC 1624; the same bytes that Linux writes. */
static __always_inline void decrement_ttl(struct ipv4 *ip) {
    __u32 sum = ip->checksum + bpf_htons(0x0100);
    ip->checksum = sum + (sum >= 0xffff);
    ip->ttl--;
}

/* RFC 1812, 5.2.2: what makes a header valid, in Linux's order. The caller has seen version 4
 * without options. */
static __always_inline enum reason invalid4(struct frame *frame, struct ipv4 *ip) {
    __u32 length = bpf_ntohs(ip->total_length);
    measure(frame, ETHERNET + length);
    if (!is_checksum_right(ip))
        return REASON_BAD_CHECKSUM;
    if (length < sizeof(*ip) || ETHERNET + length > frame->length)
        return REASON_BAD_TOTAL_LENGTH;
    return REASON_NONE;
}

/*
 * RFC 1812, 5.3.7 and 4.2.2.11; multicast destinations are not asked about. Of 0.0.0.0/8 Linux
 * forwards all but the unspecified address.
 */
static __always_inline enum reason martian4(__u32 source, __u32 destination, int own) {
    if (source >> 28 == 14 || source == 0xffffffff || source >> 24 == 127 || source == 0 || own)
        return REASON_MARTIAN_SOURCE;
    if (destination >> 24 == 127 || destination == 0)
        return REASON_MARTIAN_DESTINATION;
    return REASON_NONE;
}

/* Who has a packet for this machine: Linux, or a worker that takes a tunnel's header off. */
static __always_inline verdict own4(struct frame *frame, struct ipv4 *ip) {
    return frame->flags & IF_FORWARD4 && !frame->joined && is_enclosed4(ip, frame->end) ? WORKER : OURS;
}

static __always_inline verdict own6(struct frame *frame, struct ipv6 *ip) {
    return frame->flags & IF_FORWARD6 && !frame->joined && is_enclosed6(ip, frame->end) ? WORKER : OURS;
}

static __always_inline verdict express4(struct frame *frame, struct ipv4 *ip) {
    enum reason reason = invalid4(frame, ip);
    if (reason)
        return DROP(reason);
    __u32 source = bpf_ntohl(ip->source), destination = bpf_ntohl(ip->destination);
    __u32 length = bpf_ntohs(ip->total_length), ports = 0;
    if (!(ip->fragment & bpf_htons(0x3fff)))
        ports = ports_of(ip->protocol, ip + 1, frame->end, length - sizeof(*ip));
    if (is_diverted(frame, &ip->source, &ip->destination, 1, 4, ip->protocol, ports))
        return WORKER;
    __u64 hop = hop4(frame, destination);
    __u8 kind = kind_of(hop);
    if (kind == KIND_LOCAL)
        return frame->beside ? OURS : own4(frame, ip);
    if (!(frame->flags & IF_FORWARD4))
        return PASS(CLASS_TRANSIT);
    reason = martian4(source, destination, is_own4(frame, source));
    if (reason)
        return DROP(reason);
    if (kind != KIND_FORWARD)
        return without_forwarding(kind);
    if (frame->flags & (IF_RPF4_STRICT | IF_RPF4_LOOSE)) {
        __u64 back = back4(frame, source);
        verdict answer = reverse_path(frame, back, frame->flags & IF_RPF4_STRICT);
        if (answer != UNDECIDED)
            return answer;
    }
    if (ip->ttl <= 1)
        return WORKER;
    struct pair adjacency, out;
    verdict answer =
        resolve(frame, hop, flow_hash4(source, destination, ip->protocol, ports), length, &adjacency, &out);
    if (answer != UNDECIDED)
        return answer;
    decrement_ttl(ip);
    write_macs(frame->data, adjacency, out);
    return leave(frame, length);
}

/* RFC 4291, 2.5 and 2.7. IPv4-mapped sources are forwarded, as Linux does. */
static __always_inline enum reason martian6(struct ipv6 *ip) {
    __u64 hi = bpf_be64_to_cpu(ip->source.half[0]), lo = bpf_be64_to_cpu(ip->source.half[1]);
    if (hi >> 56 == 0xff || (hi == 0 && lo <= 1))
        return REASON_MARTIAN_SOURCE;
    if (ip->destination.half[0] == 0 && bpf_be64_to_cpu(ip->destination.half[1]) <= 1)
        return REASON_MARTIAN_DESTINATION;
    return REASON_NONE;
}

static __always_inline verdict express6(struct frame *frame, struct ipv6 *ip) {
    __u32 length = sizeof(*ip) + bpf_ntohs(ip->payload_length);
    measure(frame, ETHERNET + length);
    if (ETHERNET + length > frame->length)
        return DROP(REASON_BAD_TOTAL_LENGTH);
    __u64 s1 = bpf_be64_to_cpu(ip->source.half[0]), s2 = bpf_be64_to_cpu(ip->source.half[1]);
    __u64 d1 = bpf_be64_to_cpu(ip->destination.half[0]), d2 = bpf_be64_to_cpu(ip->destination.half[1]);
    __u32 ports = ports_of(ip->next_header, ip + 1, frame->end, length - sizeof(*ip));
    if (is_diverted(frame, &ip->source, &ip->destination, 4, 6, ip->next_header, ports))
        return WORKER;
    __u64 hop = frame->beside ? frame->hop : word64(&nexthops, lookup6(d1, d2));
    __u8 kind = kind_of(hop);
    if (kind == KIND_LOCAL)
        return frame->beside ? OURS : own6(frame, ip);
    if (!(frame->flags & IF_FORWARD6))
        return PASS(CLASS_TRANSIT);
    enum reason reason = martian6(ip);
    if (reason)
        return DROP(reason);
    if (kind != KIND_FORWARD)
        return without_forwarding(kind);
    if (frame->flags & (IF_RPF6_STRICT | IF_RPF6_LOOSE)) {
        __u64 back = frame->beside ? frame->back : word64(&nexthops, lookup6(s1, s2));
        verdict answer = reverse_path(frame, back, frame->flags & IF_RPF6_STRICT);
        if (answer != UNDECIDED)
            return answer;
    }
    if (ip->hop_limit <= 1)
        return WORKER;
    struct pair adjacency, out;
    verdict answer =
        resolve(frame, hop, flow_hash6(s1, s2, d1, d2, ip->next_header, ports), length, &adjacency, &out);
    if (answer != UNDECIDED)
        return answer;
    ip->hop_limit--;
    write_macs(frame->data, adjacency, out);
    return leave(frame, length);
}
