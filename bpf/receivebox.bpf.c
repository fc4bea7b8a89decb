// SPDX-License-Identifier: Apache-2.0 OR MIT
// The receivebox: counts the bytes and packets of each bundle as they arrive and pushes a sample
// for each epoch boundary packet. It reads packets and lets every one pass.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "headers.h"
#include "fingerprint.h"

#define MAX_PREFIXES 65536
#define MAX_BUNDLES 65536

struct prefix {
	__u32 length;
	__u8 address[16]; // IPv4 as ::ffff:a.b.c.d
};

// A bundle is told by the source's prefix and the destination's; the pair is worked out in user
// space for every two prefixes that can meet.
struct pair {
	__u32 source, destination;
};

struct counts {
	__u64 bytes, packets;
};

struct sample {
	__u32 bundle, fingerprint;
	__u64 bytes, packets, time;
	__u32 epoch, unused;
};

#define LPM_TRIE(name)                                                                             \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);                                               \
		__uint(max_entries, MAX_PREFIXES);                                                 \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                              \
		__type(key, struct prefix);                                                        \
		__type(value, __u32);                                                              \
	} name SEC(".maps")

LPM_TRIE(sources);
LPM_TRIE(destinations);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_BUNDLES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pair);
	__type(value, __u32);
} pairs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // set to the number of bundles before loading
	__type(key, __u32);
	__type(value, struct counts);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // likewise
	__type(key, __u32);
	__type(value, __u32); // a power of two
} epochs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} samples_lost SEC(".maps");

static __always_inline __u32 *longest(void *trie, const __u8 *address)
{
	struct prefix key = { .length = 128 };

	__builtin_memcpy(key.address, address, 16);
	return bpf_map_lookup_elem(trie, &key);
}

SEC("xdp")
int fb_receivebox(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct fb_headers h;
	struct pair pair;
	__u32 *id, zero = 0;

	if (!fb_parse(data, end, &h))
		return XDP_PASS;
	if (!(id = longest(&destinations, h.dst)))
		return XDP_PASS;
	pair.destination = *id;
	if (!(id = longest(&sources, h.src)))
		return XDP_PASS;
	pair.source = *id;
	if (!(id = bpf_map_lookup_elem(&pairs, &pair)))
		return XDP_PASS;
	__u32 index = *id;
	struct counts *c = bpf_map_lookup_elem(&counts, &index);
	__u32 *epoch = bpf_map_lookup_elem(&epochs, &index);
	if (!c || !epoch)
		return XDP_PASS;

	__u64 len = end - data;
	__u64 bytes = __sync_fetch_and_add(&c->bytes, len) + len;
	__u64 packets = __sync_fetch_and_add(&c->packets, 1) + 1;
	__u32 n = *epoch, fingerprint;
	if (!fb_fingerprint(data, end, &h, &fingerprint) || fingerprint & (n - 1))
		return XDP_PASS;

	struct sample *s = bpf_ringbuf_reserve(&samples, sizeof(*s), 0);
	if (!s) {
		__u64 *lost = bpf_map_lookup_elem(&samples_lost, &zero);
		if (lost)
			(*lost)++;
		return XDP_PASS;
	}
	s->bundle = index;
	s->fingerprint = fingerprint;
	s->bytes = bytes;
	s->packets = packets;
	s->time = bpf_ktime_get_ns();
	s->epoch = n;
	s->unused = 0;
	bpf_ringbuf_submit(s, 0);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
