// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the classifier has found out about a packet, left in the packet's control block, so that where
// it leaves its queue nothing has to be read, parsed, looked up or hashed again.
#ifndef FB_NOTE_H
#define FB_NOTE_H

#include "skb.h"

// BPF's cb[]. Queues that keep a time put it into the first two words (CoDel, PIE). What others write
// over the rest shows in the last: then the packet is looked at anew.
struct fb_note {
	__u32 class;  // within the bundle, for the filter below
	__u32 number; // of this note: a packet that comes twice is one that the driver refused
	__u32 what;   // the bundle, and in the lower half the bytes on the wire
	__u32 fingerprint;
	__u32 check;
};

// Of a packet that has to be looked at: no bundle has this number.
#define FB_NOTE_LOOK 0xffff0000

struct qdisc_skb_cb {
	unsigned char data[20];
} FB_KERNEL_TYPE;

// Never 0. The salt is another in every load of the programs, so a bundle's number is that of this one.
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

// Takes away what another device's classifier may have left.
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
