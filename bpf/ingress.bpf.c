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

// The offset of the IP header on devices without an Ethernet header. Some have an outer header of
// their tunnel before it (GRE).
static __always_inline __u32 network_offset(const struct sk_buff *skb)
{
	return BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, network_header) -
	       BPF_CORE_READ(skb, data);
}

SEC("tc")
int fb_ingress(struct __sk_buff *ctx)
{
	__u32 zero = 0, len = ctx->len, size = ctx->gso_size, start = 0, *bundle;
	struct look *look = bpf_map_lookup_elem(&looks, &zero);
	struct sk_buff *skb;

	// The context of a tc program is the packet itself.
	if (settings.framing != FB_ETHERNET)
		start = network_offset((const void *)ctx);
	if (!look || start >= len)
		return TC_ACT_UNSPEC;
	len -= start;
	__u32 captured = (len < FB_WINDOW ? len : FB_WINDOW) - 1;
	// It keeps its value, which is 1 to 256. Every verifier sees these bounds in this form; those
	// before Linux 6.8 learn nothing from a comparison with zero.
	__asm__ volatile("" : "+r"(captured));
	captured = (captured & (FB_WINDOW - 1)) + 1;
	if (bpf_skb_load_bytes(ctx, start, look->window, captured))
		return TC_ACT_UNSPEC;
	if (!fb_look_at(look, captured, size ? len : 0))
		return TC_ACT_UNSPEC;
	if (!(bundle = bundle_of(&look->headers)))
		return TC_ACT_UNSPEC;
	if (size && (skb = fb_look_copy(look, ctx)))
		fb_look_segments(look, skb, start, len, size);
	fb_look_count(look, len, *bundle);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
