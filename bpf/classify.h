/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The classifier: what is for this machine or for its routing protocols goes to Linux; the rest is transit.
 *
 * Two questions, apart: *whether* a packet is Linux's (is_linux4, is_linux6: by address and header shape),
 * and *which class* it then counts as (class_of_*: by protocol and port), which is wire::Class in C.
 */
#pragma once
#include "maps.h"
#include <bpf/bpf_endian.h>

#define ETHERNET 14
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_QINQ 0x88a8

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

static __always_inline int is_routing_port(__u16 port, __u8 protocol) {
    return port == 179 || port == 646 ||
           (protocol == 17 &&
            (port == 520 || port == 521 || port == 3784 || port == 3785 || port == 4784 || port == 6784));
}

static __always_inline int is_management_port(__u16 port, __u8 protocol) {
    if (port == 49 || port == 53 || port == 161 || port == 162)
        return 1;
    if (protocol == 6)
        return port == 22 || port == 80 || port == 443 || port == 830;
    return port == 67 || port == 68 || port == 123 || port == 546 || port == 547 || port == 1812 ||
           port == 1813;
}

/* `upper` points to the header of `protocol`, unless the packet does not show it: in later fragments. */
static __always_inline enum police_class class_of_upper(__u8 protocol, int shown, void *upper, void *end) {
    switch (protocol) {
    case 2:   /* IGMP */
    case 46:  /* RSVP */
    case 88:  /* EIGRP */
    case 89:  /* OSPF */
    case 103: /* PIM */
    case 112: /* VRRP */
        return CLASS_ROUTING;
    case 1:
        return CLASS_ICMP;
    case 58: {
        if (!shown || upper + 1 > end)
            return CLASS_ICMP;
        __u8 type = *(__u8 *)upper;
        /* neighbour discovery and multicast listener discovery */
        return (type >= 130 && type <= 137) || type == 143 ? CLASS_ROUTING : CLASS_ICMP;
    }
    case 6:
    case 17: {
        if (!shown || upper + 4 > end)
            return CLASS_REST;
        __u16 source = load16(upper), destination = load16(upper + 2);
        if (is_routing_port(source, protocol) || is_routing_port(destination, protocol))
            return CLASS_ROUTING;
        if (is_management_port(source, protocol) || is_management_port(destination, protocol))
            return CLASS_MANAGEMENT;
        return CLASS_REST;
    }
    default:
        return CLASS_REST;
    }
}

static __always_inline enum police_class class_of_ipv4(struct ipv4 *ip, void *end) {
    void *upper = (void *)ip + (ip->version_ihl & 15) * 4;
    int first = !(ip->fragment & bpf_htons(0x1fff));
    return class_of_upper(ip->protocol, first, upper, end);
}

/* Looks behind one hop-by-hop header, where MLD hides (RFC 3810). */
static __always_inline enum police_class class_of_ipv6(struct ipv6 *ip, void *end) {
    void *upper = ip + 1;
    __u8 protocol = ip->next_header;
    if (protocol == 0) {
        if (upper + 2 > end)
            return CLASS_REST;
        protocol = *(__u8 *)upper;
        upper += (*(__u8 *)(upper + 1) + 1) * 8;
    }
    return class_of_upper(protocol, 1, upper, end);
}

/* Whether this may be a local address: no for nearly all others, without a look into the hash map. */
static __always_inline int may_be_local(__u64 key) {
    __u32 bit = (__u32)(key * 0x9E3779B97F4A7C15ull >> 49);
    return word32(&local_filter, bit / 32) >> (bit % 32) & 1;
}

static __always_inline int is_local4(__u32 address) {
    __be32 key = bpf_htonl(address);
    return may_be_local(address) && bpf_map_lookup_elem(&local4, &key) != 0;
}

static __always_inline int is_local6(struct in6 *address) {
    return may_be_local(address->half[0] ^ address->half[1]) && bpf_map_lookup_elem(&local6, address) != 0;
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
