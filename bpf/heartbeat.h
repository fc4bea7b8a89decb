// SPDX-License-Identifier: Apache-2.0 OR MIT
// The heartbeat of the process behind a program. The process writes the time; when it has been
// silent for too long, because it died or hangs, the program lets traffic pass without it.
#ifndef FB_HEARTBEAT_H
#define FB_HEARTBEAT_H

// The same value as in boxes/dataplane/src/heartbeat.rs.
#define FB_SILENCE 500000000LL

// CLOCK_MONOTONIC in nanoseconds; 0 before the process is ready.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} heartbeat SEC(".maps");

// Whether the process is alive at `now`, which may be a moment behind the time that it wrote.
static __always_inline int fb_is_alive(__u64 now)
{
	__u32 zero = 0;
	__u64 *last = bpf_map_lookup_elem(&heartbeat, &zero);

	return last && (__s64)(now - *last) < FB_SILENCE;
}

#endif
