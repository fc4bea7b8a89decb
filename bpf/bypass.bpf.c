// SPDX-License-Identifier: Apache-2.0 OR MIT
// The programs on both ports of a box that takes frames by AF_PACKET. The kernel runs them for each
// frame, one directly after the other: `fb_tap` at the box's socket, which gets a copy, and
// `fb_bypass` at tc's ingress. What the socket has taken, the process forwards, and the kernel's
// stack must not handle it. What it has not taken, because the process is dead or hangs, goes
// straight to the other port.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "heartbeat.h"
#include "own.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} other_device SEC(".maps");

// Whether the socket has taken the frame that this CPU handles.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} taken SEC(".maps");

SEC("socket")
int fb_tap(struct __sk_buff *ctx)
{
	__u32 zero = 0, *mark = bpf_map_lookup_elem(&taken, &zero);

	// A process that hangs would forward the frame too late.
	if (!mark || !fb_is_alive(bpf_ktime_get_ns()))
		return 0;
	*mark = 1;
	return -1; // all bytes
}

SEC("tc")
int fb_bypass(struct __sk_buff *ctx)
{
	__u32 zero = 0, need = ctx->len < FB_OWN_NEEDS ? ctx->len : FB_OWN_NEEDS;
	__u32 *mark = bpf_map_lookup_elem(&taken, &zero);
	__u32 *other = bpf_map_lookup_elem(&other_device, &zero);

	if (!mark || !other)
		return TC_ACT_UNSPEC;
	__u32 is_taken = *mark;
	*mark = 0;
	if (bpf_skb_pull_data(ctx, need))
		return TC_ACT_UNSPEC;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (is_for_box(data, end, ctx->vlan_present))
		return TC_ACT_UNSPEC;
	// `is_for_box` has returned if there is no Ethernet header.
	int to_many = data + ETH_HLEN <= end && ((struct ethhdr *)data)->h_dest[0] & 1;
	if (is_taken)
		return to_many ? TC_ACT_UNSPEC : TC_ACT_SHOT;
	if (!to_many)
		return bpf_redirect(*other, 0);
	// This machine is one of the many.
	bpf_clone_redirect(ctx, *other, 0);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
