// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * How a worker hands a packet to Linux: written to a TAP device with the number of the true input
 * interface behind it, and moved from there to that interface's ingress by this program. So Linux's
 * neighbour tables, reverse-path checks, firewall and ICMP all see the port that the packet came in
 * by.
 *
 * What the worker has judged by the router's filter already is marked, so that Linux's copy of the
 * filter lets it pass: its connection tracking has not seen the packets before it.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "abi.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("classifier")
int inject(struct __sk_buff *skb) {
    __u32 ifindex, mark;
    if (skb->len < sizeof(ifindex) ||
        bpf_skb_load_bytes(skb, skb->len - sizeof(ifindex), &ifindex, sizeof(ifindex)))
        return TC_ACT_SHOT;
    if (ifindex & JUDGED) {
        skb->mark = JUDGED_MARK;
        ifindex &= ~JUDGED;
    }
    /*
     * The kernel does not cut into what it takes for the transport header, and where extension
     * headers say that they are longer than the packet, it takes the packet's end for that. Then
     * the number stays, as padding behind the packet, which IP cuts off; and what the frame is to
     * end with is written over it.
     */
    if (bpf_skb_change_tail(skb, skb->len - sizeof(ifindex), 0) &&
        (bpf_skb_load_bytes(skb, skb->len - 2 * sizeof(mark), &mark, sizeof(mark)) ||
         bpf_skb_store_bytes(skb, skb->len - sizeof(mark), &mark, sizeof(mark), 0)))
        return TC_ACT_SHOT;
    return bpf_redirect(ifindex, BPF_F_INGRESS);
}
