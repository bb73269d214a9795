/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The classifier: what is for this machine or for its routing protocols goes to Linux; the rest is
 * transit.
 *
 * Two questions, apart: *whether* a packet is Linux's (is_linux4, is_linux6: by address and header
 * shape), and *which class* it then counts as (class_of_*: by protocol and port), as
 * wire::class_of_frame in Rust. The second is asked at one place, when the first is decided.
 */
#pragma once
#include "maps.h"
#include <bpf/bpf_endian.h>

#define ETHERNET 14
#define load16(at) bpf_ntohs(*(__be16 *)(at))
#define load32(at) bpf_ntohl(*(__be32 *)(at))
#define load64(at) bpf_be64_to_cpu(*(__be64 *)(at))

struct ipv4 {
    __u8 version_ihl, tos;
    __be16 total_length, id, fragment;
    __u8 ttl, protocol;
    __sum16 checksum;
    __be32 source, destination;
};

struct ipv6 {
    __be32 version_class_flow;
    __be16 payload_length;
    __u8 next_header, hop_limit;
    struct in6 source, destination;
};

/* Of UDP only the port that it goes to says what it is; a connection of TCP may have begun at
 * either end. */
static __always_inline enum police_class class_of_ports(__u8 protocol, __u8 ttl, __u16 source,
                                                        __u16 destination) {
    int either = protocol == PROTOCOL_TCP;
    if (is_routing_port(destination, protocol, ttl) || (either && is_routing_port(source, protocol, ttl)))
        return CLASS_ROUTING;
    if (is_management_port(source, protocol, ttl) || is_management_port(destination, protocol, ttl))
        return CLASS_MANAGEMENT;
    return CLASS_REST;
}

/* `upper` points to the header of `protocol`, unless the packet does not show it: in later
 * fragments. */
static __always_inline enum police_class class_of_upper(__u8 protocol, int shown, __u8 ttl, void *upper,
                                                        void *end) {
    switch (protocol) {
    case PROTOCOL_IGMP:
    case PROTOCOL_RSVP:
    case PROTOCOL_EIGRP:
    case PROTOCOL_OSPF:
    case PROTOCOL_PIM:
        return CLASS_ROUTING;
    case PROTOCOL_VRRP: /* RFC 9568, 5.1.1.3 */
        return ttl == 255 ? CLASS_ROUTING : CLASS_REST;
    case PROTOCOL_ICMP:
        return CLASS_ICMP;
    case PROTOCOL_ICMP6: {
        if (!shown || upper + 1 > end)
            return CLASS_ICMP;
        __u8 type = *(__u8 *)upper;
        /* Neighbour discovery (RFC 4861, 6.1 and 7.1) and multicast listener discovery. */
        if (type >= 133 && type <= 137)
            return ttl == 255 ? CLASS_NEIGHBOUR : CLASS_ICMP;
        return (type >= 130 && type <= 132) || type == 143 ? CLASS_ROUTING : CLASS_ICMP;
    }
    case PROTOCOL_TCP:
    case PROTOCOL_UDP:
        if (!shown || upper + 4 > end)
            return CLASS_REST;
        return class_of_ports(protocol, ttl, load16(upper), load16(upper + 2));
    default:
        return CLASS_REST;
    }
}

static __always_inline enum police_class class_of_ipv4(struct ipv4 *ip, void *end) {
    void *upper = (void *)ip + (ip->version_ihl & 15) * 4;
    int first = !(ip->fragment & bpf_htons(0x1fff));
    return class_of_upper(ip->protocol, first, ip->ttl, upper, end);
}

/* What hides behind more extension headers than these is none of those that are treated apart. */
#define EXTENSIONS 4

static __always_inline enum police_class class_of_ipv6(struct ipv6 *ip, void *end) {
    __u8 *upper = (void *)(ip + 1), protocol = ip->next_header;
    int shown = 1;
    for (int i = 0; i < EXTENSIONS && shown; i++) {
        __u32 length;
        if (protocol != PROTOCOL_HOP_BY_HOP && protocol != PROTOCOL_ROUTING &&
            protocol != PROTOCOL_DESTINATION_OPTIONS && protocol != PROTOCOL_FRAGMENT &&
            protocol != PROTOCOL_AUTHENTICATION)
            break;
        if ((void *)(upper + 8) > end)
            return CLASS_REST;
        if (protocol == PROTOCOL_FRAGMENT) {
            shown = !(load16(upper + 2) & 0xfff8);
            length = 8;
        } else {
            length = protocol == PROTOCOL_AUTHENTICATION ? (upper[1] + 2) * 4 : (upper[1] + 1) * 8;
        }
        protocol = upper[0];
        upper += length;
    }
    return class_of_upper(protocol, shown, ip->hop_limit, upper, end);
}

/* Whether this may be a local address: no for nearly all others, without a look into the hash
 * map. */
static __always_inline int may_be_local(__u64 key) {
    __u32 bit = (__u32)(key * LOCAL_FACTOR >> LOCAL_SHIFT);
    return word32(&local_filter, bit / 32) >> (bit % 32) & 1;
}

/* Whether this is an address of this machine, of one of these kinds (LOCAL_*). */
static __always_inline int is_local4_of(__u32 address, __u8 kinds) {
    if (!may_be_local(address))
        return 0;
    __be32 key = bpf_htonl(address);
    __u8 *found = bpf_map_lookup_elem(&local4, &key);
    return found && *found & kinds;
}

static __always_inline int is_local6_of(struct in6 *address, __u8 kinds) {
    if (!may_be_local(address->half[0] ^ address->half[1]))
        return 0;
    __u8 *found = bpf_map_lookup_elem(&local6, address);
    return found && *found & kinds;
}

/* The same where the main table routes. */
static __always_inline int is_local4(__u32 address) {
    return is_local4_of(address, LOCAL_MAIN);
}

static __always_inline int is_local6(struct in6 *address) {
    return is_local6_of(address, LOCAL_MAIN);
}

/*
 * Whether a packet to an address of this machine that the main table routes may be in a tunnel that
 * workers open. One that Linux has joined of several is Linux's: it knows how to part them.
 */
static __always_inline int is_tunnels(__u8 protocol) {
    return protocol == PROTOCOL_IPIP || protocol == PROTOCOL_IPV6 || protocol == PROTOCOL_GRE;
}

/* Behind a header of UDP: a number, and nothing else (RFC 7348, 5). To which port it goes, workers
 * look at. */
static __always_inline int is_vxlan(__u8 protocol, void *udp, void *end) {
    __u8 *vxlan = udp + 8;
    return protocol == PROTOCOL_UDP && vxlan + 8 <= (__u8 *)end && load32(vxlan) == 0x08000000 && !vxlan[7];
}

static __always_inline int is_enclosed4(struct ipv4 *ip, void *end) {
    __u32 destination = bpf_ntohl(ip->destination);
    return (is_tunnels(ip->protocol) && is_local4_of(destination, LOCAL_TUNNEL)) ||
           (is_vxlan(ip->protocol, ip + 1, end) && is_local4_of(destination, LOCAL_VXLAN));
}

/* A limit of tunnels stands in front of what is inside (RFC 2473, 4.1.1). */
static __always_inline int is_enclosed6(struct ipv6 *ip, void *end) {
    return ((is_tunnels(ip->next_header) || ip->next_header == PROTOCOL_DESTINATION_OPTIONS) &&
            is_local6_of(&ip->destination, LOCAL_TUNNEL)) ||
           (is_vxlan(ip->next_header, ip + 1, end) && is_local6_of(&ip->destination, LOCAL_VXLAN));
}

/* Link-local, multicast or limited broadcast: never transit for us. */
static __always_inline int is_linux4(__u32 source, __u32 destination) {
    return destination >> 28 == 14 || destination == 0xffffffff || destination >> 16 == 0xa9fe ||
           source >> 16 == 0xa9fe;
}

static __always_inline int is_linux6(struct ipv6 *ip) {
    __u64 source = bpf_be64_to_cpu(ip->source.half[0]),
          destination = bpf_be64_to_cpu(ip->destination.half[0]);
    return destination >> 56 == 0xff || destination >> 54 == 0xfe80 >> 6 || source >> 54 == 0xfe80 >> 6;
}

/* Groups beyond the link, which Linux may route. What manages their members is for this machine. */
static __always_inline int is_routed_group4(__u32 destination, __u8 protocol) {
    return destination >> 28 == 14 && destination >> 8 != 0xe00000 && protocol != PROTOCOL_IGMP &&
           protocol != PROTOCOL_PIM;
}

static __always_inline int is_routed_group6(struct ipv6 *ip) {
    __u16 first = load16(&ip->destination);
    return first >> 8 == 0xff && (first & 15) > 2 && ip->next_header != PROTOCOL_HOP_BY_HOP &&
           ip->next_header != PROTOCOL_ICMP6;
}

/*
 * The class of a frame for Linux. `ours`: it is known to be for this machine, or for nobody else.
 * Otherwise it came for another link address (a group, a virtual router, a bridge behind the port)
 * or with a tag: what goes to an address of this machine is for it, and the rest is what Linux
 * forwards.
 */
static __always_inline enum police_class class_of_frame(void *data, void *end, int ours) {
    void *network = data + ETHERNET;
    if (network > end)
        return CLASS_REST;
    __u16 type = load16(data + 12);
    for (int tag = 0; tag < 2; tag++) {
        if (type != ETHERTYPE_VLAN && type != ETHERTYPE_QINQ)
            break;
        if (network + 4 > end)
            return CLASS_REST;
        type = load16(network + 2);
        network += 4;
    }
    if (type == ETHERTYPE_IPV4) {
        struct ipv4 *ip = network;
        if ((void *)(ip + 1) > end)
            return CLASS_REST;
        __u32 source = bpf_ntohl(ip->source), destination = bpf_ntohl(ip->destination);
        if (is_routed_group4(destination, ip->protocol) ||
            (!ours && !is_linux4(source, destination) && !is_local4_of(destination, LOCAL_ANY)))
            return CLASS_TRANSIT;
        return class_of_ipv4(ip, end);
    }
    if (type == ETHERTYPE_IPV6) {
        struct ipv6 *ip = network;
        if ((void *)(ip + 1) > end)
            return CLASS_REST;
        if (is_routed_group6(ip) || (!ours && !is_linux6(ip) && !is_local6_of(&ip->destination, LOCAL_ANY)))
            return CLASS_TRANSIT;
        return class_of_ipv6(ip, end);
    }
    return type == ETHERTYPE_ARP ? CLASS_NEIGHBOUR : CLASS_ROUTING;
}
