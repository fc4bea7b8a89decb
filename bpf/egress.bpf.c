// SPDX-License-Identifier: Apache-2.0 OR MIT
// The sendbox with `dataplane = "kernel"`: classifies each packet to a bundle for the qdiscs. When
// the packet leaves them for the device, it counts the packet and reports boundary packets.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "heartbeat.h"
#include "note.h"

// The same values as in boxes/dataplane/src/kernel/mod.rs.
#define MAX_BUNDLES 16384

struct ns_common {
	unsigned int inum;
} FB_KERNEL_TYPE;

struct net {
	struct ns_common ns;
} FB_KERNEL_TYPE;

typedef struct {
	struct net *net;
} FB_KERNEL_TYPE possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} FB_KERNEL_TYPE;

// The bundle of a destination, for queueing and for counting.
LPM_TRIE(bundles);

// The classes of a bundle with several: for every value of a field, the classes that match it, as
// bits.
struct classes {
	__u8 dscp[64];
	__u8 any_port, any_prefix;
	__u8 last; // takes what fits in no other
};

struct class_port {
	__u32 bundle, port;
};

struct class_prefix {
	__u32 length; // the bundle's 32 bits included
	__u32 bundle;
	__u8 address[16];
};

// All zero for a bundle with one class: every packet is in the last class, which is the first.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_BUNDLES);
	__type(key, __u32);
	__type(value, struct classes);
} classes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PREFIXES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct class_port);
	__type(value, __u32);
} class_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, MAX_PREFIXES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct class_prefix);
	__type(value, __u32);
} class_prefixes SEC(".maps");

#define COUNTED 256 // the values of the check's upper byte

// Packets that were counted last, by their notes' checks. Only one CPU at a time dequeues from a
// device's queues. One packet is not enough: a qdisc hands over several at once, keeps those that
// the driver did not take, and puts one that is refused later behind the others.
static struct {
	void *skb;
	struct fb_note note;
} counted[COUNTED];

// Numbers the notes. Packets are classified under the lock of the root qdisc.
static __u32 noted;

// Our device, cached at its first packet, so that packets of other devices cost one comparison.
static struct net_device *device;

static __always_inline int is_ours(struct net_device *dev)
{
	if (device && dev != device)
		return 0;
	// Another object may be at the address of a device that was removed.
	if ((__u32)BPF_CORE_READ(dev, ifindex) != settings.device)
		return 0;
	if (dev == device)
		return 1;
	if (BPF_CORE_READ(dev, nd_net.net, ns.inum) != settings.namespace)
		return 0;
	device = dev;
	return 1;
}

// Whether the driver just refused this packet for lack of room: then it was already counted.
static __always_inline int was_refused(const void *skb, const struct fb_note *note)
{
	// The upper bits of a check are mixed best.
	__u32 place = note->check >> 24;
	const struct fb_note *last = &counted[place].note;

	if (counted[place].skb == skb && last->number == note->number &&
	    last->class == note->class && last->check == note->check)
		return 1;
	counted[place].skb = (void *)skb;
	counted[place].note = *note;
	return 0;
}

#define FLOWS 4096

// The time of the last departure of each flow, by the lowest bits of the kernel's hash. A flow that
// shares its place with another one seems to pause for less time.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOWS);
	__type(key, __u32);
	__type(value, __u64);
} departures SEC(".maps");

// Notes that a packet of a flow leaves. Says in `s` when, and how long the flow has paused.
// Programs on tracepoints have no coarse clock.
static __always_inline void note_flow(struct sample *s, __u32 hash)
{
	__u32 place = hash & (FLOWS - 1);
	__u64 *last = bpf_map_lookup_elem(&departures, &place), now = bpf_ktime_get_ns();

	if (!last)
		return;
	__u64 pause = (now - *last) / 1000;
	s->time = now;
	s->flow = hash;
	s->pause = pause > 0xffffffff ? 0xffffffff : pause;
	*last = now;
}

// Counts a packet with a note from the classifier, and reports it if it is a boundary packet.
static __always_inline void count_noted(const struct fb_note *note, __u32 hash)
{
	struct sample s = { .bundle = note->what >> 16, .fingerprint = note->fingerprint };
	__u32 bytes = note->what & 0xffff;
	struct counts *c = bpf_map_lookup_elem(&counts, &s.bundle);
	struct sampling *sampling = bpf_map_lookup_elem(&samplings, &s.bundle);

	if (!c || !sampling)
		return;
	note_flow(&s, hash);
	s.bytes = __sync_fetch_and_add(&c->bytes, bytes) + bytes;
	s.packets = __sync_fetch_and_add(&c->packets, 1) + 1;
	s.epoch = sampling->epoch;
	if (!is_boundary(s.fingerprint, s.epoch))
		return;
	report(&s);
}

// net_dev_start_xmit(skb, dev): after the qdisc, after software segmentation if the device has
// none, and just before the driver.
SEC("raw_tp/net_dev_start_xmit")
int fb_egress(struct bpf_raw_tracepoint_args *ctx)
{
	void *packet = (void *)ctx->args[0];
	__u32 zero = 0, *bundle;
	struct fb_note note;
	struct sk_buff *skb;

	if (!is_ours((void *)ctx->args[1]))
		return 0;
	if (fb_note_read(packet, &note)) {
		if (was_refused(packet, &note))
			return 0;
		if (note.what != FB_NOTE_LOOK) {
			count_noted(&note, BPF_CORE_READ((struct sk_buff *)packet, hash));
			return 0;
		}
	}
	struct look *look = bpf_map_lookup_elem(&looks, &zero);
	if (!look || !(skb = fb_look_copy(look, packet)))
		return 0;
	__u32 len = skb->len, captured = len - skb->data_len;
	if (captured > FB_WINDOW)
		captured = FB_WINDOW;
	if (bpf_probe_read_kernel(look->window, captured, skb->data))
		return 0;
	__u32 size = BPF_CORE_READ(fb_shared(skb), gso_size);
	if (!fb_look_at(look, captured, size ? len : 0))
		return 0;
	if (!(bundle = longest(&bundles, look->headers.dst)))
		return 0;
	if (size)
		fb_look_segments(look, skb, 0, len, size);
	note_flow(&look->sample, skb->hash);
	fb_look_count(look, len, *bundle);
	return 0;
}

static __always_inline __u32 port_classes(__u32 bundle, __u32 port)
{
	struct class_port key = { bundle, port };
	__u32 *bits = bpf_map_lookup_elem(&class_ports, &key);

	return bits ? *bits : 0;
}

static __always_inline __u32 prefix_classes(__u32 bundle, const __u8 *address)
{
	struct class_prefix key = { .length = 32 + 128, .bundle = bundle };

	__builtin_memcpy(key.address, address, 16);
	__u32 *bits = bpf_map_lookup_elem(&class_prefixes, &key);
	return bits ? *bits : 0;
}

// The first class of the bundle that matches the packet. Not inlined and not static, so that the
// verifier checks it once, and follows the rest of the classifier once for all its ways.
__attribute__((noinline)) int fb_class(__u32 bundle, const struct fb_headers *h)
{
	struct classes *c = bpf_map_lookup_elem(&classes, &bundle);

	if (!c || !h)
		return 0;
	__u32 fit = c->dscp[h->traffic_class >> 2], port = c->any_port, prefix = c->any_prefix;
	if (fit & ~port && h->flags & FB_HAS_PORTS)
		port |= port_classes(bundle, h->src_port) | port_classes(bundle, h->dst_port);
	fit &= port;
	if (fit & ~prefix)
		prefix |= prefix_classes(bundle, h->src) | prefix_classes(bundle, h->dst);
	fit &= prefix;
	for (__u32 i = 0; i < 8; i++)
		if (fit >> i & 1)
			return i;
	return c->last;
}

enum bpf_func_id___kernel {
	BPF_FUNC_ktime_get_coarse_ns___kernel = 160,
};

// A time as exact as the kernel's tick, for a tenth of the cost of an exact one (Linux 5.11).
static __always_inline __u64 coarse_time(void)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id___kernel,
				       BPF_FUNC_ktime_get_coarse_ns___kernel))
		return bpf_ktime_get_coarse_ns();
	return bpf_ktime_get_ns();
}

// On the root qdisc: the minor id of a bundle's class is the number of the bundle, counted from 1.
// The qdisc decides about packets of no bundle. cb[0] gets the class within the bundle and, from
// the eighth bit on, the bundle, for the filters that choose among the bundle's queues.
SEC("tc")
int fb_classify(struct __sk_buff *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct fb_headers h;
	__u32 *bundle, fingerprint;

	fb_note_clear(ctx);
	// No process changes the rates of classes any more: all packets pass without a class.
	if (!fb_is_alive(coarse_time()))
		return TC_ACT_UNSPEC;
	__u32 whole = ctx->gso_size ? ctx->len : 0;
	if (fb_parse(data, end, settings.framing, whole, &h) != FB_IP ||
	    !(bundle = longest(&bundles, h.dst)))
		return TC_ACT_UNSPEC;
	if (*bundle >= MAX_BUNDLES)
		return TC_ACT_UNSPEC;
	ctx->tc_classid = *bundle + 1;
	// So that the packet has the hash when it leaves. Fair queues need it too.
	bpf_get_hash_recalc(ctx);
	ctx->cb[0] = *bundle << 8 | fb_class(*bundle, &h);
	// A super-packet may be segmented by then, and each segment has a fingerprint of its own.
	__u32 bytes = fb_ip_len(&h, ctx->len);
	struct sampling *sampling = bpf_map_lookup_elem(&samplings, bundle);
	noted++;
	if (sampling && !ctx->gso_size && bytes <= 0xffff &&
	    fb_fingerprint(data, end, &h, sampling->key, &fingerprint)) {
		fb_note_write(ctx, noted, *bundle << 16 | bytes, fingerprint);
		return TC_ACT_OK;
	}
	fb_note_write(ctx, noted, FB_NOTE_LOOK, noted);
	// A tracepoint sees only the linear part of the packet. It holds all headers, and if the
	// fingerprint covers payload, it must hold that too.
	__u32 need = (__u32)h.transport_offset + 8 + FB_OTHER_PAYLOAD, len = ctx->len;
	if (need > len)
		need = len;
	int has_id = h.flags & FB_IS_FRAGMENT || (h.version == 4 && h.id);
	if (!has_id && h.protocol != FB_TCP && data + need > end)
		bpf_skb_pull_data(ctx, need);
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
