// SPDX-License-Identifier: Apache-2.0 OR MIT
// The counters of each bundle and the samples of its boundary packets: the same at both boxes, and
// read by boxes/dataplane/src/bundles.rs.
//
// All CPUs share the counters and add to them atomically, so that a boundary packet gets its
// bundle's count without a sum over CPUs. Transmission through HTB uses one CPU at a time anyway.
#ifndef FB_BUNDLES_H
#define FB_BUNDLES_H

#define MAX_PREFIXES 65536

struct prefix {
	__u32 length;
	__u8 address[16]; // IPv4 as ::ffff:a.b.c.d
};

struct counts {
	__u64 bytes; // of IP packets, by their headers
	__u64 packets;
};

struct sample {
	__u32 bundle, fingerprint;
	__u64 bytes, packets, time;
	__u32 epoch;
	__u32 flow;  // the kernel's hash of the packet's flow; 0: not known
	__u32 pause; // since the flow's last packet, in microseconds
	__u32 unused;
};

#define LPM_TRIE(name)                                                                             \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);                                               \
		__uint(max_entries, MAX_PREFIXES);                                                 \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                              \
		__type(key, struct prefix);                                                        \
		__type(value, __u32);                                                              \
	} name SEC(".maps")

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // set to the number of bundles before loading
	__uint(map_flags, BPF_F_MMAPABLE); // read at every tick, without a system call
	__type(key, __u32);
	__type(value, struct counts);
} counts SEC(".maps");

// Which packets of a bundle are sampled.
struct sampling {
	__u64 key[2]; // of the bundle's fingerprints
	__u32 epoch;  // a power of two, or 0: no boundaries
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // likewise
	__type(key, __u32);
	__type(value, struct sampling);
} samplings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} samples_lost SEC(".maps");

// Frames that may carry an IP packet that the parser did not find.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} not_understood SEC(".maps");

static __always_inline void count_not_understood(void)
{
	__u32 zero = 0;
	__u64 *frames = bpf_map_lookup_elem(&not_understood, &zero);

	if (frames)
		*frames += 1;
}

static __always_inline __u32 *longest(void *trie, const __u8 *address)
{
	struct prefix key = { .length = 128 };

	__builtin_memcpy(key.address, address, 16);
	return bpf_map_lookup_elem(trie, &key);
}

static __always_inline int is_boundary(__u32 fingerprint, __u32 epoch)
{
	return epoch && !(fingerprint & (epoch - 1));
}

static __always_inline void lose_samples(__u64 n)
{
	__u32 zero = 0;
	__u64 *lost = bpf_map_lookup_elem(&samples_lost, &zero);

	if (lost)
		*lost += n;
}

static __always_inline void report(const struct sample *sample)
{
	if (bpf_ringbuf_output(&samples, (void *)sample, sizeof(*sample), 0))
		lose_samples(1);
}

#endif
