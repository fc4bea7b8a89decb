// SPDX-License-Identifier: Apache-2.0 OR MIT
// A note that the classifier leaves in a packet's control block, so that the packet need not be
// read, parsed, looked up and hashed again when it leaves its queue.
#ifndef FB_NOTE_H
#define FB_NOTE_H

#include "skb.h"

// The cb[] array of BPF. CoDel and PIE store a time in the first two words. If other code
// overwrites the rest, the last word shows it, and the packet is parsed again.
struct fb_note {
	__u32 class;  // within the bundle, for the filter below
	__u32 number; // of this note: a packet that comes twice is one that the driver refused
	__u32 what;   // the bundle, and in the lower half the bytes of the IP packet
	__u32 fingerprint;
	__u32 check;
};

// Marks a packet that must be parsed: no bundle has this number.
#define FB_NOTE_LOOK 0xffff0000

struct qdisc_skb_cb {
	unsigned char data[20];
} FB_KERNEL_TYPE;

// Never 0. Each load of the programs has another salt, so a note of an earlier load is not valid.
static __always_inline __u32 fb_note_check(__u32 what, __u32 fingerprint)
{
	return ((what ^ settings.salt) * 0x9e3779b1 ^ fingerprint) * 0x85ebca77 | 1;
}

static __always_inline void fb_note_write(struct __sk_buff *ctx, __u32 number, __u32 what,
					  __u32 fingerprint)
{
	ctx->cb[1] = number;
	ctx->cb[2] = what;
	ctx->cb[3] = fingerprint;
	ctx->cb[4] = fb_note_check(what, fingerprint);
}

// Clears a note that another device's classifier may have left.
static __always_inline void fb_note_clear(struct __sk_buff *ctx)
{
	ctx->cb[4] = 0;
}

// Returns 1 if the packet has a note.
static __always_inline int fb_note_read(const void *skb, struct fb_note *note)
{
	__u32 at = bpf_core_field_offset(struct sk_buff, cb) +
		   bpf_core_field_offset(struct qdisc_skb_cb, data);

	return !bpf_probe_read_kernel(note, sizeof(*note), skb + at) &&
	       note->check == fb_note_check(note->what, note->fingerprint);
}

#endif
