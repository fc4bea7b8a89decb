// SPDX-License-Identifier: Apache-2.0 OR MIT
// The program on both ports of a box. Frames for the box itself go to this machine's network stack,
// all others to the box's process. If the process has crashed or hangs, frames go straight to the
// other port, as over a wire.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "heartbeat.h"
#include "own.h"

#define MAX_QUEUES 64

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} other_port SEC(".maps");

// Set before loading. XDP needs no type information of the kernel, so CO-RE cannot tell.
const volatile struct {
	__u32 is_wire;          // only a wire has another port
	__u32 has_coarse_clock; // since Linux 5.11
} settings;

static __always_inline int is_forwarding(void)
{
	if (!settings.is_wire)
		return 1;
	return fb_is_alive(settings.has_coarse_clock ? bpf_ktime_get_coarse_ns() : bpf_ktime_get_ns());
}

SEC("xdp")
int fb_port(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0, queue = ctx->rx_queue_index;

	if (is_for_box(data, end, 0))
		return XDP_PASS;
	if (bpf_map_lookup_elem(&sockets, &queue) && is_forwarding())
		return bpf_redirect_map(&sockets, queue, XDP_DROP);
	return bpf_redirect_map(&other_port, zero, XDP_DROP);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
