// SPDX-License-Identifier: Apache-2.0 OR MIT
// Frames for the box itself, which go to this machine's network stack: the same rule as
// `Netdev::is_local` in boxes/dataplane/src/netdev.rs.
#ifndef FB_OWN_H
#define FB_OWN_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/icmpv6.h>
#include <linux/in.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_ADDRESSES 64
// The bytes of a frame that decide: up to the target of a neighbour solicitation.
#define FB_OWN_NEEDS (ETH_HLEN + 40 + 24)

struct address {
	__u8 bytes[16]; // IPv4 as ::ffff:a.b.c.d
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	// The port's MAC address in the first six bytes. The seventh says whether the box made the
	// interface promiscuous; it is for the process that takes the program away.
	__type(value, __u8[8]);
} own_mac SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_ADDRESSES);
	__type(key, struct address);
	__type(value, __u8);
} own_addresses SEC(".maps");

struct arp_ipv4 {
	__be16 hardware, protocol;
	__u8 hardware_len, protocol_len;
	__be16 operation;
	__u8 sender_mac[ETH_ALEN], sender_ip[4], target_mac[ETH_ALEN], target_ip[4];
} __attribute__((packed));

static __always_inline int is_own(const struct address *a)
{
	return bpf_map_lookup_elem(&own_addresses, a) != 0;
}

// Address resolution for one of the port's own addresses: the only frames for the box that do not
// carry its MAC address.
static __always_inline int resolves_own(void *data, void *end, __be16 type)
{
	struct address a = {};

	if (type == bpf_htons(ETH_P_ARP)) {
		struct arp_ipv4 *arp = data + ETH_HLEN;
		if ((void *)(arp + 1) > end)
			return 0;
		a.bytes[10] = a.bytes[11] = 0xff;
		__builtin_memcpy(&a.bytes[12], arp->target_ip, 4);
		return is_own(&a);
	}
	if (type == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = data + ETH_HLEN;
		struct icmp6hdr *icmp = (void *)(ip + 1);
		void *target = icmp + 1;
		if (target + sizeof(a) > end || ip->nexthdr != IPPROTO_ICMPV6 || icmp->icmp6_type != 135)
			return 0;
		__builtin_memcpy(&a, target, sizeof(a));
		return is_own(&a);
	}
	return 0;
}

// Whether the frame is for the box itself, or too short to be a frame. A frame whose VLAN tag was
// taken out resolves no address of the port.
static __always_inline int is_for_box(void *data, void *end, int tagged)
{
	struct ethhdr *eth = data;
	__u32 zero = 0;
	__u8 *mac = bpf_map_lookup_elem(&own_mac, &zero);

	if ((void *)(eth + 1) > end || !mac)
		return 1;
	if (!__builtin_memcmp(eth->h_dest, mac, 4) && eth->h_dest[4] == mac[4] && eth->h_dest[5] == mac[5])
		return 1;
	return eth->h_dest[0] & 1 && !tagged && resolves_own(data, end, eth->h_proto);
}

#endif
