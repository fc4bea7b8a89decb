// SPDX-License-Identifier: Apache-2.0 OR MIT
// The receivebox at tc ingress, for devices without XDP. It runs after GRO and takes super-packets
// apart again. It counts and reports exactly what receivebox.bpf.c does. It is a separate object
// because it needs the kernel's type information, which XDP does not.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "rules.h"
#include "skb.h"

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
	// The context of a tc program is the packet itself.
	if (!size)
		len = fb_packet_len(&look->headers, len);
	else if ((skb = fb_look_copy(look, ctx)))
		fb_look_segments(look, skb, len, size);
	fb_look_count(look, len, *bundle);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
