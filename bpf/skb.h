// SPDX-License-Identifier: Apache-2.0 OR MIT
// A packet of the kernel that may be a super-packet: one `sk_buff` for many packets on the wire
// (TSO, GSO; GRO). It is counted as those packets, and each of them has its own fingerprint.
//
// CO-RE finds the fields by the kernel's own type information: only the names below matter.
#ifndef FB_SKB_H
#define FB_SKB_H

#include "bundles.h"
#include "headers.h"
#include "fingerprint.h"

#define FB_KERNEL_TYPE __attribute__((preserve_access_index))

struct sk_buff {
	unsigned int len, data_len, hash;
	__u16 inner_transport_header, network_header;
	__u8 encapsulation : 1;
	unsigned int end; // 64-bit kernels have offsets here, not pointers
	unsigned char *head, *data;
	char cb[48];
} FB_KERNEL_TYPE;

struct skb_shared_info {
	unsigned short gso_size;
	unsigned int gso_type;
} FB_KERNEL_TYPE;

// The bits of gso_type that are the same in all kernels.
#define FB_GSO_UDP (1 << 16)
#define FB_GSO_UDP_L4 (1 << 17)
#define FB_GSO_FRAGLIST (1 << 18)
// The gso_size of packets that are segmented by their list of fragments of different sizes (SCTP).
#define FB_GSO_BY_FRAGS 0xffff

// Segments of one super-packet that are examined; the rest is only counted. By default a
// super-packet has at most 64 KiB (BIG TCP raises that), so it has more segments only if they carry
// less than 128 bytes each.
#define FB_MAX_SEGMENTS 512

// Written by user space before loading.
const volatile struct settings {
	// SKB_GSO_TCP_FIXEDID, a bit of gso_type that did move: all segments keep the IPv4 ID.
	__u32 gso_fixed_id;
	// The device to look at. Its index means something only within its network namespace.
	__u32 device, namespace;
	__u32 salt; // of notes, see note.h
	__u32 framing; // of the device's frames: FB_ETHERNET or FB_BARE_IP
} settings = { .gso_fixed_id = 1 << 3 };

// The state while a packet is examined. It is too large for BPF's stack, so each CPU has one.
struct look {
	__u8 window[FB_WINDOW]; // the beginning of the packet
	__u64 skb[40];          // a copy of the kernel's `sk_buff`: one read is cheaper than many
	struct fb_headers headers;
	struct fb_segment segment;
	__u64 key[2];         // of the bundle's fingerprints
	struct sample sample; // what will be said of it, or of the segment that was reached
	__u32 captured;       // bytes in the window
	__u32 whole;          // the length of a super-packet's frame; 0: no super-packet
	__u32 header_len;     // of each segment: its bytes from the IP header to the payload
	__u32 payload_len;    // of all segments together
	__u32 segment_size;   // payload of each but the last; 0: no super-packet
	__u32 segments;       // how many packets it is on the wire
	__u32 total;          // the bytes of these IP packets together
	__u32 walk;           // how many of them have a known fingerprint, from the first
	__u8 fixed_id, is_tunnel;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct look);
} looks SEC(".maps");

// Not inlined and not static, so that the verifier checks them once, each by itself.
__attribute__((noinline)) int fb_look_parse(struct look *look)
{
	if (!look || look->captured > FB_WINDOW)
		return 0;
	return fb_parse(look->window, look->window + look->captured, settings.framing, look->whole,
			&look->headers);
}

__attribute__((noinline)) int fb_look_fingerprint(struct look *look)
{
	if (!look || look->captured > FB_WINDOW)
		return 0;
	return fb_fingerprint_segment(look->window, look->window + look->captured, &look->headers,
				      look->key, look->segment_size ? &look->segment : 0,
				      &look->sample.fingerprint);
}

// The length of the TCP header at `offset` in the window, 0 if it is not there.
static __always_inline __u32 fb_tcp_len(struct look *look, __u32 offset)
{
	const __u8 *tcp = fb_at(look->window, look->window + look->captured, offset, 20);
	__u32 len = tcp ? (tcp[12] >> 4) * 4 : 0;

	return len >= 20 ? len : 0;
}

// Copies the packet's `sk_buff`. Returns the copy, NULL if it cannot be read.
static __always_inline struct sk_buff *fb_look_copy(struct look *look, const void *skb)
{
	__u32 size = bpf_core_type_size(struct sk_buff);

	if (size > sizeof(look->skb))
		size = sizeof(look->skb);
	return bpf_probe_read_kernel(look->skb, size, skb) ? 0 : (void *)look->skb;
}

static __always_inline struct skb_shared_info *fb_shared(const struct sk_buff *skb)
{
	return (void *)(skb->head + skb->end);
}

// The offset of the payload of the innermost transport, which segmentation divides; 0 if unknown.
// The window begins at `start` in the packet.
static __always_inline __u32 fb_gso_payload(struct look *look, const struct sk_buff *skb,
					    __u32 start, __u32 type)
{
	__u32 transport = look->headers.transport_offset, protocol = look->headers.protocol;

	if (type & FB_GSO_UDP) // leaves as fragments
		return 0;
	if (look->is_tunnel) {
		transport = skb->inner_transport_header - (__u32)(skb->data - skb->head) - start;
		protocol = type & FB_GSO_UDP_L4 ? FB_UDP : FB_TCP;
	}
	if (protocol == FB_UDP)
		return transport + 8;
	if (protocol != FB_TCP || transport > FB_WINDOW - 20 || look->captured > FB_WINDOW)
		return 0;
	__u32 len = fb_tcp_len(look, transport);
	return len ? transport + len : 0;
}

// The bytes of a header for more than 64 KiB, which no segment has (BIG TCP): 8 or 0.
static __always_inline __u32 fb_jumbo_header(struct look *look)
{
	__u32 offset = look->headers.network_offset;
	const __u8 *ip = fb_at(look->window, look->window + look->captured, offset, 40);

	if (look->headers.version != 6 || !ip || fb_be16(ip + 4) || ip[6] != 0)
		return 0;
	return 8;
}

// Computes the number of packets in a super-packet whose segments have `size` bytes of payload. The
// window begins at `start` in the packet, and `len` bytes of the packet follow.
static __always_inline void fb_look_segments(struct look *look, const struct sk_buff *skb,
					     __u32 start, __u32 len, __u32 size)
{
	__u32 type = BPF_CORE_READ(fb_shared(skb), gso_type);

	look->is_tunnel = BPF_CORE_READ_BITFIELD(skb, encapsulation);
	look->fixed_id = !!(type & settings.gso_fixed_id);
	__u32 payload = fb_gso_payload(look, skb, start, type);
	// A super-packet that cannot be taken apart is counted as one packet and has no fingerprint.
	look->walk = 0;
	if (size == FB_GSO_BY_FRAGS || !payload || payload >= len)
		return;
	look->segment_size = size;
	look->header_len = payload - look->headers.network_offset - fb_jumbo_header(look);
	look->payload_len = len - payload;
	look->segments = (len - payload + size - 1) / size;
	// With a list of the packets that were received, only the first one's headers are here.
	look->walk = type & FB_GSO_FRAGLIST ? 1 : look->segments;
}

// Starts to examine a packet that begins with the `captured` bytes in the window. Returns 1 if it
// carries an IP packet. A super-packet has a length of `whole`, other packets 0. It counts as one
// packet until `fb_look_segments`.
static __always_inline int fb_look_at(struct look *look, __u32 captured, __u32 whole)
{
	look->captured = captured;
	look->whole = whole;
	look->segment_size = 0;
	look->segments = look->walk = 1;
	int found = fb_look_parse(look);
	if (found == FB_UNKNOWN)
		count_not_understood();
	return found == FB_IP;
}

// Moves to segment `i`. Returns the bytes of its IP packet.
static __always_inline __u32 fb_look_segment(struct look *look, __u32 i)
{
	__u32 offset = i * look->segment_size, left = look->payload_len - offset;
	__u32 payload_len = left < look->segment_size ? left : look->segment_size;

	look->segment.index = look->fixed_id ? 0 : i;
	look->segment.offset = offset;
	look->segment.payload_len = payload_len;
	return look->header_len + payload_len;
}

// Whether the fingerprint of the segment can be computed. In a tunnel that needs the outer ID:
// without one, the inner headers are hashed, whose lengths the kernel has still to write.
static __always_inline int fb_look_is_known(const struct look *look)
{
	__u32 id = look->headers.id + look->segment.index;

	return !look->is_tunnel || (look->headers.version == 4 && id & 0xffff);
}

// Examines segment `i` of the packet, or the packet itself if it has none. A boundary packet is
// reported. Not inlined, like those above: the verifier follows the loop over all segments
// with its calls alone.
__attribute__((noinline)) int fb_look_report(struct look *look, __u32 i)
{
	struct sample *s;

	if (!look)
		return 0;
	s = &look->sample;
	s->bytes += look->segment_size ? fb_look_segment(look, i) : look->total;
	s->packets++;
	if (look->segment_size && !fb_look_is_known(look))
		return 0;
	if (!fb_look_fingerprint(look) || !is_boundary(s->fingerprint, s->epoch))
		return 0;
	// All segments have the same time: a super-packet is handed over as a whole.
	if (!s->time)
		s->time = bpf_ktime_get_ns();
	report(s);
	s->pause = 0; // of the following segments
	return 0;
}

// Counts the packet, in a frame of `len` bytes, for `bundle`, and reports the boundary packets in
// it.
static __always_inline void fb_look_count(struct look *look, __u32 len, __u32 bundle)
{
	struct counts *c = bpf_map_lookup_elem(&counts, &bundle);
	struct sampling *sampling = bpf_map_lookup_elem(&samplings, &bundle);
	struct sample *s = &look->sample;

	if (!c || !sampling)
		return;
	// Each segment has headers of its own. The sum is in the map, so that the verifier checks the
	// following loop once for both.
	look->total = look->segment_size ? look->payload_len + look->segments * look->header_len
					 : fb_ip_len(&look->headers, len);
	s->bytes = __sync_fetch_and_add(&c->bytes, look->total);
	s->packets = __sync_fetch_and_add(&c->packets, look->segments);
	s->bundle = bundle;
	s->epoch = sampling->epoch;
	s->time = 0;
	look->key[0] = sampling->key[0];
	look->key[1] = sampling->key[1];
	if (!s->epoch)
		return;
	for (__u32 i = 0; i < FB_MAX_SEGMENTS; i++) {
		if (i >= look->walk)
			break;
		fb_look_report(look, i);
	}
}

#endif
