// SPDX-License-Identifier: Apache-2.0 OR MIT
// At a host's egress: changes ECT(0) to ECT(1) in packets of marked sockets. ECT(1) identifies L4S
// traffic (RFC 9331), but a stack without accurate ECN cannot be asked for it.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

// The mark of such sockets (SO_MARK).
#define L4S_MARK 0xfb15

SEC("tc")
int fb_ect1(struct __sk_buff *ctx)
{
	__be16 old, new;

	if (ctx->mark != L4S_MARK || bpf_skb_load_bytes(ctx, ETH_HLEN, &old, sizeof(old)))
		return TC_ACT_UNSPEC;
	// The ECN field is the end of the second byte in IPv4, and a nibble further in IPv6.
	if (ctx->protocol == bpf_htons(ETH_P_IP)) {
		if ((old & bpf_htons(3)) != bpf_htons(2))
			return TC_ACT_UNSPEC;
		new = old ^ bpf_htons(3);
		bpf_l3_csum_replace(ctx, ETH_HLEN + __builtin_offsetof(struct iphdr, check), old, new,
				    sizeof(new));
	} else if (ctx->protocol == bpf_htons(ETH_P_IPV6)) {
		if ((old & bpf_htons(0x30)) != bpf_htons(0x20))
			return TC_ACT_UNSPEC;
		new = old ^ bpf_htons(0x30);
	} else {
		return TC_ACT_UNSPEC;
	}
	bpf_skb_store_bytes(ctx, ETH_HLEN, &new, sizeof(new), 0);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
