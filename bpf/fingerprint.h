// SPDX-License-Identifier: Apache-2.0 OR MIT
// The fingerprint by which the sendbox and the receivebox recognise a packet. It is identical to
// core/wire/src/fingerprint.rs, whose documentation says what is hashed and why.
#ifndef FB_FINGERPRINT_H
#define FB_FINGERPRINT_H

#include "headers.h"

#define FB_UDP_PAYLOAD 32
#define FB_OTHER_PAYLOAD 64
#define FB_TCP_OPTIONS 24

#define FB_ROW_IDENTIFIED 1
#define FB_ROW_TCP 2
#define FB_ROW_UDP 3
#define FB_ROW_OTHER 4

// SipHash-1-3 over whole words of 8 bytes, as in core/wire/src/siphash.rs.
struct fb_sip {
	__u64 v0, v1, v2, v3, words;
};

static __always_inline __u64 fb_rotate(__u64 x, __u32 by)
{
	return x << by | x >> (64 - by);
}

static __always_inline void fb_sip_round(struct fb_sip *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = fb_rotate(s->v1, 13) ^ s->v0;
	s->v3 = fb_rotate(s->v3, 16) ^ s->v2;
	s->v0 = fb_rotate(s->v0, 32) + s->v3;
	s->v2 += s->v1;
	s->v1 = fb_rotate(s->v1, 17) ^ s->v2;
	s->v3 = fb_rotate(s->v3, 21) ^ s->v0;
	s->v2 = fb_rotate(s->v2, 32);
}

static __always_inline void fb_sip_init(struct fb_sip *s, const __u64 *key)
{
	s->v0 = key[0] ^ 0x736f6d6570736575ULL;
	s->v1 = key[1] ^ 0x646f72616e646f6dULL;
	s->v2 = key[0] ^ 0x6c7967656e657261ULL;
	s->v3 = key[1] ^ 0x7465646279746573ULL;
	s->words = 0;
}

static __always_inline void fb_sip_compress(struct fb_sip *s, __u64 word)
{
	s->v3 ^= word;
	fb_sip_round(s);
	s->v0 ^= word;
}

static __always_inline void fb_sip_word(struct fb_sip *s, __u64 word)
{
	s->words++;
	fb_sip_compress(s, word);
}

static __always_inline void fb_sip_pair(struct fb_sip *s, __u32 high, __u32 low)
{
	fb_sip_word(s, (__u64)high << 32 | low);
}

static __always_inline __u32 fb_sip_finish(struct fb_sip *s)
{
	fb_sip_compress(s, s->words << 59);
	s->v2 ^= 0xff;
	fb_sip_round(s);
	fb_sip_round(s);
	fb_sip_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

static __always_inline __u32 fb_ports(const struct fb_headers *h)
{
	return h->flags & FB_HAS_PORTS ? (__u32)h->src_port << 16 | h->dst_port : 0;
}

// Hashes the first word of a packet's message.
static __always_inline void fb_sip_begin(struct fb_sip *s, const struct fb_headers *h, __u32 row,
					 __u32 row_short, __u32 row_long)
{
	__u32 high = (__u32)h->protocol << 24 | row << 16 | (row_short & 0xffff);

	fb_sip_pair(s, high, row_long);
}

// Hashes the `len` bytes at `offset`, at most `max` of them, which is a multiple of 8. Like the
// functions below it returns 1, or 0 if the frame ends before.
static __always_inline int fb_sip_bytes(void *data, void *data_end, __u32 offset, __u32 len,
					__u32 max, struct fb_sip *s)
{
	if (len > max)
		len = max;
	for (__u32 i = 0; i < max; i += 8) {
		__u64 word = 0;

		if (i >= len)
			break;
		if (i + 8 <= len) {
			const __u8 *p = fb_at(data, data_end, offset + i, 8);
			if (!p)
				return 0;
			word = (__u64)fb_be32(p) << 32 | fb_be32(p + 4);
		} else {
			for (__u32 j = 0; j < 7 && i + j < len; j++) {
				const __u8 *p = fb_at(data, data_end, offset + i + j, 1);
				if (!p)
					return 0;
				word |= (__u64)*p << (56 - 8 * j);
			}
		}
		fb_sip_word(s, word);
	}
	return 1;
}

// One segment of a super-packet that the kernel or the NIC has still to segment (TSO, GSO).
struct fb_segment {
	__u32 index;       // its number, from 0; 0 for all segments if they keep one ID
	__u32 offset;      // where its payload begins in the super-packet's
	__u32 payload_len; // 16 bits
};

// Hashes a packet that has an ID.
static __always_inline int fb_sip_identified(void *data, void *data_end,
					     const struct fb_headers *h, __u32 id,
					     const struct fb_segment *segment, struct fb_sip *s)
{
	__u32 sequence = 0;

	if (h->protocol == FB_TCP && !h->fragment_offset) {
		const __u8 *tcp = fb_at(data, data_end, h->transport_offset, 8);

		if (!tcp || h->transport_len < 8)
			return 0;
		sequence = fb_be32(tcp + 4) + (segment ? segment->offset : 0);
	}
	fb_sip_begin(s, h, FB_ROW_IDENTIFIED, h->fragment_offset, id);
	fb_sip_pair(s, fb_ports(h), sequence);
	return 1;
}

static __always_inline int fb_sip_tcp(void *data, void *data_end, const struct fb_headers *h,
				      const struct fb_segment *segment, struct fb_sip *s)
{
	const __u8 *tcp = fb_at(data, data_end, h->transport_offset, 20);

	if (!tcp)
		return 0;
	__u32 len = (tcp[12] >> 4) * 4, total = h->transport_len;
	int is_syn = tcp[13] & 2;
	if (len < 20 || len > total)
		return 0;
	fb_sip_begin(s, h, FB_ROW_TCP, segment ? segment->payload_len : total - len, fb_ports(h));
	fb_sip_pair(s, fb_be32(tcp + 4) + (segment ? segment->offset : 0), fb_be32(tcp + 8));
	return is_syn || fb_sip_bytes(data, data_end, h->transport_offset + 20, len - 20,
				      FB_TCP_OPTIONS, s);
}

static __always_inline int fb_sip_udp(void *data, void *data_end, const struct fb_headers *h,
				      const struct fb_segment *segment, struct fb_sip *s)
{
	__u32 total = h->transport_len;

	// The bytes that distinguish later segments are beyond the readable window.
	if (segment && segment->offset)
		return 0;
	if (total < 8 || !fb_at(data, data_end, h->transport_offset, 8))
		return 0;
	__u32 payload_len = segment ? segment->payload_len : total - 8;
	fb_sip_begin(s, h, FB_ROW_UDP, payload_len, fb_ports(h));
	return fb_sip_bytes(data, data_end, h->transport_offset + 8, payload_len, FB_UDP_PAYLOAD, s);
}

// Computes the fingerprint of `segment`, or of the whole packet if `segment` is NULL, under the
// bundle's key of two words. Returns 1, or 0 if nothing in the packet distinguishes it from others.
static __always_inline int fb_fingerprint_segment(void *data, void *data_end,
						  const struct fb_headers *h, const __u64 *key,
						  const struct fb_segment *segment,
						  __u32 *fingerprint)
{
	int ok, is_fragment = h->flags & FB_IS_FRAGMENT;
	__u32 id = h->id;
	struct fb_sip s;

	fb_sip_init(&s, key);
	if (h->version == 4 && segment && !is_fragment)
		id = (id + segment->index) & 0xffff;
	if (is_fragment || (h->version == 4 && id)) {
		ok = fb_sip_identified(data, data_end, h, id, segment, &s);
	} else if (h->protocol == FB_TCP) {
		ok = fb_sip_tcp(data, data_end, h, segment, &s);
	} else if (h->protocol == FB_UDP) {
		ok = fb_sip_udp(data, data_end, h, segment, &s);
	} else {
		fb_sip_begin(&s, h, FB_ROW_OTHER, h->transport_len, 0);
		ok = h->transport_len && fb_sip_bytes(data, data_end, h->transport_offset,
						      h->transport_len, FB_OTHER_PAYLOAD, &s);
	}
	*fingerprint = fb_sip_finish(&s);
	return ok;
}

static __always_inline int fb_fingerprint(void *data, void *data_end, const struct fb_headers *h,
					  const __u64 *key, __u32 *fingerprint)
{
	return fb_fingerprint_segment(data, data_end, h, key, 0, fingerprint);
}

#endif
