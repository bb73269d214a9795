/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Flows that are decided, offloaded to the driver.
 *
 * Where packets are judged (a filter, translation, tracking), a worker sees each flow's first
 * packets and says in the flow's entry what the rules came to. This here reads the very same
 * entries (tables/flow/src/entry.rs), by the same hash and buckets (tables/flow/src/hash.rs,
 * tables/flow/src/index.rs), and does for the packets behind them what the worker would do: TCP's
 * windows, the time of the last packet, the counts, the translation. Nothing is copied, so nothing
 * can be out of date: what ends, changes its phase or is judged anew is so for both at once.
 *
 * Only the ordinary is done: whole packets of TCP, UDP, echo, GRE and ESP without options, in the
 * window, which change nothing about how far their flow is, whose verdict is of the rules in force
 * and for the port that the route leads to. Martians have no flows. Everything else is the
 * worker's, untouched: bytes and counts are written once nothing can go wrong any more.
 *
 * Nobody waits for this program before an entry is used again (tables/flow/src/driver.rs). So the
 * last thing that is asked, when all that is wanted of the entry has been read, is whether it is
 * still the flow's.
 */
#pragma once
#include "express.h"
#include "partial.h"

#define FLOW_ARRAY(name, value_type)                                                                         \
    struct {                                                                                                 \
        __uint(type, BPF_MAP_TYPE_ARRAY);                                                                    \
        __uint(map_flags, BPF_F_MMAPABLE);                                                                   \
        __uint(max_entries, 1);                                                                              \
        __type(key, __u32);                                                                                  \
        __type(value, value_type);                                                                           \
    } name SEC(".maps")

FLOW_ARRAY(flow_hot, struct flow_hot);
FLOW_ARRAY(flow_cold, struct flow_cold);
FLOW_ARRAY(flow_buckets, struct flow_bucket);
FLOW_ARRAY(flow_door, struct flow_door);

FLOW_ARRAY(verdicts, struct verdicts);

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, VERDICTS);
    __type(key, __u32);
    __type(value, struct verdict_count);
} verdict_counts SEC(".maps");

/* A tuple in the form that it has in the table: tables/flow/src/key.rs. */
struct flow_key {
    __u64 addresses[4];
    __u32 ports, meta;
    __u32 swapped;
};

/* What the addresses and ports of a translated flow's packet become: the reverse of the tuple as
 * packets of the other direction come. In the form of a key; `high`: the source is the higher
 * end. */
struct flow_target {
    __u64 addresses[4];
    __u32 ports, high;
};

/* A packet of a flow that may be offloaded. */
struct offloaded {
    struct flow_key key;
    struct flow_target to;
    __u64 found;
    __u32 entry;
    __u32 reply; /* 1: it goes the other way than the flow's first */
    __u64 verdict;
    __u32 number;          /* of the verdict */
    __u32 length;          /* of the IP packet */
    __u64 before, numbers; /* of TCP: the side's numbers, and what they become */
    __u32 window;
    __u32 translated;
};

/* In a map and not on the stack: so the verifier forgets by which way each value came to be. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct offloaded);
} offloaded SEC(".maps");

static __always_inline __u64 flow_nh(__u64 sum, __u32 key0, __u32 key1, __u32 first, __u32 second) {
    return sum + (__u64)(__u32)(first + key0) * (__u32)(second + key1);
}

static __always_inline __u64 flow_spot(struct flow_door *door, struct flow_key *key) {
    __u64 sum;
    if (!(key->meta & FLOW_V6)) {
        sum = flow_nh(0, door->keys4[0], door->keys4[1], key->addresses[0] >> 32, key->addresses[0]);
        sum = flow_nh(sum, door->keys4[2], door->keys4[3], key->ports, key->meta);
    } else {
        sum = flow_nh(0, door->keys[8], door->keys[9], key->ports, key->meta);
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum = flow_nh(sum, door->keys[2 * i], door->keys[2 * i + 1], key->addresses[i] >> 32,
                          key->addresses[i]);
    }
    __u64 x = sum ^ door->finish[0];
    x = (x ^ x >> 32) * door->finish[1];
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
    x ^= x >> 32;
    /* No tag is 0. */
    return (__u8)(x >> 32) ? x : x | 1ull << 32;
}

#define LOW_BITS 0x0101010101010101ull
#define REST_BITS (0x7f * LOW_BITS)

/* The high bit of every byte that is `tag`. */
static __always_inline __u64 flow_tagged(__u64 tags, __u8 tag) {
    __u64 x = tags ^ tag * LOW_BITS;
    return ~(((x & REST_BITS) + REST_BITS) | x | REST_BITS);
}

static __always_inline int flow_has_key(struct flow_hot *hot, struct flow_key *key, __u32 meta) {
    volatile __u64 *addresses = hot->addresses;
    if (addresses[0] != key->addresses[0] || *(volatile __u32 *)&hot->ports != key->ports ||
        (meta ^ key->meta) & FLOW_KEY_BITS)
        return 0;
    return !(key->meta & FLOW_V6) || (addresses[1] == key->addresses[1] &&
                                      addresses[2] == key->addresses[2] && addresses[3] == key->addresses[3]);
}

/* An entry, the direction of the packet in it, and where its key was, as one number; 0: not
 * found. */
#define FOUND(entry, reply, at) ((__u64)(at) << 33 | (__u64)(reply) << 32 | (entry))
#define FOUND_AT(found) ((found) >> 33)

/* Whether the entry is the key's flow, or an alias of it: Table::hit. */
static __always_inline __u64 flow_hit(__u32 entry, struct flow_key *key) {
    struct flow_hot *hot = bpf_map_lookup_elem(&flow_hot, &entry);
    if (!hot)
        return 0;
    __u32 meta = *(volatile __u32 *)&hot->meta;
    if (flow_has_key(hot, key, meta)) {
        __u32 turned = ((meta & FLOW_SWAPPED) != 0) ^ key->swapped;
        if (!(meta & FLOW_ALIAS))
            return FOUND(entry, turned, entry);
        return (*(volatile __u32 *)&hot->state & 15) == FLOW_ALIAS_PHASE
                   ? FOUND(*(volatile __u32 *)&hot->decisions[0], !turned, entry)
                   : 0;
    }
    if (!(meta & FLOW_REPLY_HERE) || key->meta & FLOW_V6 ||
        *(volatile __u64 *)&hot->addresses[1] != key->addresses[0] ||
        *(volatile __u64 *)&hot->addresses[2] != ((__u64)key->ports << 32 | key->meta))
        return 0;
    return FOUND(entry, ((meta & FLOW_REPLY_SWAPPED) != 0) == key->swapped, entry);
}

/* Tags that match by chance are few; who has more of them in a word than this is looked up by the
 * worker. */
#define CANDIDATES 3

/* Not inlined, so that the verifier forgets how it was found. */
static __noinline __u64 flow_find(struct flow_door *door, struct flow_key *key) {
    __u64 spot = flow_spot(door, key);
    __u32 first = spot, second = spot >> 32;
    __u8 tag = second;
    for (int which = 0; which < 2; which++) {
        __u32 number = ((__u64)(which ? second : first) * door->buckets) >> 32;
        struct flow_bucket *bucket = bpf_map_lookup_elem(&flow_buckets, &number);
        if (!bucket)
            return 0;
        for (int part = 0; part < 2; part++) {
            __u64 tags = part ? *(volatile __u32 *)&bucket->four : *(volatile __u64 *)&bucket->eight;
            __u64 mask = flow_tagged(tags, tag);
            for (int i = 0; i < CANDIDATES && mask; i++) {
                __u64 low = (mask & -mask) >> 7;
                mask &= mask - 1;
                /* The number of the byte whose lowest bit this is. */
                __u64 slot = (low * 0x0001020304050607ull >> 56) + part * 8;
                asm volatile("" : "+r"(slot)); /* the register that is compared is the one that is used */
                if (slot >= FLOW_SLOTS)
                    return 0;
                __u32 word = *(volatile __u32 *)&bucket->slots[slot];
                if (!word || (word >> 28 & 7) != (first & 7))
                    continue;
                __u64 found = flow_hit(word & FLOW_ENTRY, key);
                if (found)
                    return found;
            }
        }
    }
    return 0;
}

static __always_inline struct flow_door *flow_table(void) {
    __u32 zero = 0;
    struct flow_door *door = bpf_map_lookup_elem(&flow_door, &zero);
    return door && door->buckets ? door : 0;
}

/* The verdict of a flow's word, if it is of the rules in force, and its number. 0: none. */
static __always_inline __u64 flow_verdict(__u32 decision, __u32 *number) {
    __u32 zero = 0;
    struct verdicts *all = bpf_map_lookup_elem(&verdicts, &zero);
    if (!all)
        return 0;
    __u64 force = *(volatile __u64 *)&all->force;
    __u32 generation = force, at = decision & ((1 << DECISION_NUMBER) - 1);
    if (!generation || decision >> DECISION_NUMBER != generation || at >= VERDICTS / 2)
        return 0;
    if (force & SECOND_HALF)
        at += VERDICTS / 2;
    *number = at;
    return *(volatile __u64 *)&all->word[at & (VERDICTS - 1)];
}

/* What one end has sent: tables/flow/src/tcp.rs. */
struct flow_side {
    __u32 end, ack, window, largest;
    __u8 flags;
};

static __always_inline struct flow_side flow_side(struct flow_cold *cold, __u32 state, __u64 reply) {
    __u64 numbers = *(volatile __u64 *)&cold->numbers[reply];
    __u32 scale = state >> (reply ? 8 : 4) & 15, window = *(volatile __u16 *)&cold->windows[reply];
    struct flow_side side = {.end = numbers >> 32, .ack = numbers, .window = window};
    side.largest = scale == 15 ? window : window << scale;
    if (!side.largest)
        side.largest = 1;
    side.flags = state >> (reply ? 20 : 12);
    return side;
}

/* Whether sequence number `a` lies behind `b`. */
static __always_inline int after(__u32 a, __u32 b) {
    return (__s32)(b - a) < 0;
}

#define TCP_FIN 1

static __always_inline __u32 at_least_slack(__u32 window) {
    return window > FLOW_SLACK ? window : FLOW_SLACK;
}

/* 0 original, 1 reply, in a register of which the verifier knows it. */
static __always_inline __u64 side_of(struct offloaded *c) {
    __u64 side = *(volatile __u32 *)&c->reply;
    asm volatile("%0 &= 1" : "+r"(side));
    return side;
}

static __always_inline struct flow_hot *hot_of(struct offloaded *c) {
    return bpf_map_lookup_elem(&flow_hot, &c->entry);
}

static __always_inline struct flow_cold *cold_of(struct offloaded *c) {
    return bpf_map_lookup_elem(&flow_cold, &c->entry);
}

/*
 * Whether the packet changes nothing about how far its flow is, and has a verdict that holds. Notes
 * what it will change in `c`.
 */
static __always_inline int is_ordinary(struct flow_door *door, struct offloaded *c, __u8 protocol,
                                       void *upper, void *end, __u32 upper_length) {
    __u64 found = flow_find(door, &c->key);
    c->found = found;
    c->entry = found;
    c->reply = found >> 32 & 1;
    struct flow_hot *hot = hot_of(c);
    struct flow_cold *cold = cold_of(c);
    if (!found || !hot || !cold)
        return 0;
    __u64 reply = side_of(c);
    __u32 state = *(volatile __u32 *)&hot->state, phase = state & 15;
    c->verdict = flow_verdict(*(volatile __u32 *)&hot->decisions[reply], &c->number);
    if (!(c->verdict & VERDICT_KNOWN) || (phase == PHASE_UNREPLIED) != ((c->verdict & VERDICT_NEW) != 0))
        return 0;
    if (protocol != PROTOCOL_TCP)
        return upper_length >= 8 &&
               (phase == PHASE_STREAM || phase == (reply ? PHASE_REPLIED : PHASE_UNREPLIED));
    if ((phase != PHASE_OPEN && phase != PHASE_CLOSING) || upper + 20 > end || upper_length < 20)
        return 0;
    __u32 sequence = load32(upper + 4), acknowledgement = load32(upper + 8);
    __u32 data = (*(__u8 *)(upper + 12) >> 4) * 4;
    __u8 flags = *(__u8 *)(upper + 13);
    /* SYN, ACK, FIN, RST */
    if ((flags & 0x17) != 0x10 || data < 20 || data > upper_length)
        return 0;
    __u32 last = sequence + (upper_length - data);
    struct flow_side own = flow_side(cold, state, reply), peer = flow_side(cold, state, reply ^ 1);
    /* Who has both FINs is over with one of these. */
    if (phase == PHASE_CLOSING && own.flags & peer.flags & TCP_FIN)
        return 0;
    if (own.flags != (own.flags | flags) || after(sequence, peer.ack + peer.largest) ||
        after(own.end - at_least_slack(peer.largest), last) || after(acknowledgement, peer.end) ||
        after(peer.end - at_least_slack(own.largest), acknowledgement))
        return 0;
    c->before = (__u64)own.end << 32 | own.ack;
    c->numbers = (__u64)(after(last, own.end) ? last : own.end) << 32 |
                 (after(acknowledgement, own.ack) ? acknowledgement : own.ack);
    c->window = load16(upper + 14);
    return 1;
}

/* Takes the packet into account: from here on it is forwarded here. 0: the flow has ended, or
 * another processor has just done so for this direction, and the worker is to say what comes of
 * both. */
static __always_inline int take(struct flow_door *door, struct offloaded *c, __u8 protocol) {
    struct flow_cold *cold = cold_of(c);
    asm volatile("" ::: "memory"); /* not before the rest has been read */
    if (!cold || flow_hit(FOUND_AT(c->found), &c->key) != c->found)
        return 0;
    __u64 reply = side_of(c);
    if (protocol == PROTOCOL_TCP) {
        if (c->numbers != c->before &&
            __sync_val_compare_and_swap(&cold->numbers[reply], c->before, c->numbers) != c->before)
            return 0;
        if (c->window > *(volatile __u16 *)&cold->windows[reply])
            *(volatile __u16 *)&cold->windows[reply] = c->window;
    }
    __u64 now = bpf_ktime_get_ns() - door->origin;
    if (*(volatile __u32 *)&cold->last != (__u32)(now >> 18))
        *(volatile __u32 *)&cold->last = now >> 18;
    __u64 volume = c->length;
    if (__sync_fetch_and_add(&cold->packets[reply], 1) == 0xffffffff)
        volume += 1ull << 52;
    __sync_fetch_and_add(&cold->volume[reply], volume);
    struct verdict_count *count = bpf_map_lookup_elem(&verdict_counts, &c->number);
    if (count) {
        count->packets++;
        count->bytes += c->length;
        count->last = now;
    }
    return 1;
}

/* Whether the flow is translated, and to what. */
#define UNTRANSLATED 0
#define TRANSLATED 1
#define UNKNOWN 2 /* here, at least */

static __always_inline int translates(void) {
    __u32 zero = 0;
    struct verdicts *all = bpf_map_lookup_elem(&verdicts, &zero);
    return all && *(volatile __u64 *)&all->translates;
}

static __always_inline int flow_target4(struct offloaded *c) {
    struct flow_hot *hot = hot_of(c);
    __u32 meta = hot ? *(volatile __u32 *)&hot->meta : FLOW_REPLY_IN_ALIAS;
    if (!(meta & FLOW_TRANSLATED))
        return UNTRANSLATED;
    if (!hot || !(meta & FLOW_REPLY_HERE) || !translates())
        return UNKNOWN;
    c->to.addresses[0] = c->reply ? hot->addresses[0] : hot->addresses[1];
    c->to.ports = c->reply ? hot->ports : hot->addresses[2] >> 32;
    c->to.high = !(meta & (c->reply ? FLOW_SWAPPED : FLOW_REPLY_SWAPPED));
    return TRANSLATED;
}

static __always_inline int flow_target6(struct offloaded *c) {
    struct flow_hot *hot = hot_of(c);
    if (!hot)
        return UNKNOWN;
    if (!(*(volatile __u32 *)&hot->meta & FLOW_TRANSLATED))
        return UNTRANSLATED;
    if (!c->reply) {
        __u32 alias = *(volatile __u32 *)&hot->route;
        hot = bpf_map_lookup_elem(&flow_hot, &alias);
    }
    __u32 meta = hot ? *(volatile __u32 *)&hot->meta : 0;
    if (!hot || !(meta & FLOW_V6) || !translates())
        return UNKNOWN;
    c->to.high = !(meta & FLOW_SWAPPED);
    c->to.ports = hot->ports;
#pragma unroll
    for (int i = 0; i < 4; i++)
        c->to.addresses[i] = hot->addresses[i];
    return TRANSLATED;
}

/* RFC 1624, over native-endian words: tables/nat/src/delta.rs. */
static __always_inline __u16 corrected(__u64 sum, __u16 checksum) {
    sum += (__u16)~checksum;
    sum = (sum >> 32) + (sum & 0xffffffff);
    sum = (sum >> 32) + (sum & 0xffffffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    return ~sum;
}

/* Writes ports, or the identifier of an echo, and corrects the checksum by this and by what became
 * of the addresses. GRE and ESP have nothing to write. */
static __always_inline void write_upper(void *upper, void *end, __u8 protocol, __be32 ports, __u64 delta) {
    if (protocol == PROTOCOL_ICMP || protocol == PROTOCOL_ICMP6) {
        __be16 *id = upper + 4;
        __u16 *checksum = upper + 2;
        /* In IPv4 nothing but the message is summed up. */
        if (protocol == PROTOCOL_ICMP)
            delta = 0;
        delta += (__u16) ~*id;
        *id = (__be16)ports;
        *checksum = corrected(delta + *id, *checksum);
        return;
    }
    if (protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP)
        return;
    __be32 *old = upper;
    delta += (__u32) ~*old;
    delta += ports;
    *old = ports;
    if (protocol != PROTOCOL_TCP) {
        __u16 *checksum = upper + 6, is = corrected(delta, *checksum);
        if (*checksum)
            *checksum = is ? is : 0xffff;
    } else if (upper + 20 <= end) { /* which has been seen */
        __u16 *checksum = upper + 16;
        *checksum = corrected(delta, *checksum);
    }
}

#define ECHO4_REPLY 0
#define ECHO4 8
#define ECHO6 128
#define ECHO6_REPLY 129

/* What stands for ports in the flow's key (tables/wire/src/headers.rs, tables/flow/src/tuple.rs),
 * source first. 0: the packet is the worker's. */
static __always_inline int flow_ports(__u8 protocol, void *upper, void *end, __u32 *ports) {
    __u8 *byte = upper;
    if (protocol == PROTOCOL_TCP || protocol == PROTOCOL_UDP) {
        *ports = load32(upper);
        return 1;
    }
    *ports = 0;
    if (protocol == PROTOCOL_ICMP || protocol == PROTOCOL_ICMP6) {
        *ports = load16(upper + 4) * 0x10001u;
        return protocol == PROTOCOL_ICMP ? *byte == ECHO4 || *byte == ECHO4_REPLY
                                         : *byte == ECHO6 || *byte == ECHO6_REPLY;
    }
    /* Its key is neither end's. */
    if (protocol == PROTOCOL_GRE && byte[0] & 0x20 && !(byte[1] & 7)) {
        void *key = byte[0] & 0x80 ? upper + 8 : upper + 4;
        if (key + 4 > end)
            return 0;
        *ports = load32(key);
    }
    return protocol == PROTOCOL_GRE || protocol == PROTOCOL_ESP;
}

/* Ports as far as ends are told apart by them. */
static __always_inline __u32 ends_of(__u8 protocol, __u32 ports) {
    return protocol == PROTOCOL_GRE ? 0 : ports;
}

/* The lower end's port stands first: the source's, unless it is the higher one. */
static __always_inline __u32 turned(__u32 ports, __u32 high) {
    return high ? ports << 16 | ports >> 16 : ports;
}

static __always_inline int is_unknown(struct offloaded *c) {
    return *(volatile __u32 *)&c->translated == UNKNOWN;
}

static __always_inline int is_translated(struct offloaded *c) {
    return *(volatile __u32 *)&c->translated == TRANSLATED;
}

/* Workers read along with FTP's control connections (forwarding/elements/src/router/ftp.rs). */
static __always_inline int is_read(__u32 ports) {
    return ports >> 16 == 21 || (ports & 0xffff) == 21;
}

/* Read anew: what was compared before, the verifier knows too well. */
static __always_inline __u8 again(__u8 *protocol) {
    return *(volatile __u8 *)protocol;
}

static __always_inline struct offloaded *begin(void) {
    __u32 zero = 0;
    return bpf_map_lookup_elem(&offloaded, &zero);
}

static __always_inline verdict offloaded4(struct frame *frame, struct ipv4 *ip) {
    struct flow_door *door = flow_table();
    struct offloaded *c = begin();
    __u8 protocol = ip->protocol;
    if (!door || !c || protocol == PROTOCOL_ICMP6 || ip->fragment & bpf_htons(0x3fff) || invalid4(frame, ip))
        return WORKER;
    __u32 source = bpf_ntohl(ip->source), destination = bpf_ntohl(ip->destination);
    void *upper = ip + 1;
    if (upper + 8 > frame->end || is_local4(source))
        return WORKER;
    __u32 ports;
    if (!flow_ports(protocol, upper, frame->end, &ports))
        return WORKER;
    __u32 ends = ends_of(protocol, ports);
    c->length = bpf_ntohs(ip->total_length);
    c->key.meta = protocol;
    c->key.swapped = ((__u64)source << 32 | ends >> 16) > ((__u64)destination << 32 | (ends & 0xffff));
    c->key.addresses[0] =
        c->key.swapped ? (__u64)destination << 32 | source : (__u64)source << 32 | destination;
    c->key.ports = ends ? turned(ports, c->key.swapped) : ports;
    if (!is_ordinary(door, c, protocol, upper, frame->end, c->length - sizeof(*ip)))
        return WORKER;
    if (is_read(ports) || is_diverted(frame, &ip->source, &ip->destination, 1, 4, protocol, ports))
        return WORKER;
    c->translated = flow_target4(c);
    if (is_unknown(c))
        return WORKER;
    __u32 to = !is_translated(c) ? destination : c->to.high ? c->to.addresses[0] >> 32 : c->to.addresses[0];
    __u64 hop = word64(&nexthops, lookup4(to));
    if (kind_of(hop) != KIND_FORWARD || ip->ttl <= 1)
        return WORKER;
    if (frame->flags & (IF_RPF4_STRICT | IF_RPF4_LOOSE)) {
        __u64 back = word64(&nexthops, lookup4(source));
        if (reverse_path(frame, back, frame->flags & IF_RPF4_STRICT) != UNDECIDED)
            return WORKER;
    }
    struct pair adjacency, out;
    __u32 hash =
        flow_hash4(source, destination, again(&ip->protocol), has_ports(again(&ip->protocol)) ? ports : 0);
    if (resolve(frame, hop, hash, c->length, &adjacency, &out) != UNDECIDED ||
        frame->out != (__u16)c->verdict || !take(door, c, again(&ip->protocol)))
        return WORKER;
    finish(frame->ctx, frame->port);
    if (is_translated(c)) {
        __be32 from = bpf_htonl(c->to.high ? c->to.addresses[0] : c->to.addresses[0] >> 32);
        __u64 delta = (__u64)(__u32)~ip->source + from + (__u32)~ip->destination + bpf_htonl(to);
        ip->checksum = corrected(delta, ip->checksum);
        ip->source = from;
        ip->destination = bpf_htonl(to);
        write_upper(upper, frame->end, again(&ip->protocol), bpf_htonl(turned(c->to.ports, c->to.high)),
                    delta);
    }
    if (c->verdict & VERDICT_DSCP) {
        __u8 tos = (__u8)(c->verdict >> 16 << 2) | (ip->tos & 3);
        ip->checksum = corrected((__u64)(__u16)~bpf_htons(ip->tos) + bpf_htons(tos), ip->checksum);
        ip->tos = tos;
    }
    decrement_ttl(ip);
    write_macs(frame->data, adjacency, out);
    return leave(frame, c->length);
}

static __always_inline __u64 words_of(struct ipv6 *ip) {
    __u64 sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++)
        sum += ((__be32 *)&ip->source)[i];
    return sum;
}

/* Whether a packet may be forwarded here (UNDECIDED), or is the worker's. The rest is another
 * program's (send6), so that the verifier begins anew. */
static __always_inline verdict offloaded6(struct frame *frame, struct ipv6 *ip) {
    struct flow_door *door = flow_table();
    struct offloaded *c = begin();
    __u8 protocol = ip->next_header;
    __u32 length = sizeof(*ip) + bpf_ntohs(ip->payload_length);
    void *upper = ip + 1;
    measure(frame, ETHERNET + length);
    if (!door || !c || protocol == PROTOCOL_ICMP || ETHERNET + length > frame->length ||
        upper + 8 > frame->end)
        return WORKER;
    __u64 s1 = bpf_be64_to_cpu(ip->source.half[0]), s2 = bpf_be64_to_cpu(ip->source.half[1]);
    __u64 d1 = bpf_be64_to_cpu(ip->destination.half[0]), d2 = bpf_be64_to_cpu(ip->destination.half[1]);
    /* Two IPv4-mapped addresses have a key of IPv4. (Compared so that the verifier does not know
     * either for 0.) */
    __u64 both = s1 | d1;
    asm volatile("" : "+r"(both));
    if (!both)
        return WORKER;
    __u32 ports;
    if (!flow_ports(protocol, upper, frame->end, &ports))
        return WORKER;
    __u32 ends = ends_of(protocol, ports);
    int high;
    if (s1 != d1)
        high = s1 > d1;
    else if (s2 != d2)
        high = s2 > d2;
    else
        high = ends >> 16 > (ends & 0xffff);
    c->length = length;
    c->key.meta = protocol | FLOW_V6;
    c->key.swapped = high;
    c->key.addresses[0] = high ? d1 : s1;
    c->key.addresses[1] = high ? d2 : s2;
    c->key.addresses[2] = high ? s1 : d1;
    c->key.addresses[3] = high ? s2 : d2;
    c->key.ports = ends ? turned(ports, high) : ports;
    if (!is_ordinary(door, c, protocol, upper, frame->end, length - sizeof(*ip)))
        return WORKER;
    if (is_read(ports) || is_diverted(frame, &ip->source, &ip->destination, 4, 6, protocol, ports))
        return WORKER;
    c->translated = flow_target6(c);
    return is_unknown(c) ? WORKER : UNDECIDED;
}

/* The way that such a packet takes. It has been looked at: `c` says all about it. */
static __always_inline verdict send6(struct frame *frame, struct ipv6 *ip) {
    struct flow_door *door = flow_table();
    struct offloaded *c = begin();
    void *upper = ip + 1;
    if (!door || !c || upper + 8 > frame->end)
        return WORKER;
    measure(frame, ETHERNET + c->length);
    __u64 s1 = bpf_be64_to_cpu(ip->source.half[0]), s2 = bpf_be64_to_cpu(ip->source.half[1]);
    __u64 d1 = bpf_be64_to_cpu(ip->destination.half[0]), d2 = bpf_be64_to_cpu(ip->destination.half[1]);
    __u64 to1 = !is_translated(c) ? d1 : c->to.high ? c->to.addresses[0] : c->to.addresses[2];
    __u64 to2 = !is_translated(c) ? d2 : c->to.high ? c->to.addresses[1] : c->to.addresses[3];
    __u64 hop = word64(&nexthops, lookup6(to1, to2));
    if (kind_of(hop) != KIND_FORWARD || ip->hop_limit <= 1)
        return WORKER;
    if (frame->flags & (IF_RPF6_STRICT | IF_RPF6_LOOSE)) {
        __u64 back = word64(&nexthops, lookup6(s1, s2));
        if (reverse_path(frame, back, frame->flags & IF_RPF6_STRICT) != UNDECIDED)
            return WORKER;
    }
    struct pair adjacency, out;
    __u8 protocol = again(&ip->next_header);
    __u32 hash = flow_hash6(s1, s2, d1, d2, protocol, has_ports(protocol) ? load32(upper) : 0);
    if (resolve(frame, hop, hash, c->length, &adjacency, &out) != UNDECIDED ||
        frame->out != (__u16)c->verdict || !take(door, c, again(&ip->next_header)))
        return WORKER;
    finish(frame->ctx, frame->port);
    if (is_translated(c)) {
        __u64 delta = 8 * 0xffffffffull - words_of(ip);
        ip->source.half[0] = bpf_cpu_to_be64(c->to.high ? c->to.addresses[2] : c->to.addresses[0]);
        ip->source.half[1] = bpf_cpu_to_be64(c->to.high ? c->to.addresses[3] : c->to.addresses[1]);
        ip->destination.half[0] = bpf_cpu_to_be64(to1);
        ip->destination.half[1] = bpf_cpu_to_be64(to2);
        delta += words_of(ip);
        write_upper(upper, frame->end, again(&ip->next_header), bpf_htonl(turned(c->to.ports, c->to.high)),
                    delta);
    }
    if (c->verdict & VERDICT_DSCP) {
        __u32 word = bpf_ntohl(ip->version_class_flow) & ~(0x3fu << 22);
        ip->version_class_flow = bpf_htonl(word | (__u32)(c->verdict >> 16 & 0x3f) << 22);
    }
    ip->hop_limit--;
    write_macs(frame->data, adjacency, out);
    return leave(frame, c->length);
}
