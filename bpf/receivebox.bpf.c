// SPDX-License-Identifier: Apache-2.0 OR MIT
// The receivebox: counts the bytes and packets of each bundle as they arrive and pushes a sample
// for each epoch boundary packet. It reads packets and lets every one pass.
//
// There are two of it, of which one is loaded. The one in XDP sees each packet by itself, before
// anything else does. The one at tc's ingress works on every device, but after GRO: it takes apart
// again what was merged. Both count alike and report alike.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "skb.h"

#define MAX_BUNDLES 65536

// A bundle is told by the source's prefix and the destination's; the pair is worked out in user
// space for every two prefixes that can meet.
struct pair {
	__u32 source, destination;
};

LPM_TRIE(sources);
LPM_TRIE(destinations);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_BUNDLES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pair);
	__type(value, __u32);
} pairs SEC(".maps");

static __always_inline __u32 *bundle_of(const struct fb_headers *h)
{
	struct pair pair;
	__u32 *id;

	if (!(id = longest(&destinations, h->dst)))
		return 0;
	pair.destination = *id;
	if (!(id = longest(&sources, h->src)))
		return 0;
	pair.source = *id;
	return bpf_map_lookup_elem(&pairs, &pair);
}

SEC("xdp")
int fb_receivebox(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct fb_headers h;
	__u32 *bundle;

	if (!fb_parse(data, end, &h) || !(bundle = bundle_of(&h)))
		return XDP_PASS;
	struct sample s = { .bundle = *bundle };
	struct counts *c = bpf_map_lookup_elem(&counts, &s.bundle);
	__u32 *epoch = bpf_map_lookup_elem(&epochs, &s.bundle);
	if (!c || !epoch)
		return XDP_PASS;

	__u64 len = end - data;
	s.bytes = __sync_fetch_and_add(&c->bytes, len) + len;
	s.packets = __sync_fetch_and_add(&c->packets, 1) + 1;
	s.epoch = *epoch;
	if (!fb_fingerprint(data, end, &h, &s.fingerprint) || !is_boundary(s.fingerprint, s.epoch))
		return XDP_PASS;
	s.time = bpf_ktime_get_ns();
	report(&s);
	return XDP_PASS;
}

SEC("tc")
int fb_ingress(struct __sk_buff *ctx)
{
	__u32 zero = 0, len = ctx->len, size = ctx->gso_size, *bundle;
	struct look *look = bpf_map_lookup_elem(&looks, &zero);
	__u32 captured = len < FB_WINDOW ? len : FB_WINDOW;
	struct sk_buff *skb;

	if (!look || !captured || bpf_skb_load_bytes(ctx, 0, look->window, captured))
		return TC_ACT_UNSPEC;
	if (!fb_look_at(look, captured, ctx->vlan_present ? 4 : 0))
		return TC_ACT_UNSPEC;
	if (!(bundle = bundle_of(&look->headers)))
		return TC_ACT_UNSPEC;
	// The context that a tc program is given is the packet itself.
	if (size && (skb = fb_look_copy(look, ctx)))
		fb_look_segments(look, skb, len, size);
	fb_look_count(look, len, *bundle);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
