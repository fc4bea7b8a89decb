// SPDX-License-Identifier: Apache-2.0 OR MIT
// TCP Prague (draft-briscoe-iccrg-prague-congestion-control) as a congestion control module: the
// sender of lab/sim/src/prague.rs in integers. The stack negotiates accurate ECN (RFC 9768),
// sends ECT(1), and counts the marks that the receiver reports.
//
// Item numbers refer to RFC 9331 section 4.3. CO-RE finds the fields by the kernel's own type
// information: only the names below matter.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define KERNEL_TYPE __attribute__((preserve_access_index))

struct sock {
	unsigned int sk_pacing_status;
	unsigned long sk_pacing_rate;
} KERNEL_TYPE;

struct inet_connection_sock {
	__u64 icsk_ca_priv[13];
} KERNEL_TYPE;

struct minmax_sample {
	__u32 v;
} KERNEL_TYPE;

struct minmax {
	struct minmax_sample s[3];
} KERNEL_TYPE;

struct tcp_sock {
	__u64 tcp_mstamp;
	__u32 snd_cwnd, snd_ssthresh;
	__u32 delivered_ce;
	__u32 srtt_us, mss_cache, max_packets_out;
	struct minmax rtt_min;
	__u8 ecn_flags;
} KERNEL_TYPE;

struct rate_sample {
	long rtt_us;
	__u32 acked_sacked;
} KERNEL_TYPE;

enum tcp_ca_event {
	CA_EVENT_LOSS,
};

// The name comes first, where who loads this sets it.
struct tcp_congestion_ops {
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	__u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	__u32 (*undo_cwnd)(struct sock *sk);
} KERNEL_TYPE;

// Kernel constants that the type information does not contain.
#define TCP_CONG_NEEDS_ECN 2
#define TCP_CONG_NEEDS_ACCECN 4
#define TCP_CONG_ECT_1_NEGOTIATION 8
#define TCP_ECN_MODE_ACCECN 16
#define SK_PACING_NEEDED 1
#define TCP_CA_RECOVERY 3

// Windows are in 2^-12 segments, shares of marks in 2^-24, times in microseconds.
#define SEGMENT 4096U
#define ONE (1U << 24)
// The reference round-trip time, below which flows grow at the same rate (item 4).
#define REFERENCE_RTT 25000
// The gain 1/16 of the moving average of marks (RFC 8257 section 4.2).
#define GAIN_SHIFT 4
// The smallest window, a segment in 16 round trips by pacing (item 5), and the largest.
#define LEAST_WINDOW (SEGMENT / 16)
#define MAX_WINDOW (SEGMENT << 18)
// The segments that may be in flight with the smallest window.
#define LEAST_SEGMENTS 2
// The longest burst (item 7).
#define BURST 250
// The queue delay above which marks come from a classic AQM (item 3).
#define L4S_DELAY 3000
// The rounds of such marks from which on the bottleneck is classic, and down to which it stays so.
#define SUSPECT 6
#define TRUSTED 2
#define MAX_SUSPECT 8

// The state of a connection, 104 bytes at most.
struct prague {
	__u64 round_start;
	__u64 cut_again;    // the earliest time of the next reduction
	__u64 delay;        // sum of the queue delays in this round
	__u32 delays;       // number of its samples
	__u32 window;
	__u32 fraction;     // of 2^-12 segments, in 2^-16 of these, beyond `window`
	__u32 alpha;        // moving average of the share of marked packets
	__u32 acked;        // packets in this round
	__u32 marked;       // those of them that were marked
	__u32 delivered_ce; // as of the last acknowledgement
	__u32 before_loss;  // the window that a loss cut, in segments
	__u32 suspicion;    // rounds with marks at a long queue delay, less those at a short one
	__u32 classic;      // whether the bottleneck is classic
	__u32 recovers;     // whether a loss is being repaired
};

static __always_inline struct prague *state_of(struct sock *sk)
{
	return (struct prague *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline __u32 segments(__u32 window)
{
	__u32 whole = (window + SEGMENT - 1) / SEGMENT;

	return whole > LEAST_SEGMENTS ? whole : LEAST_SEGMENTS;
}

static __always_inline __u32 round_trip(const struct tcp_sock *tcp)
{
	__u32 rtt = tcp->srtt_us >> 3;

	return rtt ? rtt : 1;
}

SEC("struct_ops")
void BPF_PROG(prague_init, struct sock *sk)
{
	struct tcp_sock *tcp = (struct tcp_sock *)sk;
	struct prague *own = state_of(sk);

	__builtin_memset(own, 0, sizeof(*own));
	own->round_start = tcp->tcp_mstamp;
	own->window = tcp->snd_cwnd * SEGMENT;
	own->alpha = ONE; // conservative until measured (RFC 8257 section 4.2)
	own->delivered_ce = tcp->delivered_ce;
	if (!sk->sk_pacing_status)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

// Reduces the window by half the share of marks. A classic bottleneck marks packets that it would
// otherwise drop (RFC 3168 section 5), and so does one whose marks are not reported accurately.
static __always_inline void cut(struct tcp_sock *tcp, struct prague *own, __u32 virtual_rtt)
{
	_Bool accurate = tcp->ecn_flags & TCP_ECN_MODE_ACCECN;
	__u32 share = own->classic || !accurate ? ONE : own->alpha;
	__u32 window = own->window - (((__u64)own->window * share) >> 25);

	own->window = window > LEAST_WINDOW ? window : LEAST_WINDOW;
	own->cut_again = tcp->tcp_mstamp + virtual_rtt;
	tcp->snd_ssthresh = segments(own->window);
}

static __always_inline void end_round(struct tcp_sock *tcp, struct prague *own)
{
	__u32 share = ((__u64)own->marked << 24) / own->acked;

	if (share > ONE)
		share = ONE;
	own->alpha += (share >> GAIN_SHIFT) - (own->alpha >> GAIN_SHIFT);
	if (own->marked && own->delays) {
		// Two segments may wait in any queue.
		__u64 two = 2ULL * round_trip(tcp) * SEGMENT / own->window;

		if (own->delay / own->delays > L4S_DELAY + two)
			own->suspicion += own->suspicion < MAX_SUSPECT;
		else
			own->suspicion -= own->suspicion > 0;
		own->classic = own->suspicion >= SUSPECT ||
			       (own->classic && own->suspicion > TRUSTED);
	}
	own->acked = own->marked = own->delays = 0;
	own->delay = 0;
	own->round_start = tcp->tcp_mstamp;
}

// Additive increase, by a segment in each reference round trip (item 4).
static __always_inline void grow(struct prague *own, __u32 acked, __u32 rtt, __u32 virtual_rtt)
{
	__u64 part = ((__u64)rtt << 10) / virtual_rtt;
	__u64 more = own->fraction + (acked * part * part << 20) / own->window;

	own->window += more >> 16;
	own->fraction = more & 0xffff;
}

SEC("struct_ops")
void BPF_PROG(prague_cong_control, struct sock *sk, __u32 ack, int flag,
	      const struct rate_sample *rs)
{
	struct tcp_sock *tcp = (struct tcp_sock *)sk;
	struct prague *own = state_of(sk);
	__u32 rtt = round_trip(tcp), virtual_rtt = rtt > REFERENCE_RTT ? rtt : REFERENCE_RTT;
	__u32 newly = rs->acked_sacked, marked = tcp->delivered_ce - own->delivered_ce;
	_Bool starts = tcp->snd_cwnd < tcp->snd_ssthresh;
	__u64 pace;

	// A timeout, an idle time or an undone reduction has changed it.
	if (tcp->snd_cwnd != segments(own->window))
		own->window = tcp->snd_cwnd * SEGMENT;
	own->delivered_ce += marked;
	own->acked += newly;
	own->marked += marked;
	if (rs->rtt_us > 0) {
		__u32 least = tcp->rtt_min.s[0].v, sample = rs->rtt_us;

		own->delay += sample > least ? sample - least : 0;
		own->delays++;
	}
	if (marked && !own->recovers && tcp->tcp_mstamp >= own->cut_again) {
		cut(tcp, own, virtual_rtt);
		starts = 0;
	}
	if (own->acked && tcp->tcp_mstamp - own->round_start >= virtual_rtt)
		end_round(tcp, own);
	// A window that is not used says nothing about the path.
	if (newly && !own->recovers && tcp->snd_cwnd < 2 * tcp->max_packets_out) {
		if (starts)
			own->window += newly * SEGMENT;
		else
			grow(own, newly, rtt, virtual_rtt);
	}
	if (own->window > MAX_WINDOW)
		own->window = MAX_WINDOW;
	tcp->snd_cwnd = segments(own->window);
	// Slow start needs twice the rate, since the window doubles in a round trip.
	pace = ((__u64)own->window * tcp->mss_cache / SEGMENT) * 1000000 / rtt;
	sk->sk_pacing_rate = starts ? 2 * pace : pace + (pace >> 5);
}

// Super-packets of at most 250 us (item 7).
SEC("struct_ops")
__u32 BPF_PROG(prague_min_tso_segs, struct sock *sk)
{
	struct tcp_sock *tcp = (struct tcp_sock *)sk;
	__u32 mss = tcp->mss_cache ? tcp->mss_cache : 1;
	__u64 burst = sk->sk_pacing_rate / (1000000 / BURST) / mss;

	return burst > 1 ? burst : 1;
}

static __always_inline void halve(struct sock *sk)
{
	struct tcp_sock *tcp = (struct tcp_sock *)sk;
	struct prague *own = state_of(sk);

	own->before_loss = tcp->snd_cwnd;
	own->window = tcp->snd_cwnd * (SEGMENT / 2);
	tcp->snd_ssthresh = segments(own->window);
}

// A loss halves the window, whatever the marks (item 1).
SEC("struct_ops")
void BPF_PROG(prague_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tcp = (struct tcp_sock *)sk;
	struct prague *own = state_of(sk);

	if (new_state == TCP_CA_RECOVERY && !own->recovers) {
		halve(sk);
		tcp->snd_cwnd = tcp->snd_ssthresh;
	}
	own->recovers = new_state == TCP_CA_RECOVERY;
}

SEC("struct_ops")
void BPF_PROG(prague_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_LOSS))
		halve(sk);
}

// The stack asks for this when a mark or a loss came. The reduction itself is made elsewhere.
SEC("struct_ops")
__u32 BPF_PROG(prague_ssthresh, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

// The loss was spurious.
SEC("struct_ops")
__u32 BPF_PROG(prague_undo_cwnd, struct sock *sk)
{
	__u32 window = ((struct tcp_sock *)sk)->snd_cwnd, before = state_of(sk)->before_loss;

	return window > before ? window : before;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops prague = {
	.name = "fb_prague",
	.flags = TCP_CONG_NEEDS_ECN | TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION,
	.init = (void *)prague_init,
	.ssthresh = (void *)prague_ssthresh,
	.set_state = (void *)prague_set_state,
	.cwnd_event = (void *)prague_cwnd_event,
	.min_tso_segs = (void *)prague_min_tso_segs,
	.cong_control = (void *)prague_cong_control,
	.undo_cwnd = (void *)prague_undo_cwnd,
};

char LICENSE[] SEC("license") = "Dual MIT/GPL";
