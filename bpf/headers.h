// SPDX-License-Identifier: Apache-2.0 OR MIT
// Ethernet, VLAN tags, PPPoE, MPLS, IPv4, IPv6 and its extension headers: where a packet's
// transport header is, and the fields that classify it. The same as core/wire/src/headers, field
// for field; a test there compares the two.
//
// In BPF include <linux/bpf.h> (or vmlinux.h) and <bpf/bpf_helpers.h> first; elsewhere only
// <stdint.h> is needed.
//
// Everything read, here and in fingerprint.h, lies in the first FB_WINDOW bytes of the frame. A
// program that has no packet pointers may therefore copy that much (zero padded, and `data_end`
// where the copy really ends) into a map value and parse that.
#ifndef FB_HEADERS_H
#define FB_HEADERS_H

#ifndef __bpf__
#include <stdint.h>
typedef uint8_t __u8;
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef uint64_t __u64;
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#endif

#define FB_WINDOW 256
#define FB_MAX_TRANSPORT_OFFSET 192
#define FB_MAX_VLAN_TAGS 2
#define FB_MAX_LABELS 4
#define FB_MAX_EXTENSIONS 6

#define FB_TCP 6
#define FB_UDP 17

// How the frames of a device begin: the same values as in boxes/dataplane/src/framing.rs.
#define FB_ETHERNET 0
#define FB_BARE_IP 1

// The answers of fb_parse.
#define FB_UNKNOWN -1 // it may carry an IP packet, which was not found or is malformed
#define FB_NO_IP 0    // it is of a protocol that carries no IP packets
#define FB_IP 1

// fb_headers.flags
#define FB_IS_FRAGMENT 1   // one of several fragments, or of one (RFC 6946)
#define FB_MORE_FRAGMENTS 2
#define FB_HAS_PORTS 4

struct fb_headers {
	__u8 src[16], dst[16];     // IPv4 as ::ffff:a.b.c.d, so that one LPM trie serves both
	__u32 id;                  // IPv4's, or that of IPv6's fragment header, else 0
	__u32 transport_len;       // bytes of what follows the IP headers, by the IP length
	__u16 fragment_offset;     // in units of 8 bytes
	__u16 network_offset;      // of the IP header, from the start of the frame
	__u16 transport_offset;    // of what follows the IP headers
	__u16 src_port, dst_port;  // if FB_HAS_PORTS
	__u8 version;              // 4 or 6
	__u8 protocol;
	__u8 traffic_class;        // DSCP and ECN
	__u8 flags;
};

// `n` bytes at `offset`, or NULL where the frame ends before.
static __always_inline const __u8 *fb_at(void *data, void *data_end, __u32 offset, __u32 n)
{
	// `offset` never exceeds the window. The comparison is for the verifier, which may have
	// lost sight of that, and the empty asm keeps the compiler from dropping it.
	__asm__ volatile("" : "+r"(offset));
	if (offset > FB_WINDOW - n)
		return 0;
	const __u8 *p = (const __u8 *)data + offset;
	return p + n > (const __u8 *)data_end ? 0 : p;
}

// Returns `value`, which is below 256, so that the verifier forgets what it knows about it.
// `unknown` is any byte of the packet. The verifier then checks the following code once for all
// values instead of once for each path that leads here.
static __always_inline __u32 fb_forget(__u32 value, __u8 unknown)
{
	__u8 complement = ~unknown;

	__asm__ volatile("" : "+r"(complement));
	return value ^ (unknown & complement);
}

// Big-endian loads. In BPF they are of whole words, where the compiler, knowing no alignment, would
// load byte by byte. The verifier allows it on machines that can load unaligned words.
#if defined(__bpf__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FB_SWAPPED_LOADS
#endif

static __always_inline __u32 fb_be16(const __u8 *p)
{
#ifdef FB_SWAPPED_LOADS
	return __builtin_bswap16(*(const __u16 *)p);
#else
	return (__u32)p[0] << 8 | p[1];
#endif
}

static __always_inline __u32 fb_be32(const __u8 *p)
{
#ifdef FB_SWAPPED_LOADS
	return __builtin_bswap32(*(const __u32 *)p);
#else
	return fb_be16(p) << 16 | fb_be16(p + 2);
#endif
}

// Copies 4 bytes to an aligned place.
static __always_inline void fb_copy4(__u8 *to, const __u8 *from)
{
#ifdef __bpf__
	*(__u32 *)to = *(const __u32 *)from;
#else
	__builtin_memcpy(to, from, 4);
#endif
}

static __always_inline void fb_copy16(__u8 *to, const __u8 *from)
{
	for (int i = 0; i < 16; i += 4)
		fb_copy4(to + i, from + i);
}

static __always_inline int fb_parse_ipv4(void *data, void *data_end, __u32 whole,
					 struct fb_headers *h)
{
	const __u8 *ip = fb_at(data, data_end, h->network_offset, 20);

	if (!ip || ip[0] >> 4 != 4)
		return 0;
	__u32 len = (ip[0] & 15) * 4, total = fb_be16(ip + 2), fragment = fb_be16(ip + 6);
	if (!total)
		total = whole;
	if (len < 20 || total < len)
		return 0;
	h->version = 4;
	h->traffic_class = ip[1];
	h->id = fb_be16(ip + 4);
	h->fragment_offset = fragment & 0x1fff;
	if (fragment & 0x2000)
		h->flags |= FB_IS_FRAGMENT | FB_MORE_FRAGMENTS;
	if (h->fragment_offset)
		h->flags |= FB_IS_FRAGMENT;
	h->protocol = ip[9];
	h->src[10] = h->src[11] = h->dst[10] = h->dst[11] = 0xff;
	fb_copy4(h->src + 12, ip + 12);
	fb_copy4(h->dst + 12, ip + 16);
	h->transport_offset = fb_forget(h->network_offset + len, ip[0]);
	h->transport_len = total - len;
	return 1;
}

// The extension headers to step over: hop-by-hop, routing, fragment, destination options (RFC 8200
// section 4.1), AH (RFC 4302). ESP and anything unknown end the chain: they are the packet's
// transport. A bit mask, since every branch here multiplies what the verifier has to follow.
static __always_inline int fb_is_extension(__u8 protocol)
{
	const __u64 extensions = 1ULL | 1ULL << 43 | 1ULL << 44 | 1ULL << 51 | 1ULL << 60;

	return protocol < 64 && extensions >> protocol & 1;
}

// The payload length of a packet of more than 64 KiB, which its hop-by-hop header at `offset` has
// (RFC 2675 section 2); 0 without. Linux writes the jumbo payload option first (BIG TCP).
static __always_inline __u32 fb_jumbo_len(void *data, void *data_end, __u32 offset)
{
	const __u8 *e = fb_at(data, data_end, offset, 8);

	if (!e || e[2] != 0xc2 || e[3] != 4)
		return 0;
	__u32 len = fb_be32(e + 4);
	return len > 0xffff ? len : 0;
}

static __always_inline int fb_parse_ipv6(void *data, void *data_end, __u32 whole,
					 struct fb_headers *h)
{
	const __u8 *ip = fb_at(data, data_end, h->network_offset, 40);

	if (!ip || ip[0] >> 4 != 6)
		return 0;
	__u32 offset = h->network_offset + 40, payload = h->network_offset + 40;
	__u32 payload_len = fb_be16(ip + 4);
	__u8 next = ip[6];
	h->version = 6;
	h->traffic_class = fb_be16(ip) >> 4;
	fb_copy16(h->src, ip + 8);
	fb_copy16(h->dst, ip + 24);
	if (!payload_len && next == 0)
		payload_len = fb_jumbo_len(data, data_end, offset);
	else if (!payload_len && whole > 40)
		payload_len = whole - 40;

	for (int i = 0; i < FB_MAX_EXTENSIONS; i++) {
		// A later fragment begins in the middle of the payload.
		if (!fb_is_extension(next) || h->fragment_offset)
			break;
		const __u8 *e = fb_at(data, data_end, offset, 8);
		if (!e)
			return 0;
		__u32 len = ((__u32)e[1] + 1) * 8;
		if (next == 44) {
			__u32 fragment = fb_be16(e + 2);
			len = 8;
			h->id = fb_be32(e + 4);
			h->fragment_offset = fragment >> 3;
			h->flags &= ~FB_MORE_FRAGMENTS;
			h->flags |= FB_IS_FRAGMENT | (fragment & 1 ? FB_MORE_FRAGMENTS : 0);
		} else if (next == 51) {
			len = ((__u32)e[1] + 2) * 4;
		}
		next = e[0];
		offset += len;
		if (offset > FB_MAX_TRANSPORT_OFFSET)
			return 0;
		offset = fb_forget(offset, ip[0]);
	}
	if ((fb_is_extension(next) && !h->fragment_offset) || offset - payload > payload_len)
		return 0;
	h->protocol = next;
	h->transport_offset = offset;
	h->transport_len = payload_len - (offset - payload);
	return 1;
}

// The length of the IP packet in a frame of `len` bytes, by its IP header. The link-layer header
// differs between links, and Ethernet pads short frames where no program sees it (IEEE 802.3,
// 3.2.8).
static __always_inline __u32 fb_ip_len(const struct fb_headers *h, __u32 len)
{
	__u64 end = (__u64)h->transport_offset + h->transport_len;

	if (end > len)
		end = len;
	return end < h->network_offset ? 0 : end - h->network_offset;
}

// Parses the IP packet whose header is at `network_offset`, at most 38. Returns 1, or 0 if it is
// malformed or cut short in its IP headers. `whole` is the length of a super-packet, which may have
// no length in its header (BIG TCP); else it is 0.
static __always_inline int fb_parse_ip(void *data, void *data_end, __u32 network_offset,
				       __u32 version, __u32 whole, struct fb_headers *h)
{
	__builtin_memset(h, 0, sizeof(*h));
	h->network_offset = network_offset;
	int ok = version == 4 ? fb_parse_ipv4(data, data_end, whole, h)
			      : fb_parse_ipv6(data, data_end, whole, h);
	if (!ok || (__u8 *)data + h->transport_offset > (__u8 *)data_end)
		return 0;

	const __u8 *t = fb_at(data, data_end, h->transport_offset, 4);
	// TCP, UDP, DCCP, SCTP, UDP-Lite.
	int has_ports = h->protocol == FB_TCP || h->protocol == FB_UDP || h->protocol == 33 ||
			h->protocol == 132 || h->protocol == 136;
	if (t && has_ports && !h->fragment_offset && h->transport_len >= 4) {
		h->flags |= FB_HAS_PORTS;
		h->src_port = fb_be16(t);
		h->dst_port = fb_be16(t + 2);
	}
	return 1;
}

// Finds the IP packet in a frame of another ethertype than IP, whose header is at `offset`. Sets
// the offset of the packet, and its version if the header says it.
static __always_inline int fb_parse_other(void *data, void *data_end, __u32 ethertype,
					  __u32 *offset, __u32 *version)
{
	const __u8 *p;

	if (ethertype == 0x8864) {
		// PPPoE (RFC 2516 section 4), and the protocol of PPP (RFC 1661 section 2).
		p = fb_at(data, data_end, *offset, 8);
		if (!p || p[0] != 0x11 || p[1])
			return FB_UNKNOWN;
		__u32 protocol = fb_be16(p + 6);
		*offset += 8;
		*version = protocol == 0x0021 ? 4 : 6;
		if (protocol >= 0x8000)
			return FB_NO_IP;
		return protocol == 0x0021 || protocol == 0x0057 ? FB_IP : FB_UNKNOWN;
	}
	if (ethertype == 0x8847 || ethertype == 0x8848) {
		// MPLS (RFC 3032 section 2.1), whose labels do not say what follows.
		for (int i = 0; i < FB_MAX_LABELS; i++) {
			p = fb_at(data, data_end, *offset, 4);
			if (!p)
				return FB_UNKNOWN;
			*offset += 4;
			if (p[2] & 1)
				return FB_IP;
		}
		return FB_UNKNOWN;
	}
	// Lengths, and protocols that carry no IP packets: ARP, pause frames, slow protocols, PPPoE
	// discovery, 802.1X, LLDP.
	if (ethertype < 0x0600 || ethertype == 0x0806 || ethertype == 0x8808 ||
	    ethertype == 0x8809 || ethertype == 0x8863 || ethertype == 0x888e || ethertype == 0x88cc)
		return FB_NO_IP;
	return FB_UNKNOWN;
}

// Finds the IP packet in an Ethernet frame, as fb_parse_other.
static __always_inline int fb_parse_ethernet(void *data, void *data_end, __u32 *offset,
					     __u32 *version)
{
	const __u8 *p = fb_at(data, data_end, 12, 2);

	if (!p)
		return FB_UNKNOWN;
	__u32 ethertype = fb_be16(p);
	*offset = 14;
	for (int i = 0; i < FB_MAX_VLAN_TAGS; i++) {
		if (ethertype != 0x8100 && ethertype != 0x88a8)
			break;
		p = fb_at(data, data_end, *offset, 4);
		if (!p)
			return FB_UNKNOWN;
		ethertype = fb_be16(p + 2);
		*offset += 4;
	}
	*version = ethertype == 0x0800 ? 4 : 6;
	if (ethertype == 0x0800 || ethertype == 0x86dd)
		return FB_IP;
	*version = 0;
	return fb_parse_other(data, data_end, ethertype, offset, version);
}

// Parses a frame that begins as `framing` says. The answer is FB_IP, with `h` filled in, if it is
// or carries a well-formed IP packet. `whole` is the length of the frame if it is a super-packet,
// else 0.
static __always_inline int fb_parse(void *data, void *data_end, __u32 framing, __u32 whole,
				    struct fb_headers *h)
{
	__u32 offset = 0, expected = 0;

	if (framing == FB_ETHERNET) {
		int found = fb_parse_ethernet(data, data_end, &offset, &expected);
		if (found != FB_IP)
			return found;
		offset = fb_forget(offset, *(__u8 *)data);
		expected = fb_forget(expected, *(__u8 *)data);
	}
	const __u8 *p = fb_at(data, data_end, offset, 1);
	if (!p)
		return FB_UNKNOWN;
	__u32 version = *p >> 4;
	if ((version != 4 && version != 6) || (expected && expected != version))
		return FB_UNKNOWN;
	whole = whole > offset ? whole - offset : 0;
	return fb_parse_ip(data, data_end, offset, version, whole, h) ? FB_IP : FB_UNKNOWN;
}

#endif
