/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* forwarding/bpf/fib.h outside the kernel: the maps are plain memory. */
#include "../../../forwarding/bpf/abi.h"

struct block32 {
    __u32 word[BLOCK32];
};

struct map {
    struct block32 *blocks;
    __u32 count;
};

struct map fib4, fib6;
__u32 FIB4_REST;

static void *bpf_map_lookup_elem(struct map *map, const __u32 *key) {
    return *key < map->count ? &map->blocks[*key] : 0;
}

static __u32 word32(struct map *map, __u32 index) {
    __u32 key = index / BLOCK32;
    struct block32 *block = bpf_map_lookup_elem(map, &key);
    return block ? *(volatile __u32 *)&block->word[index % BLOCK32] : 0;
}

#include "../../../forwarding/bpf/fib.h"

void walk_maps(struct map four, struct map six, __u32 rest) {
    FIB4_REST = rest;
    fib4 = four;
    fib6 = six;
}

__u32 walk4(__u32 address) {
    return lookup4(address);
}

__u32 walk_beside4(__u32 table, __u32 address) {
    return lookup_beside(table, 0, (__u64)address << 32, 0);
}

__u32 walk_beside6(__u32 table, __u64 high, __u64 low) {
    return lookup_beside(table, 1, high, low);
}

__u32 walk6(__u64 high, __u64 low) {
    return lookup6(high, low);
}
