// SPDX-License-Identifier: Apache-2.0 OR MIT
// The fingerprint by which the sendbox and the receivebox recognise a packet. It is identical to
// crates/wire/src/fingerprint.rs, whose documentation says what is hashed and why.
#ifndef FB_FINGERPRINT_H
#define FB_FINGERPRINT_H

#include "headers.h"

#define FB_UDP_PAYLOAD 32
#define FB_OTHER_PAYLOAD 64
#define FB_TCP_OPTIONS 24

// FNV-1a, 64 bits.
static __always_inline __u64 fb_fnv8(__u64 hash, __u8 byte)
{
	return (hash ^ byte) * 0x100000001b3ULL;
}

static __always_inline __u64 fb_fnv16(__u64 hash, __u32 value)
{
	return fb_fnv8(fb_fnv8(hash, value >> 8), value);
}

static __always_inline __u64 fb_fnv32(__u64 hash, __u32 value)
{
	return fb_fnv16(fb_fnv16(hash, value >> 16), value);
}

static __always_inline __u32 fb_ports(const struct fb_headers *h)
{
	return (__u32)h->src_port << 16 | h->dst_port;
}

// Hashes the `len` bytes at `offset`, at most `max` of them. Like the functions below it returns 1,
// or 0 if the frame ends before.
static __always_inline int fb_fnv_bytes(void *data, void *data_end, __u32 offset, __u32 len,
					__u32 max, __u64 *hash)
{
	__u64 sum = *hash;

	for (__u32 i = 0; i < max && i < len; i++) {
		const __u8 *p = fb_at(data, data_end, offset + i, 1);
		if (!p)
			return 0;
		sum = fb_fnv8(sum, *p);
	}
	*hash = sum;
	return 1;
}

// One segment of a super-packet that the kernel or the NIC has still to segment (TSO, GSO).
struct fb_segment {
	__u32 index;       // its number, from 0; 0 for all segments if they keep one ID
	__u32 offset;      // where its payload begins in the super-packet's
	__u32 payload_len; // 16 bits
};

// Hashes the fields after the ID of a packet that has one.
static __always_inline int fb_fnv_identified(void *data, void *data_end,
					     const struct fb_headers *h,
					     const struct fb_segment *segment, __u64 *hash)
{
	*hash = fb_fnv16(*hash, h->fragment_offset);
	if (h->flags & FB_HAS_PORTS)
		*hash = fb_fnv32(*hash, fb_ports(h));
	if (h->protocol == FB_TCP && !h->fragment_offset) {
		const __u8 *tcp = fb_at(data, data_end, h->transport_offset, 8);

		if (!tcp || h->transport_len < 8)
			return 0;
		*hash = fb_fnv32(*hash, fb_be32(tcp + 4) + (segment ? segment->offset : 0));
	}
	return 1;
}

static __always_inline int fb_fnv_tcp(void *data, void *data_end, const struct fb_headers *h,
				      const struct fb_segment *segment, __u64 *hash)
{
	const __u8 *tcp = fb_at(data, data_end, h->transport_offset, 20);

	if (!tcp)
		return 0;
	__u32 len = (tcp[12] >> 4) * 4, total = h->transport_len;
	int is_syn = tcp[13] & 2;
	if (len < 20 || len > total)
		return 0;
	*hash = fb_fnv32(*hash, fb_ports(h));
	*hash = fb_fnv32(*hash, fb_be32(tcp + 4) + (segment ? segment->offset : 0));
	*hash = fb_fnv32(*hash, fb_be32(tcp + 8));
	*hash = fb_fnv16(*hash, segment ? segment->payload_len : total - len);
	return is_syn || fb_fnv_bytes(data, data_end, h->transport_offset + 20, len - 20,
				      FB_TCP_OPTIONS, hash);
}

static __always_inline int fb_fnv_udp(void *data, void *data_end, const struct fb_headers *h,
				      const struct fb_segment *segment, __u64 *hash)
{
	__u32 total = h->transport_len;

	// The bytes that distinguish later segments are beyond the readable window.
	if (segment && segment->offset)
		return 0;
	if (total < 8 || !fb_at(data, data_end, h->transport_offset, 8))
		return 0;
	__u32 payload_len = segment ? segment->payload_len : total - 8;
	*hash = fb_fnv32(*hash, fb_ports(h));
	*hash = fb_fnv16(*hash, payload_len);
	return fb_fnv_bytes(data, data_end, h->transport_offset + 8, payload_len, FB_UDP_PAYLOAD,
			    hash);
}

// Computes the fingerprint of `segment`, or of the whole packet if `segment` is NULL. Returns 1, or
// 0 if nothing in the packet distinguishes it from others.
static __always_inline int fb_fingerprint_segment(void *data, void *data_end,
						  const struct fb_headers *h,
						  const struct fb_segment *segment,
						  __u32 *fingerprint)
{
	__u64 hash = fb_fnv8(0xcbf29ce484222325ULL, h->protocol);
	int ok, is_fragment = h->flags & FB_IS_FRAGMENT;
	__u32 id = h->id;

	if (h->version == 4 && segment && !is_fragment)
		id = (id + segment->index) & 0xffff;
	if (is_fragment || (h->version == 4 && id)) {
		hash = h->version == 4 ? fb_fnv16(hash, id) : fb_fnv32(hash, id);
		ok = fb_fnv_identified(data, data_end, h, segment, &hash);
	} else if (h->protocol == FB_TCP) {
		ok = fb_fnv_tcp(data, data_end, h, segment, &hash);
	} else if (h->protocol == FB_UDP) {
		ok = fb_fnv_udp(data, data_end, h, segment, &hash);
	} else {
		ok = h->transport_len && fb_fnv_bytes(data, data_end, h->transport_offset,
						      h->transport_len, FB_OTHER_PAYLOAD, &hash);
	}
	*fingerprint = (__u32)(hash >> 32) ^ (__u32)hash;
	return ok;
}

static __always_inline int fb_fingerprint(void *data, void *data_end, const struct fb_headers *h,
					  __u32 *fingerprint)
{
	return fb_fingerprint_segment(data, data_end, h, 0, fingerprint);
}

#endif
