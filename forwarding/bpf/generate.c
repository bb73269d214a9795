// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Streams that traffic/ compiled (headers of all flows, sizes, gaps), sent by "live frames"
 * (BPF_F_TEST_XDP_LIVE_FRAMES: what the program returns really happens to the frame). The kernel
 * runs it frame after frame, in batches that leave together; a frame that is not due yet it drops,
 * which gives it back.
 */
#include "times.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define LINE 64
#define SPINS 32
#define GRACE 20000000 /* ns after the end for packets due before it */

/* How many streams. */
volatile const __u32 LANES = 1;

struct headers {
    __u8 byte[HEADERS];
};

struct draws {
    __u32 draw[DRAWS];
};

ARRAY(live, live);
ARRAY(lanes, lane);
ARRAY(sizes, size);
ARRAY(departures, times); /* of each lane: spacing, lateness */
ARRAY(headers, headers);
ARRAY(draws, draws);

/* What was handed over in the batch before left at `now`, all of it. */
static __noinline int account(struct live *live) {
    __u64 count = live->pending, now = live->now;
    for (__u32 i = 0; i < PACED_MOST; i++) {
        if (i >= count)
            break;
        __u32 number = live->lane[i];
        __u64 due = live->due[i];
        struct lane *lane = bpf_map_lookup_elem(&lanes, &number);
        __u32 at = 2 * number;
        struct times *spacing = bpf_map_lookup_elem(&departures, &at);
        at++;
        struct times *lateness = bpf_map_lookup_elem(&departures, &at);
        if (!lane || !spacing || !lateness)
            break;
        if (lane->last_left)
            record(spacing, distance(now - lane->last_left, due - lane->last_due));
        record(lateness, now > due ? now - due : 0);
        lane->last_due = due;
        lane->last_left = now;
    }
    live->pending = 0;
    return 0;
}

/* The lane whose packet is due next, else the next of those that go as fast as they can; LANES: all
 * are over. */
static __noinline __u32 next_lane(struct live *live) {
    live->paced = live->free = live->after = LANES;
    live->earliest = ~0ULL;
    for (__u32 i = 0; i < LANES_MOST; i++) {
        if (i >= LANES)
            break;
        __u32 key = i;
        struct lane *lane = bpf_map_lookup_elem(&lanes, &key);
        if (!lane || !lane->left)
            continue;
        if (lane->flags & LANE_PACED) {
            if (lane->due < live->earliest)
                live->earliest = lane->due, live->paced = i;
        } else if (i > live->cursor && live->after == LANES) {
            live->after = i;
        } else if (live->free == LANES) {
            live->free = i;
        }
    }
    __u32 free = live->after != LANES ? live->after : live->free;
    if (live->paced != LANES && (free == LANES || live->start + (live->earliest >> 16) <= live->now))
        return live->paced;
    live->cursor = free;
    return free;
}

/* The next packet has been sent: when is the one after it due? */
static __always_inline void advance(struct lane *lane, struct size *size) {
    __u64 gap = size->gap;
    if (lane->flags & LANE_RANDOM) {
        lane->random = lane->random * 6364136223846793005ULL + 1442695040888963407ULL;
        __u32 zero = 0;
        struct draws *table = bpf_map_lookup_elem(&draws, &zero);
        __u64 draw = table ? table->draw[(lane->random >> 40) % DRAWS] : 1 << 16;
        gap = (gap >> 16) * draw + (((gap & 0xffff) * draw) >> 16);
    }
    if (lane->burst && ++lane->in_burst >= lane->burst) {
        lane->in_burst = 0;
        gap += lane->pause;
    }
    lane->due += gap;
}

static __always_inline void add(void *field, __u16 more, int stated) {
    __u16 sum = ~folded((__u64) * (__u16 *)field + more);
    *(__u16 *)field = stated && !sum ? 0xffff : sum;
}

/* Which of its headers a lane is to use; moves on to the next slot. */
static __always_inline __u64 next_header(struct lane *lane) {
    __u64 slot = lane->slot, header = slot;
    if (lane->life) {
        __u64 born = (lane->stagger_first + slot * lane->stagger_step) % lane->life;
        header += (lane->round + born) / lane->life % lane->generations * lane->slots;
    }
    if (++slot >= lane->slots) {
        slot = 0;
        lane->round++;
    }
    lane->slot = slot;
    return header;
}

#define COPY(words) _Pragma("unroll") for (int i = 0; i < (words); i++)((__u64 *)data)[i] = ((__u64 *)from)[i]

SEC("xdp")
int generate(struct xdp_md *ctx) {
    __u32 zero = 0;
    struct live *run = bpf_map_lookup_elem(&live, &zero);
    if (!run)
        return XDP_DROP;
    if (run->position >= run->batch) {
        run->position = 0;
        run->now = bpf_ktime_get_ns();
        /* A frame's turn for that: the verifier is not to follow the rest from each way through
         * it. */
        if (run->pending) {
            run->position = 1;
            account(run);
            return XDP_DROP;
        }
    }
    run->position++;

    __u32 number = LANES == 1 ? 0 : next_lane(run);
    struct lane *lane = bpf_map_lookup_elem(&lanes, &number);
    if (!lane || !lane->left) {
        run->over = 1;
        return XDP_DROP;
    }
    __u64 time = run->now, flags = lane->flags;
    if (flags & LANE_PACED) {
        time = run->start + (lane->due >> 16);
        if (time > run->now) {
            run->now = bpf_ktime_get_ns();
            /* What waits in the batch is not to wait for this one. */
            if (time > run->now && run->pending)
                return XDP_DROP;
            for (int i = 0; i < SPINS && time > run->now; i++)
                run->now = bpf_ktime_get_ns();
        }
        if (time >= run->end || (run->now > GRACE && run->now - GRACE > run->end))
            lane->left = 0;
        if (time > run->now || !lane->left)
            return XDP_DROP;
    } else if (time < run->start) {
        run->now = bpf_ktime_get_ns();
        return XDP_DROP;
    } else if (time >= run->end) {
        lane->left = 0;
        return XDP_DROP;
    }

    __u32 key = lane->sizes + lane->size;
    struct size *size = bpf_map_lookup_elem(&sizes, &key);
    if (!size)
        return XDP_DROP;
    int more = (int)size->frame - (int)(ctx->data_end - ctx->data);
    if (more && bpf_xdp_adjust_tail(ctx, more)) {
        lane->unsent++;
        return XDP_DROP;
    }
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

    /* The flow's header, whole cache lines of it. */
    __u64 place = (lane->headers + next_header(lane)) << (lane->stride & 15);
    key = place / HEADERS;
    struct headers *headers_of = bpf_map_lookup_elem(&headers, &key);
    if (!headers_of)
        return XDP_DROP;
    __u8 *from = &headers_of->byte[place & (HEADERS - 4 * LINE)];
    if (lane->stride == 6)
        from = &headers_of->byte[place & (HEADERS - LINE)];
    if (data + LINE <= end) {
        COPY(8);
    } else if (data + 60 <= end) {
        COPY(7);
        ((__u32 *)data)[14] = ((__u32 *)from)[14];
    } else {
        return XDP_DROP;
    }
    __u64 length = lane->length < size->frame ? lane->length : size->frame;
    if (length > LINE) {
        /* Word by word to the end; the last word overlaps the one before it. */
        __u64 last = length - 8;
        from = &headers_of->byte[place & (HEADERS - 4 * LINE)];
        if (last > 3 * LINE - 8)
            return XDP_DROP;
        for (__u32 i = LINE; i < 3 * LINE - 8; i += 8) {
            if (i >= last || data + i + 8 > end)
                break;
            *(__u64 *)(data + i) = *(__u64 *)(from + i);
        }
        __u64 *word = data + last;
        /* The verifier is to see the check and the store by one pointer. */
        asm volatile("" : "+r"(word));
        if ((void *)(word + 1) > end)
            return XDP_DROP;
        *word = *(__u64 *)(from + last);
    }

    void *l3 = data + (lane->l3 & 0xff), *l4 = data + (lane->l4 & 0xff);
    if (flags & LANE_SIZES) {
        if (flags & LANE_SIX) {
            if (l3 + 6 > end)
                return XDP_DROP;
            *(__u16 *)(l3 + 4) = size->ip;
        } else {
            if (l3 + 12 > end)
                return XDP_DROP;
            *(__u16 *)(l3 + 2) = size->ip;
            add(l3 + 10, size->l3_sum, 0);
        }
        if (flags & LANE_UDP) {
            if (l4 + 6 > end)
                return XDP_DROP;
            *(__u16 *)(l4 + 4) = size->udp;
        }
        if (flags & LANE_CHECK) {
            void *check = data + (lane->check & 0xff);
            if (check + 2 > end)
                return XDP_DROP;
            add(check, size->l4_sum, flags & LANE_UDP);
        }
    }
    if (flags & LANE_STAMP) {
        void *stamp = data + (lane->payload & 0xff);
        if (stamp + STAMP > end)
            return XDP_DROP;
        __u64 front = bpf_cpu_to_be64(lane->sequence << 16 | (time >> 32 & 0xffff));
        __u32 back = bpf_htonl((__u32)time);
        __u64 sum = lane->names + size->fill_sum + (front >> 32) + (front & 0xffffffff) + back;
        *(__u16 *)(stamp + 4) = ~folded(sum);
        *(__u64 *)(stamp + 6) = front;
        *(__u32 *)(stamp + 14) = back;
    }

    lane->sequence++;
    lane->left--;
    lane->packets++;
    lane->bytes += size->frame + 4;
    lane->last = run->now;
    if (!lane->first)
        lane->first = run->now;
    if (flags & LANE_PACED) {
        advance(lane, size);
        __u64 at = run->pending;
        if (at < PACED_MOST) {
            run->due[at] = time;
            run->lane[at] = number;
            run->pending = at + 1;
        }
    }
    if (++lane->size >= lane->cycle)
        lane->size = 0;
    return XDP_TX;
}
