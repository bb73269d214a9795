// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Every frame of an interface to the AF_XDP socket of the queue that it came in by; where there is
 * no socket, to Linux.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "abi.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, MAX_QUEUES);
    __uint(key_size, 4);
    __uint(value_size, 4);
} sockets SEC(".maps");

SEC("xdp.frags")
int redirect(struct xdp_md *ctx) {
    return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}
