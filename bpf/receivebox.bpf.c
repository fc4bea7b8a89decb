// SPDX-License-Identifier: Apache-2.0 OR MIT
// The receivebox in XDP, before GRO merges packets: it counts the bytes and packets of each bundle
// and pushes a sample for each epoch boundary packet. It only reads packets and passes all of them.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "fingerprint.h"
#include "rules.h"

SEC("xdp")
int fb_receivebox(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct fb_headers h;
	__u32 *bundle;

	int found = fb_parse(data, end, FB_ETHERNET, 0, &h);
	if (found == FB_UNKNOWN)
		count_not_understood();
	if (found != FB_IP || !(bundle = bundle_of(&h)))
		return XDP_PASS;
	struct sample s = { .bundle = *bundle };
	struct counts *c = bpf_map_lookup_elem(&counts, &s.bundle);
	struct sampling *sampling = bpf_map_lookup_elem(&samplings, &s.bundle);
	if (!c || !sampling)
		return XDP_PASS;

	__u64 len = fb_ip_len(&h, end - data);
	s.bytes = __sync_fetch_and_add(&c->bytes, len) + len;
	s.packets = __sync_fetch_and_add(&c->packets, 1) + 1;
	s.epoch = sampling->epoch;
	if (!fb_fingerprint(data, end, &h, sampling->key, &s.fingerprint) ||
	    !is_boundary(s.fingerprint, s.epoch))
		return XDP_PASS;
	s.time = bpf_ktime_get_ns();
	report(&s);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
