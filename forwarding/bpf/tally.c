// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What arrives of streams, judged in the driver packet by packet: order, copies, changes, latency.
 * What belongs to a receive queue is written by one core at a time, so nothing is locked; packets
 * of a stream that arrive by different queues have no order among them. The other side is
 * forwarding/port/src/traffic/sink.rs, and the same judgement for packets that arrive elsewhere is
 * measure/traffic/src/sink.rs.
 */
#include "times.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Streams of a trial, and receive queues. */
volatile const __u32 LANES = 1;
volatile const __u32 QUEUES = 1;

ARRAY(told, told);

ARRAY(seen, seen);

struct foreign {
    __u64 packets, bytes;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct foreign);
} foreign SEC(".maps");

/* The place of the payload: its first byte and the byte behind it; 0 without one. */
static __noinline __u64 payload_of(struct xdp_md *ctx) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + 42 > end)
        return 0;
    __u16 kind = *(__u16 *)(data + 12);
    if (kind == bpf_htons(0x0800) && *(__u8 *)(data + 14) == 0x45 && *(__u8 *)(data + 23) == 17)
        return 42 | (14ULL + bpf_ntohs(*(__u16 *)(data + 16))) << 32;

    __u32 at = 14;
    for (int i = 0; i < 3; i++) {
        if (kind != bpf_htons(0x8100) && kind != bpf_htons(0x88a8))
            break;
        void *tag = data + at;
        if (tag + 4 > end)
            return 0;
        kind = *(__u16 *)(tag + 2);
        at += 4;
    }
    if (kind == bpf_htons(0x8847)) {
        for (int i = 0; i < 8; i++) {
            void *label = data + at;
            if (label + 4 > end)
                return 0;
            at += 4;
            if (*(__u8 *)(label + 2) & 1)
                break;
        }
        void *below = data + at;
        if (below + 1 > end)
            return 0;
        kind = *(__u8 *)below >> 4 == 6 ? bpf_htons(0x86dd) : bpf_htons(0x0800);
    }
    void *ip = data + at;
    __u32 upper, stop;
    __u8 next;
    if (kind == bpf_htons(0x0800)) {
        if (ip + 20 > end)
            return 0;
        upper = at + (*(__u8 *)ip & 15) * 4;
        stop = at + bpf_ntohs(*(__u16 *)(ip + 2));
        next = *(__u8 *)(ip + 9);
    } else if (kind == bpf_htons(0x86dd)) {
        if (ip + 40 > end)
            return 0;
        stop = at + 40 + bpf_ntohs(*(__u16 *)(ip + 4));
        next = *(__u8 *)(ip + 6);
        upper = at + 40;
        for (int i = 0; i < 4; i++) {
            if (next != 0 && next != 43 && next != 44 && next != 60)
                break;
            void *extension = data + (upper & 0x3ff);
            if (extension + 8 > end)
                return 0;
            upper += 8 + (next == 44 ? 0 : *(__u8 *)(extension + 1) * 8);
            next = *(__u8 *)extension;
        }
    } else {
        return 0;
    }
    if (next == 6) {
        void *tcp = data + (upper & 0x3ff);
        if (tcp + 13 > end)
            return 0;
        upper += (*(__u8 *)(tcp + 12) >> 4) * 4;
    } else if (next == 17 || next == 1 || next == 58) {
        upper += 8;
    } else {
        return 0;
    }
    return upper | (__u64)stop << 32;
}

#define WORDS_MOST 1200

/* The sum of the bytes from `begin` on, not folded. */
static __noinline __u64 sum_of(struct xdp_md *ctx, __u32 begin, __u32 length) {
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    begin &= 0x3ff;
    length &= 0x3fff;
    __u64 sum = 0;
    __u8 *tail = data + begin + (length & 0x3ff8);
    if ((length & 1) && tail + (length & 6) + 1 <= (__u8 *)end)
        sum += bpf_htons(tail[length & 6] << 8);
    if (length & 4 && tail + 4 <= (__u8 *)end)
        sum += *(__u32 *)tail;
    if (length & 2 && tail + (length & 4) + 2 <= (__u8 *)end)
        sum += *(__u16 *)(tail + (length & 4));
    void *at = data + begin;
    for (__u32 i = 0; i < WORDS_MOST; i++) {
        if (i >= length / 8 || at + 8 > end)
            break;
        __u64 word = *(__u64 *)at;
        sum += (word >> 32) + (word & 0xffffffff);
        at += 8;
    }
    return sum;
}

/* Gives a number above all before it its word, which was that of a number a window below. */
static __always_inline void put(struct seen *seen, __u64 number, __u32 word) {
    if (seen->window[number % WINDOW] != ARRIVED && number >= WINDOW)
        seen->lost_until = number - WINDOW + 1;
    seen->window[number % WINDOW] = word;
}

/* A number that is not the next one (measure/traffic/src/sequence.rs). False for a duplicate. */
static __noinline int out_of_order(struct seen *seen, __u64 number) {
    __u64 next = seen->next;
    __u32 arrivals = seen->arrivals;
    if (number > next) {
        __u64 from = next;
        if (number - from > WINDOW - 1)
            from = number - (WINDOW - 1);
        /* As `put`, but without its branch, of which so many would be too much for the verifier. */
        __u64 lost = 0;
        for (__u32 i = 0; i < WINDOW; i++) {
            if (from + i >= number)
                break;
            __u32 *word = &seen->window[(from + i) % WINDOW];
            __u64 missing = ((__u64)(*word ^ ARRIVED) + 0xffffffff) >> 32;
            lost += missing * (i + 1 - lost);
            *word = arrivals;
        }
        if (lost && from + lost > WINDOW)
            seen->lost_until = from + lost - WINDOW;
        put(seen, number, ARRIVED);
        if (from > next)
            seen->lost_until = from;
        seen->next = number + 1;
        return 1;
    }
    if (next - number > WINDOW) {
        seen->late++;
        seen->reordered++;
        return 1;
    }
    __u32 word = seen->window[number % WINDOW];
    if (word == ARRIVED) {
        seen->duplicates++;
        return 0;
    }
    __u32 extent = arrivals - word;
    seen->window[number % WINDOW] = ARRIVED;
    seen->reordered++;
    seen->extents += extent;
    if (extent > seen->extent)
        seen->extent = extent;
    return 1;
}

static __always_inline int of_others(__u64 bytes) {
    __u32 zero = 0;
    struct foreign *others = bpf_map_lookup_elem(&foreign, &zero);
    if (others) {
        others->packets++;
        others->bytes += bytes;
    }
    return XDP_DROP;
}

SEC("xdp")
int tally(struct xdp_md *ctx) {
    __u64 bytes = ctx->data_end - ctx->data + 4;
    __u64 place = payload_of(ctx);
    __u32 begin = place & 0x3ff, length = (place >> 32) - (__u32)place;
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    void *stamp = data + begin;
    __u32 zero = 0;
    struct told *trial = bpf_map_lookup_elem(&told, &zero);
    if (!trial || !place || length < STAMP || length > 0x3fff || stamp + STAMP > end ||
        *(__u16 *)stamp != trial->mark)
        return of_others(bytes);
    __u32 lane = bpf_ntohs(*(__u16 *)(stamp + 2));
    __u32 key = lane * QUEUES + ctx->rx_queue_index % QUEUES;
    struct seen *known = lane < LANES ? bpf_map_lookup_elem(&seen, &key) : 0;
    if (!known)
        return of_others(bytes);
    __u64 front = bpf_be64_to_cpu(*(__u64 *)(stamp + 6));
    __u64 back = bpf_ntohl(*(__u32 *)(stamp + 14));
    __u64 now = bpf_ktime_get_ns();
    if (!known->packets)
        known->first = now;
    known->last = now;
    known->packets++;
    known->bytes += bytes;
    if (folded(sum_of(ctx, begin, length)) != 0xffff) {
        known->corrupt++;
        return XDP_DROP;
    }
    __u64 number = front >> 16;
    known->arrivals = (__u32)known->arrivals == ARRIVED - 1 ? 0 : known->arrivals + 1;
    if (number == known->next) {
        put(known, number, ARRIVED);
        known->next = number + 1;
    } else if (!out_of_order(known, number)) {
        return XDP_DROP;
    }
    known->unique++;

    __u64 due = (front & 0xffff) << 32 | back, mask = (1ULL << STAMP_BITS) - 1;
    __u64 latency = (now - trial->offset - due) & mask;
    if (latency > mask / 2)
        latency = 0; /* not due yet, by clocks that disagree a little */
    record(&known->latency, latency);
    if (known->timed) {
        __u64 difference = distance(latency, known->last_latency);
        record(&known->variation, difference);
        known->jitter += difference - ((known->jitter + 8) >> 4);
    }
    known->timed = 1;
    known->last_latency = latency;
    return XDP_DROP;
}
