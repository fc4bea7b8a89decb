// SPDX-License-Identifier: Apache-2.0 OR MIT
// The rules of the receivebox, which assign an arriving packet to a bundle.
#ifndef FB_RULES_H
#define FB_RULES_H

#include "bundles.h"
#include "headers.h"

#define MAX_BUNDLES 65536

// The prefixes of source and destination determine the bundle. User space computes the table for
// every pair of prefixes that can occur together.
struct pair {
	__u32 source, destination;
};

LPM_TRIE(sources);
LPM_TRIE(destinations);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_BUNDLES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pair);
	__type(value, __u32);
} pairs SEC(".maps");

static __always_inline __u32 *bundle_of(const struct fb_headers *h)
{
	struct pair pair;
	__u32 *id;

	if (!(id = longest(&destinations, h->dst)))
		return 0;
	pair.destination = *id;
	if (!(id = longest(&sources, h->src)))
		return 0;
	pair.source = *id;
	return bpf_map_lookup_elem(&pairs, &pair);
}

#endif
