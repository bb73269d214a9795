/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who speaks a routing protocol with this machine.
 *
 * Routing protocols have three buckets a port, so that forged packets from anywhere cannot starve a
 * session: one for the sessions of TCP that stand (both addresses' ports are known to few), one for
 * other packets from addresses that are known (who has a session, and neighbours on the link: OSPF,
 * BFD, the beginning of a session), and one for all others. Who is known is what Linux knows
 * (program/bifrost/src/daemon/peers.rs).
 */
#pragma once
#include "classify.h"

/* A peer's address and ports, or with ports 0 the address alone; read after the class is
 * decided. */
static __always_inline __u32 bucket_of(void *data, void *end, enum police_class class) {
    void *network = data + ETHERNET, *upper;
    struct peer peer = {};
    __u8 protocol;
    if (class != CLASS_ROUTING || network > end)
        return class;
    __u16 type = load16(data + 12);
    if (type == ETHERTYPE_VLAN) {
        if (network + 4 > end)
            return class;
        type = load16(network + 2);
        network += 4;
    }
    if (type == ETHERTYPE_IPV4) {
        struct ipv4 *ip = network;
        if ((void *)(ip + 1) > end)
            return class;
        peer.address[2] = bpf_htonl(0xffff);
        peer.address[3] = ip->source;
        protocol = ip->version_ihl == 0x45 && !(ip->fragment & bpf_htons(0x1fff)) ? ip->protocol : 0;
        upper = ip + 1;
    } else if (type == ETHERTYPE_IPV6) {
        struct ipv6 *ip = network;
        if ((void *)(ip + 1) > end)
            return class;
        __builtin_memcpy(peer.address, &ip->source, sizeof(peer.address));
        protocol = ip->next_header;
        upper = ip + 1;
    } else {
        return class;
    }
    if (protocol == PROTOCOL_TCP && upper + 4 <= end) {
        peer.theirs = load16(upper);
        peer.ours = load16(upper + 2);
        if (bpf_map_lookup_elem(&peers, &peer))
            return BUCKET_SESSION;
        peer.theirs = peer.ours = 0;
    }
    return bpf_map_lookup_elem(&peers, &peer) ? BUCKET_PEER : class;
}
