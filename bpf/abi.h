/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Numbers and layouts that the driver's programs share with user space. The other side of each is named
 * beside it; a test in port/ compares them.
 */
#pragma once
#include <linux/types.h>

#define MAX_PORTS 256
#define MAX_QUEUES 128
#define NO_PORT 0xffff

/* port::driver::places: the ports whose interfaces' indexes are the same modulo PLACES. A word each, the
 * index in the high half and the port's number + 1 in the low; 0 = free. */
#define PLACES 1024
#define PORTS_A_PLACE 4
struct place {
    __u64 word[PORTS_A_PLACE];
};

/* wire::Reason */
enum reason {
    REASON_NONE,
    REASON_TRUNCATED,
    REASON_BAD_VERSION,
    REASON_BAD_HEADER_LENGTH,
    REASON_BAD_TOTAL_LENGTH,
    REASON_BAD_CHECKSUM,
    REASON_TTL_EXPIRED,
    REASON_MARTIAN_SOURCE,
    REASON_MARTIAN_DESTINATION,
    REASON_NO_ROUTE,
    REASON_BLACKHOLE,
    REASON_UNREACHABLE,
    REASON_PROHIBIT,
    REASON_REVERSE_PATH,
    REASON_TOO_BIG,
    REASON_FORWARDING_OFF,
    REASON_PORT_DOWN,
    REASON_TRANSMIT_FULL,
    REASON_NO_BUFFER,
    REASON_REDIRECT_FAILED,
    REASON_POLICED_ROUTING,
    REASON_POLICED_MANAGEMENT,
    REASON_POLICED_ICMP,
    REASON_POLICED_REST,
    REASON_POLICED_UNRESOLVED,
    REASON_POLICED_TRANSIT,
    REASON_POLICED_NEIGHBOUR,
    REASON_PUNT_FAILED,
    REASON_ICMP_LIMITED,
    REASON_CORRUPT_RING,
    REASON_NOT_IP,
    REASON_RECEIVE_FULL,
    REASON_DISCARDED,
    REASON_QUEUE_FULL,
    REASON_FILTERED,
    REASON_MALFORMED,
    REASON_FLOWS_FULL,
    REASON_PORTS_EXHAUSTED,
    REASON_UNTRANSLATABLE,
    REASONS,
};

/* wire::Class */
enum police_class {
    CLASS_ROUTING,
    CLASS_MANAGEMENT,
    CLASS_ICMP,
    CLASS_REST,
    CLASS_UNRESOLVED,
    CLASS_TRANSIT,
    CLASS_NEIGHBOUR,
    CLASSES,
};

/* port::driver::Lane */
enum lane {
    LANE_EXPRESS, /* forwarded right here */
    LANE_WORKER,  /* to the worker's ring */
    LANE_PASS,    /* to Linux */
    LANE_DROP,
    LANES,
};

/* fib::PortFlags */
enum port_flag {
    PORT_UP = 1,
    PORT_TARGET = 2, /* frames can be redirected to it */
    PORT_FORWARD4 = 4,
    PORT_FORWARD6 = 8,
    PORT_RPF4_STRICT = 16,
    PORT_RPF4_LOOSE = 32,
    PORT_RPF6_STRICT = 64,
    PORT_RPF6_LOOSE = 128,
    PORT_EXPRESS = 256,  /* its packets take the express lane where they can */
    PORT_QUEUE = 512,    /* a worker can transmit on it */
    PORT_FLOWS = 1024,   /* packets of flows that are decided are carried, all others are the worker's */
    PORT_PARTIAL = 2048, /* frames may arrive that a sender left to its NIC to finish: the worker does */
    PORT_LINUX4 = 4096,  /* with PORT_FORWARD4 off: for workers, transit is Linux's */
    PORT_LINUX6 = 8192,
    PORT_TRACKED = 16384, /* transit depends on flows, which Linux does not know */
};

/* fib::NextHop: the kind in a next hop word */
enum kind {
    KIND_NONE,
    KIND_FORWARD,
    KIND_LOCAL,
    KIND_GLEAN,
    KIND_BLACKHOLE,
    KIND_UNREACHABLE,
    KIND_PROHIBIT,
    KIND_PUNT,
};

/* port::driver::settings */
#define DIVERTS 8
struct divert {
    __u8 source[16], source_mask[16];
    __u8 destination[16], destination_mask[16]; /* IPv4 addresses in the first 4 bytes */
    __u16 source_port, destination_port;        /* host order; 0 = any */
    __u16 in_port;                              /* NO_PORT = any */
    __u8 protocol;                              /* 0 = any */
    __u8 version;                               /* 4, 6; 0 = either, then without addresses */
};

/* port::driver::pulse: until when (bpf_ktime_get_coarse_ns) it has been promised that somebody is there */
struct pulse {
    __u64 tables;  /* the control thread keeps them */
    __u64 workers; /* empty the rings */
};

/* A token bucket of `burst` packets filled at `rate` packets a second, as GCRA sees it. interval 0 = no
 * limit. */
struct limit {
    __u64 interval;  /* ns a packet: 1e9 / rate */
    __u64 tolerance; /* ns: interval * burst */
};

struct settings {
    __u32 diverts; /* rules in use */
    __u32 pad;
    struct divert divert[DIVERTS];
    struct limit limit[CLASSES];
};

/* The buckets of a port: one a class, and two more of routing protocols' (bpf/peers.h). */
#define BUCKET_SESSION (CLASSES)
#define BUCKET_PEER (CLASSES + 1)
#define BUCKETS (CLASSES + 2)

/* Of each port: when each bucket would be empty again (GCRA's theoretical arrival time), a cache line
 * each. */
struct arrival {
    __u64 time;
    __u64 pad[7];
};

struct arrivals {
    struct arrival bucket[BUCKETS];
};

/* port::driver::peers: IPv4 addresses mapped into IPv6, ports in host order. */
#define MAX_PEERS 16384
struct peer {
    __be32 address[4];
    __u16 theirs, ours;
};

/* port::driver::Verdicts: what the rules came to for flows. Half of them are of the rules in force. */
#define VERDICTS 4096
struct verdicts {
    __u64 force;
    __u64 translates; /* whether flows are to be translated */
    __u64 word[VERDICTS];
};

/* What was carried by a verdict; one per CPU. */
struct verdict_count {
    __u64 packets;
    __u64 bytes;
    __u64 last; /* on the flow table's clock */
};

/* port::driver::DriverCounters; one block per port and CPU */
struct count {
    __u64 packets;
    __u64 bytes;
};

struct counters {
    struct count lane[LANES];
    __u64 reason[REASONS];
    __u64 passed[CLASSES];
    __u64 policed[CLASSES];
};
