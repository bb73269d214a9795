/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The maps. All ports share one set, as they share the programs: which port a packet came in by is
 * found in `places`.
 *
 * Tables are written by user space with plain stores into the mapped pages. A bpf array rounds
 * every element up to 8 bytes, so an element is a page of words, and a word is found by an index
 * inside it.
 */
#pragma once
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "hidden.h"

/* Not 0 where the program runs in generic mode: what a frame that a worker handed to Linux ends
 * with. */
volatile const __u32 MARK = 0;

/* Bits of an address that the first level of `fib4` does not look at: fewer for many routes. */
volatile const __u32 FIB4_REST = 8;

struct block32 {
    __u32 word[BLOCK32];
};
struct block64 {
    __u64 word[BLOCK64];
};

/* The loader sets the size: max_entries. */
#define TABLE(name, block)                                                                                   \
    struct {                                                                                                 \
        __uint(type, BPF_MAP_TYPE_ARRAY);                                                                    \
        __uint(map_flags, BPF_F_MMAPABLE);                                                                   \
        __uint(max_entries, 1);                                                                              \
        __type(key, __u32);                                                                                  \
        __type(value, struct block);                                                                         \
    } name SEC(".maps")

TABLE(fib4, block32);
TABLE(fib6, block32);
TABLE(nexthops, block64);    /* 1 word each */
TABLE(buckets, block32);     /* adjacencies of next hops with several paths */
TABLE(adjacencies, block64); /* 2 words each */
TABLE(used, block32);        /* 1 per adjacency: set when a packet used it */
TABLE(interfaces, block64);  /* 4 words each; a port's own has its number */
TABLE(tags, block32);        /* blocks of FIB_TAGS words, the roots of ports first */
TABLE(local_filter, block32);
TABLE(settings, settings);
TABLE(pulse, pulse);

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_PORTS);
    __type(key, __u32);
    __type(value, struct arrivals);
} arrivals SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, __u32);
    __type(value, __u8);
} local4 SEC(".maps");

struct in6 {
    __u64 half[2];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, struct in6);
    __type(value, __u8);
} local6 SEC(".maps");

/* Where the express lane sends by port, and, while somebody watches, a program that copies (struct
 * bpf_devmap_val). */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, MAX_PEERS);
    __type(key, struct peer);
    __type(value, __u8);
} peers SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __uint(max_entries, MAX_PORTS);
    __uint(key_size, 4);
    __uint(value_size, 8);
} targets SEC(".maps");

/*
 * The way to the workers (to_worker, stranger_to_worker). The kernel empties an array of programs
 * as soon as its last descriptor is closed, all of it at once: when the daemon is killed, the
 * workers' packets are Linux's from that moment on, and not only when the kernel has taken apart
 * link after link and socket after socket.
 */
struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, GATES);
    __uint(key_size, 4);
    __uint(value_size, 4);
} gate SEC(".maps");

/* The ways to programs behind the first (enum step). They end as the gate does. */
struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, STEPS);
    __uint(key_size, 4);
    __uint(value_size, 4);
} steps SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, MAX_PORTS *MAX_QUEUES); /* a port's queues side by side */
    __uint(key_size, 4);
    __uint(value_size, 4);
} sockets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, MAX_PORTS);
    __type(key, __u32);
    __type(value, struct counters);
} counters SEC(".maps");

/* What the express lane sent, by the port that it left by. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, MAX_PORTS);
    __type(key, __u32);
    __type(value, struct count);
} sent SEC(".maps");

/* What came in by interfaces that are no port's own, and what the express lane sent by them. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, FIB_INTERFACES - MAX_PORTS);
    __type(key, __u32);
    __type(value, struct traffic);
} logical SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, PLACES);
    __type(key, __u32);
    __type(value, struct place);
} places SEC(".maps");

/*
 * The port that a packet came in by; when its interface is none, a number that no map has an entry
 * for. Without a branch, so that the kernel's verifier has but one way to follow from here.
 */
static __always_inline __u32 port_at(struct xdp_md *ctx) {
    __u32 ifindex = ctx->ingress_ifindex, at = ifindex % PLACES, port = 0;
    struct place *place = bpf_map_lookup_elem(&places, &at);
    if (!place)
        return NO_PORT;
#pragma unroll
    for (int i = 0; i < PORTS_A_PLACE; i++) {
        __u64 word = *(volatile __u64 *)&place->word[i];
        __u64 bits = differ(word >> 32, ifindex);
        port |= (__u32)word & (__u32)((__s64)(bits - 1) >> 63);
    }
    return (__u16)(port - 1);
}

/* Who has promised to be there (struct pulse). */
enum promise { TABLES, WORKERS };

/*
 * Whether the promise is broken: then Linux does it. By the clock of the last tick, which costs a
 * few ns.
 */
static __always_inline int is_broken(enum promise whose) {
    __u32 zero = 0;
    struct pulse *promised = bpf_map_lookup_elem(&pulse, &zero);
    if (!promised)
        return 0;
    volatile __u64 *until = whose == TABLES ? &promised->tables : &promised->workers;
    return bpf_ktime_get_coarse_ns() > *until;
}

static __always_inline __u32 word32(void *table, __u32 index) {
    __u32 key = index / BLOCK32;
    struct block32 *block = bpf_map_lookup_elem(table, &key);
    return block ? *(volatile __u32 *)&block->word[whole(index) % BLOCK32] : 0;
}

static __always_inline __u64 word64(void *table, __u32 index) {
    __u32 key = index / BLOCK64;
    struct block64 *block = bpf_map_lookup_elem(table, &key);
    return block ? *(volatile __u64 *)&block->word[whole(index) % BLOCK64] : 0;
}

/* Two words that belong together, at an even index. */
struct pair {
    __u64 first, second;
};

/* Says whether the table is so large; the verifier need not follow who goes on with nothing. */
static __always_inline int find_pair(void *table, __u32 number, struct pair *pair) {
    __u32 key = number / (BLOCK64 / 2);
    struct block64 *block = bpf_map_lookup_elem(table, &key);
    if (!block)
        return 0;
    __u32 at = whole(number) % (BLOCK64 / 2) * 2;
    pair->first = *(volatile __u64 *)&block->word[at];
    pair->second = *(volatile __u64 *)&block->word[at + 1];
    return 1;
}

static __always_inline struct pair pair64(void *table, __u32 number) {
    struct pair pair = {};
    find_pair(table, number, &pair);
    return pair;
}
