// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What stands at the door of every port: the classifier, and behind it the express lane and the
 * flows.
 *
 *   frame -> with tags? -> the program for those, which takes them off and does the same
 *         -> routed by a table beside the main one? -> the program for those, which does the same
 *         -> to a group that workers forward?     -> the worker's ring
 *         -> of a host that its bridge does not know, where flows matter?
 *                                                 -> the program for those: worker's ring or Linux
 *         -> not ours, control, for this machine? -> Linux, policed by class
 *         -> express lane, if the port has it     -> out by redirect, dropped with a reason, or ...
 *         -> of a flow that is decided            -> out by redirect, or ...
 *         -> the worker's ring; no worker there   -> Linux, which is what makes it the safety net
 *
 * When nobody keeps the tables any more, transit is Linux's, but for what depends on flows: of
 * those Linux knows nothing, and they go on by what is known of them.
 */
#include "beside.h"
#include "bridge.h"
#include "flows.h"
#include "groups.h"
#include "peers.h"
#include "police.h"
#include "virtual.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Details of LANE_WORKER: perhaps it need not go there. */
#define OFFLOADED4 1
#define OFFLOADED6 2
#define TAGGED 3
#define BESIDE 4
#define STRANGE 5
#define WITH_TAGS VERDICT(LANE_WORKER, TAGGED)
#define BY_ANOTHER_TABLE VERDICT(LANE_WORKER, BESIDE)
#define OF_A_STRANGER VERDICT(LANE_WORKER, STRANGE)

/* Which frames a program is for. */
enum door { ANY, OF_TAGS, OF_ROUTED, OF_STRANGERS };

/* A detail of LANE_PASS that is no class: transit that Linux forwards in the express lane's
 * place. */
#define TRANSIT 0xff

/*
 * Who has a packet whose bytes are not all there is to know of it; UNDECIDED: it is as any other.
 * The worker finds checksums that are partial where they are hidden (`hides`), or in long packets.
 * A frame longer than any that a wire brings is several that Linux has joined (GRO), or that a
 * sender left to its NIC to cut (TSO): Linux knows where, and forwards it whole and without limit
 * if nobody but the express lane would have seen it.
 */
static __always_inline verdict unfinished(struct frame *frame, int hides) {
    if (!(frame->flags & IF_PARTIAL))
        return UNDECIDED;
    if (frame->flags & IF_EXPRESS && frame->joined)
        return VERDICT(LANE_PASS, TRANSIT);
    return hides || frame->joined || frame->end - frame->data > FINISHED ? WORKER : UNDECIDED;
}

/* A whole header, or nothing: the worker's checks give the same reasons. */
static __always_inline verdict classify4(struct frame *frame) {
    struct ipv4 *ip = frame->data + ETHERNET;
    if ((void *)(ip + 1) > frame->end)
        return DROP(REASON_TRUNCATED);
    if (ip->version_ihl >> 4 != 4)
        return DROP(REASON_BAD_VERSION);
    if ((ip->version_ihl & 15) < 5)
        return DROP(REASON_BAD_HEADER_LENGTH);
    __u32 source = bpf_ntohl(ip->source), destination = bpf_ntohl(ip->destination);
    if (is_linux4(source, destination))
        return OURS;
    if (frame->beside && kind_of(frame->hop) == KIND_LOCAL)
        return is_local4_of(destination, LOCAL_BESIDE) || !(frame->flags & IF_FORWARD4) ? OURS : WORKER;
    verdict other = unfinished(frame, frame->flags & IF_PARTIAL && hides4(ip, frame->end));
    int express = frame->flags & IF_EXPRESS && other == UNDECIDED;
    int options = ip->version_ihl != 0x45;
    if ((options || !express) && !frame->beside && is_local4(destination))
        return own4(frame, ip);
    if (express)
        return options ? PASS(CLASS_TRANSIT) : express4(frame, ip);
    if (!(frame->flags & IF_FORWARD4))
        return PASS(CLASS_TRANSIT);
    if (other != UNDECIDED)
        return other;
    /* Options are Linux's, but where flows are tracked the worker knows which one it is and what it
     * becomes. */
    return frame->flags & IF_FLOWS && !options && !frame->beside ? VERDICT(LANE_WORKER, OFFLOADED4) : WORKER;
}

static __always_inline verdict classify6(struct frame *frame) {
    struct ipv6 *ip = frame->data + ETHERNET;
    if ((void *)(ip + 1) > frame->end)
        return DROP(REASON_TRUNCATED);
    if (*(__u8 *)ip >> 4 != 6)
        return DROP(REASON_BAD_VERSION);
    if (is_linux6(ip))
        return OURS;
    if (frame->beside && kind_of(frame->hop) == KIND_LOCAL)
        return is_local6_of(&ip->destination, LOCAL_BESIDE) || !(frame->flags & IF_FORWARD6) ? OURS : WORKER;
    verdict other = unfinished(frame, frame->flags & IF_PARTIAL && hides6(ip, frame->end));
    int express = frame->flags & IF_EXPRESS && other == UNDECIDED;
    int options = ip->next_header == 0;
    if ((options || !express) && !frame->beside && is_local6(&ip->destination))
        return own6(frame, ip);
    if (express)
        return options ? PASS(CLASS_TRANSIT) : express6(frame, ip);
    if (!(frame->flags & IF_FORWARD6))
        return PASS(CLASS_TRANSIT);
    if (other != UNDECIDED)
        return other;
    /* Hop-by-hop options: as those of IPv4. */
    return frame->flags & IF_FLOWS && !options && !frame->beside ? VERDICT(LANE_WORKER, OFFLOADED6) : WORKER;
}

/* A frame whose header has no tags, or none any more. */
static __always_inline verdict classify(struct frame *frame, enum door door) {
    if (frame->data + ETHERNET > frame->end)
        return DROP(REASON_TRUNCATED);
    __u16 type = load16(frame->data + 12);
    struct pair entered;
    if (!find_pair(&interfaces, 2 * frame->interface, &entered))
        return VERDICT(LANE_PASS, TRANSIT);
    frame->flags = flags_of(entered);
    if (frame->flags & IF_VRF && !frame->beside && !(door == OF_STRANGERS && lead_beside(frame)))
        return BY_ANOTHER_TABLE;
    if (!(frame->flags & IF_TRACKED) && is_broken(TABLES))
        frame->flags &= ~(IF_EXPRESS | IF_FORWARD4 | IF_FORWARD6);
    if (frame->flags & IF_PARTIAL)
        frame->joined = bpf_xdp_get_buff_len(frame->ctx) > ETHERNET + mtu_of(entered);
    if (type == ETHERTYPE_ARP)
        keep_from_linux(frame->ctx, frame->interface);
    if (load64(frame->data) >> 16 != mac_of(entered)) {
        if (*(__u8 *)frame->data & 1)
            return !frame->joined && !frame->beside &&
                           is_forwarded_group(frame->ctx, frame->interface, frame->flags)
                       ? WORKER
                       : FOREIGN;
        if (!enter_virtual(frame->ctx, frame->interface, mac_of(entered)))
            return FOREIGN;
        if ((frame->flags & (IF_PARTIAL | IF_BRIDGED)) == IF_PARTIAL && frame->interface == frame->port)
            return WORKER; /* see virtual.h; bridges look again */
    }
    if (door == OF_STRANGERS)
        frame->flags &= ~(IF_EXPRESS | IF_FLOWS);
    else if (differ(frame->flags & IF_BRIDGED, 0) &&
             !is_sender_known(frame->ctx, frame->flags & IF_VLANS ? frame->interface : frame->port))
        return frame->flags & IF_TRACKED ? OF_A_STRANGER : FOREIGN;
    if (type == ETHERTYPE_IPV4)
        return classify4(frame);
    if (type == ETHERTYPE_IPV6)
        return classify6(frame);
    return FOREIGN;
}

static __always_inline void add(struct count *count, __u32 bytes) {
    count->packets++;
    count->bytes += bytes;
}

static __always_inline void tally(struct counters *count, enum lane lane, __u32 bytes) {
    add(&count->lanes[lane], bytes);
}

static __always_inline void tally_sent(__u32 port, __u32 bytes) {
    struct count *count = bpf_map_lookup_elem(&sent, &port);
    if (count)
        add(count, bytes);
}

/* What passed an interface that is no port's own; 0: it is one. */
static __always_inline struct traffic *traffic_of(__u32 interface) {
    __u32 at = interface - MAX_PORTS;
    return bpf_map_lookup_elem(&logical, &at);
}

/*
 * Takes off the tags of an interface of ours, and leaves word of it; what has others stays as it
 * came. False: it is too short.
 */
static __always_inline int enter(struct frame *frame, struct entered *entered) {
    void *tags = frame->data + 12;
    __u32 length;
    *entered = (struct entered){.interface = NO_PORT};
    if (frame->data + ETHERNET + 8 > frame->end)
        return 1;
    __u32 interface = interface_of(frame->port, load32(tags), load32(tags + 4), &length);
    if (interface == NO_PORT)
        return 1;
    struct traffic *traffic = traffic_of(interface);
    if (traffic)
        add(&traffic->received, frame->end - frame->data);
    *entered = (struct entered){.tags = *(__u64 *)tags, .length = length, .interface = interface};
    return take_tags(frame, length);
}

/* Goes on with a frame of which another program left word: how it entered, and where it leads. */
static __always_inline verdict go_on(struct frame *frame, struct entered *entered, enum door door) {
    struct entered *last = find_entered();
    if (!last || (door == OF_ROUTED && !lead_beside(frame)))
        return WORKER;
    *entered = *last;
    frame->interface = entered->interface;
    frame->tags = entered->length;
    return entered->interface == NO_PORT ? FOREIGN : UNDECIDED;
}

/*
 * A frame that a worker handed to Linux, moved to this interface's ingress (inject.c). Only the
 * generic program sees those, and it must not ask the worker again. They end with a secret number,
 * behind the packet: a host cannot guess it, and no packet's own bytes can be taken for it.
 */
static __always_inline int is_injected(struct frame *frame) {
    __u32 length = bpf_xdp_get_buff_len(frame->ctx), mark, packet;
    struct ipv4 *ip = frame->data + ETHERNET;
    if ((void *)(ip + 1) > frame->end)
        return 0;
    __u16 type = load16(frame->data + 12);
    if (type == ETHERTYPE_IPV4)
        packet = bpf_ntohs(ip->total_length);
    else if (type == ETHERTYPE_IPV6)
        packet = sizeof(struct ipv6) + bpf_ntohs(((struct ipv6 *)ip)->payload_length);
    else
        return 0;
    if (length < ETHERNET + packet + sizeof(mark) ||
        bpf_xdp_load_bytes(frame->ctx, length - sizeof(mark), &mark, sizeof(mark)))
        return 0;
    return mark == MARK;
}

static __always_inline int drop(struct counters *count, __u32 reason, __u32 bytes) {
    tally(count, LANE_DROP, bytes);
    if (reason < REASONS)
        count->reasons[reason]++;
    return XDP_DROP;
}

/* Out by the interface that was decided, with its tags. */
static __always_inline int redirect(struct frame *frame, struct counters *count, __u32 bytes) {
    __u32 port = frame->out, length = 0;
    struct traffic *traffic = 0;
    if (port >= MAX_PORTS) {
        struct pair link = pair64(&interfaces, 2 * port + 1);
        port = (__u16)link.second;
        length = link.second >> 16 & 8 ? 8 : 4;
        __u64 tags = tags_for(frame->ctx, link.first, link.second);
        if (!put_tags(frame->ctx, bpf_cpu_to_be64(tags), length))
            return drop(count, REASON_REDIRECT_FAILED, bytes);
        traffic = traffic_of(frame->out);
    }
    if (bpf_redirect_map(&targets, port, XDP_DROP) != XDP_REDIRECT)
        return drop(count, REASON_REDIRECT_FAILED, bytes);
    tally(count, LANE_EXPRESS, bytes);
    __u32 leaves = bytes - frame->tags + length;
    tally_sent(port, leaves);
    if (traffic)
        add(&traffic->sent, leaves);
    return XDP_REDIRECT;
}

/* Linux forwards, and as fast as it can: there is no daemon, or it does this better. */
static __always_inline int pass(struct counters *count, __u32 bytes) {
    tally(count, LANE_PASS, bytes);
    return XDP_PASS;
}

/* Leaves word of how a frame entered, for the programs of offloaded flows. */
static __always_inline int remember(struct entered *entered) {
    struct entered *last = find_entered();
    if (last)
        *last = *entered;
    return last != 0;
}

/* The whole of it, behind each of the doors. */
static __always_inline int decide(struct xdp_md *ctx, enum door door) {
    __u32 port = port_at(ctx);
    struct counters *count = bpf_map_lookup_elem(&counters, &port);
    if (!count)
        return XDP_PASS;
    struct frame frame = {.ctx = ctx,
                          .port = port,
                          .interface = port,
                          .data = (void *)(long)ctx->data,
                          .end = (void *)(long)ctx->data_end};
    if (door == ANY && MARK && is_injected(&frame)) {
        bpf_xdp_adjust_tail(ctx, -(int)sizeof(MARK));
        return XDP_PASS;
    }
    __u32 bytes = frame.end - frame.data;
    struct entered entered = {.interface = port};
    verdict verdict = UNDECIDED;
    if (door != ANY)
        verdict = go_on(&frame, &entered, door);
    else if (has_tags(&frame))
        verdict = WITH_TAGS;
    bytes += frame.tags;
    if (verdict == UNDECIDED)
        verdict = classify(&frame, door);
    __u32 detail = verdict & 0xff;

    switch (verdict >> 8) {
    case LANE_EXPRESS:
        finish(ctx, port);
        return redirect(&frame, count, bytes);
    case LANE_WORKER:
        if (detail == TAGGED)
            bpf_tail_call(ctx, &steps, STEP_TAGGED);
        if (detail == BESIDE && remember(&entered))
            bpf_tail_call(ctx, &steps, STEP_BESIDE);
        if (detail == STRANGE && remember(&entered))
            bpf_tail_call(ctx, &steps, STEP_STRANGE);
        if ((detail == OFFLOADED4 || detail == OFFLOADED6) && remember(&entered)) {
            if (detail == OFFLOADED4)
                bpf_tail_call(ctx, &steps, STEP_OFFLOADED_IPV4);
            else
                bpf_tail_call(ctx, &steps, STEP_OFFLOADED_IPV6);
        }
        if (!restore(ctx, &entered))
            return drop(count, REASON_REDIRECT_FAILED, bytes);
        bpf_tail_call(ctx, &gate, door == OF_STRANGERS ? GATE_STRANGER_TO_WORKER : GATE_TO_WORKER);
        return pass(count, bytes);
    case LANE_PASS:
        if (detail >= CLASSES && detail != TRANSIT)
            detail = class_of_frame(frame.data, frame.end, verdict == OURS);
        if (detail != TRANSIT && !within_limit(port, detail, bucket_of(frame.data, frame.end, detail))) {
            count->policed[detail]++;
            return drop(count, REASON_POLICED_ROUTING + detail, bytes);
        }
        if (!restore(ctx, &entered))
            return drop(count, REASON_REDIRECT_FAILED, bytes);
        if (detail < CLASSES)
            count->passed[detail]++;
        return pass(count, bytes);
    default:
        return drop(count, detail, bytes);
    }
}

SEC("xdp.frags")
int bifrost(struct xdp_md *ctx) {
    return decide(ctx, ANY);
}

/* Programs of their own, for the same reason as those below. */
SEC("xdp.frags")
int untagged(struct xdp_md *ctx) {
    return decide(ctx, OF_TAGS);
}

SEC("xdp.frags")
int routed(struct xdp_md *ctx) {
    return decide(ctx, OF_ROUTED);
}

SEC("xdp.frags")
int strange(struct xdp_md *ctx) {
    return decide(ctx, OF_STRANGERS);
}

/* In front of `untagged`: by which interface the frame entered. */
SEC("xdp.frags")
int tagged(struct xdp_md *ctx) {
    __u32 port = port_at(ctx);
    struct counters *count = bpf_map_lookup_elem(&counters, &port);
    struct entered *entered = find_entered();
    if (!count || !entered)
        return XDP_PASS;
    struct frame frame = {
        .ctx = ctx, .port = port, .data = (void *)(long)ctx->data, .end = (void *)(long)ctx->data_end};
    __u32 bytes = frame.end - frame.data;
    if (!enter(&frame, entered))
        return drop(count, REASON_TRUNCATED, bytes);
    bpf_tail_call(ctx, &steps, STEP_UNTAGGED);
    return restore(ctx, entered) ? XDP_PASS : XDP_DROP;
}

/* In front of `routed`: where the frame leads. */
SEC("xdp.frags")
int beside(struct xdp_md *ctx) {
    struct entered *entered = find_entered();
    struct routed *routed = find_routed();
    if (!entered || !routed)
        return XDP_PASS;
    struct frame frame = {.data = (void *)(long)ctx->data, .end = (void *)(long)ctx->data_end};
    frame.flags = (__u16)pair64(&interfaces, 2 * entered->interface).first;
    __u32 table = pair64(&interfaces, 2 * entered->interface + 1).second >> 48;
    route_beside(&frame, table, routed);
    bpf_tail_call(ctx, &steps, STEP_ROUTED);
    return restore(ctx, entered) ? XDP_PASS : XDP_DROP;
}

/* The last step to a worker, behind the gate. */
static __always_inline int hand_over(struct xdp_md *ctx, int of_stranger) {
    __u32 port = port_at(ctx), queue = ctx->rx_queue_index, bytes = ctx->data_end - ctx->data;
    struct counters *count = bpf_map_lookup_elem(&counters, &port);
    if (!count)
        return XDP_PASS;
    if (queue < MAX_QUEUES && !is_broken(WORKERS) &&
        bpf_redirect_map(&sockets, port * MAX_QUEUES + queue, XDP_PASS) == XDP_REDIRECT) {
        tally(count, LANE_WORKER, bytes);
        if (of_stranger)
            mark_stranger(ctx);
        return XDP_REDIRECT;
    }
    /* No worker on this queue. */
    tally(count, LANE_PASS, bytes);
    return XDP_PASS;
}

SEC("xdp.frags")
int to_worker(struct xdp_md *ctx) {
    return hand_over(ctx, 0);
}

SEC("xdp.frags")
int stranger_to_worker(struct xdp_md *ctx) {
    return hand_over(ctx, 1);
}

/*
 * Packets of flows that are decided are forwarded here, others go on to the worker. Programs of
 * their own, so that the kernel's verifier need not combine their ways with all those of the first;
 * they see only what that one lets through.
 */
static __always_inline int forward_offloaded(struct xdp_md *ctx, enum step step) {
    __u32 port = port_at(ctx);
    struct counters *count = bpf_map_lookup_elem(&counters, &port);
    struct entered *entered = find_entered();
    if (!count || !entered)
        return XDP_PASS;
    struct frame frame = {.ctx = ctx,
                          .port = port,
                          .tags = entered->length,
                          .interface = entered->interface,
                          .data = (void *)(long)ctx->data,
                          .end = (void *)(long)ctx->data_end};
    __u32 bytes = frame.end - frame.data + frame.tags;
    void *ip = frame.data + ETHERNET;
    verdict verdict = WORKER;
    if (ip + (step == STEP_OFFLOADED_IPV4 ? sizeof(struct ipv4) : sizeof(struct ipv6)) <= frame.end) {
        frame.flags = (__u16)pair64(&interfaces, 2 * frame.interface).first;
        verdict = step == STEP_OFFLOADED_IPV4   ? offloaded4(&frame, ip)
                  : step == STEP_OFFLOADED_IPV6 ? offloaded6(&frame, ip)
                                                : send6(&frame, ip);
    }
    if (verdict == UNDECIDED)
        bpf_tail_call(ctx, &steps, STEP_SEND_IPV6);
    if (verdict >> 8 == LANE_EXPRESS)
        return redirect(&frame, count, bytes);
    if (verdict >> 8 == LANE_DROP)
        return drop(count, verdict & 0xff, bytes);
    if (!restore(ctx, entered))
        return drop(count, REASON_REDIRECT_FAILED, bytes);
    bpf_tail_call(ctx, &gate, GATE_TO_WORKER);
    return pass(count, bytes);
}

SEC("xdp.frags")
int offloaded_ipv4(struct xdp_md *ctx) {
    return forward_offloaded(ctx, STEP_OFFLOADED_IPV4);
}

SEC("xdp.frags")
int offloaded_ipv6(struct xdp_md *ctx) {
    return forward_offloaded(ctx, STEP_OFFLOADED_IPV6);
}

SEC("xdp.frags")
int send_ipv6(struct xdp_md *ctx) {
    return forward_offloaded(ctx, STEP_SEND_IPV6);
}
