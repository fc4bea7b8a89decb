// SPDX-License-Identifier: Apache-2.0 OR MIT
// DCTCP (RFC 8257) as a congestion control module, for kernels without one. It implements both
// ends: the sender reduces its window by the share of marked packets, and the receiver's
// acknowledgements report which packets were marked.
//
// CO-RE finds the fields by the kernel's own type information: only the names below matter.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define KERNEL_TYPE __attribute__((preserve_access_index))

struct sock {
	unsigned int sk_pacing_status;
} KERNEL_TYPE;

struct inet_connection_sock {
	struct {
		__u8 pending;
	} icsk_ack;
	__u64 icsk_ca_priv[13];
} KERNEL_TYPE;

struct tcp_sock {
	__u32 rcv_nxt, snd_nxt, snd_una;
	__u32 snd_cwnd, snd_ssthresh;
	__u32 delivered, delivered_ce;
	__u8 ecn_flags;
} KERNEL_TYPE;

enum tcp_ca_event {
	CA_EVENT_LOSS,
	CA_EVENT_ECN_NO_CE,
	CA_EVENT_ECN_IS_CE,
};

// The name comes first, where who loads this sets it.
struct tcp_congestion_ops {
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	__u32 (*undo_cwnd)(struct sock *sk);
} KERNEL_TYPE;

// Kernel constants that the type information does not contain.
#define TCP_CONG_NEEDS_ECN 2
#define TCP_ECN_DEMAND_CWR 4
#define ICSK_ACK_TIMER 2
#define ICSK_ACK_NOW 16
#define SK_PACING_NEEDED 1
#define TCP_CA_RECOVERY 3

// Shares are in 2^-20.
#define ONE (1U << 20)
// The gain g = 1/16 by which the estimate follows (RFC 8257 section 4.2).
#define GAIN_SHIFT 4

// The state of a connection, 104 bytes at most.
struct dctcp {
	__u32 alpha;        // estimate of the share of packets that are marked
	__u32 window_end;   // where the present observation window ends
	__u32 delivered;    // at its beginning
	__u32 delivered_ce; // likewise
	__u32 before_loss;  // the window that a loss cut
	__u32 rcv_nxt;      // up to where acknowledgements must say `marked`
	__u32 marked;       // whether the last data came marked
};

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

static __always_inline struct dctcp *state_of(struct sock *sk)
{
	return (struct dctcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline void begin_window(const struct tcp_sock *tcp, struct dctcp *own)
{
	own->window_end = tcp->snd_nxt;
	own->delivered = tcp->delivered;
	own->delivered_ce = tcp->delivered_ce;
}

// The stack paces: bursts would build a queue of their own at a link that marks from one
// millisecond on (RFC 9331 section 4.3).
SEC("struct_ops")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct tcp_sock *tcp = (struct tcp_sock *)sk;
	struct dctcp *own = state_of(sk);

	own->alpha = ONE; // until there is an estimate, a mark halves (RFC 8257 section 3.3)
	own->before_loss = 0;
	own->rcv_nxt = tcp->rcv_nxt;
	own->marked = 0;
	begin_window(tcp, own);
	if (!sk->sk_pacing_status)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

// Once a window: alpha = (1 - g) alpha + g F (RFC 8257 section 3.3 step 6).
SEC("struct_ops")
void BPF_PROG(dctcp_in_ack_event, struct sock *sk, __u32 flags)
{
	struct tcp_sock *tcp = (struct tcp_sock *)sk;
	struct dctcp *own = state_of(sk);
	__u32 delivered, marked, share = 0;

	if ((__s32)(tcp->snd_una - own->window_end) < 0)
		return;
	delivered = tcp->delivered - own->delivered;
	marked = tcp->delivered_ce - own->delivered_ce;
	if (delivered)
		share = ((__u64)marked << 20) / delivered;
	if (share > ONE)
		share = ONE;
	own->alpha += (share >> GAIN_SHIFT) - (own->alpha >> GAIN_SHIFT);
	begin_window(tcp, own);
}

// The window after a mark: W (1 - alpha / 2). The stack calls this at most once a window (RFC 8257
// section 3.3 step 9).
SEC("struct_ops")
__u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	__u32 window = ((struct tcp_sock *)sk)->snd_cwnd;
	__u32 less = ((__u64)window * state_of(sk)->alpha) >> 21;

	return window - less > 2 ? window - less : 2;
}

SEC("struct_ops")
void BPF_PROG(dctcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

static __always_inline void halve(struct sock *sk)
{
	struct tcp_sock *tcp = (struct tcp_sock *)sk;
	__u32 half = tcp->snd_cwnd / 2;

	state_of(sk)->before_loss = tcp->snd_cwnd;
	tcp->snd_ssthresh = half > 2 ? half : 2;
}

// A loss halves the window, whatever the marks (RFC 8257 section 3.5).
SEC("struct_ops")
void BPF_PROG(dctcp_set_state, struct sock *sk, __u8 new_state)
{
	if (new_state == TCP_CA_RECOVERY)
		halve(sk);
}

// The receiver: acknowledgements report `marked` from the first marked packet until the first
// unmarked one, so a delayed acknowledgement is sent when that changes (RFC 8257 section 3.2).
static __always_inline void data_came(struct sock *sk, __u32 marked)
{
	struct inet_connection_sock *connection = (struct inet_connection_sock *)sk;
	struct tcp_sock *tcp = (struct tcp_sock *)sk;
	struct dctcp *own = state_of(sk);

	if (own->marked != marked) {
		// The delayed acknowledgement still reports the earlier packets, as the flag does.
		if (connection->icsk_ack.pending & ICSK_ACK_TIMER)
			bpf_tcp_send_ack(tcp, own->rcv_nxt);
		connection->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	own->rcv_nxt = tcp->rcv_nxt;
	own->marked = marked;
	if (marked)
		tcp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tcp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

SEC("struct_ops")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_ECN_IS_CE))
		data_came(sk, 1);
	else if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_ECN_NO_CE))
		data_came(sk, 0);
	else if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_LOSS))
		halve(sk);
}

// The loss was spurious.
SEC("struct_ops")
__u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk)
{
	__u32 window = ((struct tcp_sock *)sk)->snd_cwnd, before = state_of(sk)->before_loss;

	return window > before ? window : before;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops dctcp = {
	.name = "fb_dctcp",
	.flags = TCP_CONG_NEEDS_ECN,
	.init = (void *)dctcp_init,
	.ssthresh = (void *)dctcp_ssthresh,
	.cong_avoid = (void *)dctcp_cong_avoid,
	.set_state = (void *)dctcp_set_state,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.in_ack_event = (void *)dctcp_in_ack_event,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
};

char LICENSE[] SEC("license") = "Dual MIT/GPL";
