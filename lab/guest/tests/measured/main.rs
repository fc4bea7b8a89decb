//! The kernel's backpressure (`kernel/zd`) in guests: no packet is lost, every paused flow resumes,
//! and no socket is left behind. Both kernels are built first if they do not exist; where they
//! cannot be built, the test reports a skip.
//!
//! The guest starts this program as its first process.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use forebay_guest::zd::{self, Findings, Order, Queue, Work};
use forebay_guest::{Error, Interrupt, Kernel, kernel_file};
use forebay_test_support::{Need, skip_named};
use libtest_mimic::{Arguments, Trial};

/// The variable that requests this test, which builds two kernels first.
const ASKED: &str = "FOREBAY_TEST_KERNEL";
/// A bucket at 100 Mbit/s that holds a super-packet.
const QUEUE: Queue =
    Queue { rate: 100_000_000, burst: 128_000, limit: 100, delay: 1_000, queues: 1, tun: false };
/// A bucket of two packets: longer super-packets are queued as their segments.
const SHALLOW: Queue = Queue { burst: 3_100, ..QUEUE };

/// A queue that takes longer than TCP's least timeout of 200 ms to send what it holds.
const LONG: Queue = Queue { limit: 1_000, ..QUEUE };
/// Four transmit queues below `mq`.
const SEVERAL: Queue = Queue { queues: 4, ..QUEUE };

/// A TUN device whose reader is the bottleneck.
const TUN: Queue = Queue { limit: 16, tun: true, ..QUEUE };

struct Kernels {
    unpatched: PathBuf,
    zd: PathBuf,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("zd-guest") {
        return zd::guest();
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    let tests = vec![
        test("a_full_queue_drops_nothing", a_full_queue_drops_nothing),
        test("segments_of_a_super_packet_are_not_lost", segments_of_a_super_packet_are_not_lost),
        test("a_long_queue_causes_no_timeout", a_long_queue_causes_no_timeout),
        test("each_queue_below_mq_has_its_own_paused_flows", each_queue_below_mq),
        test("a_full_ring_of_a_tun_device_loses_nothing", a_full_ring_of_a_tun_device),
        test("without_it_the_same_flows_are_dropped", without_it_the_same_flows_are_dropped),
        test("switched_off_it_does_nothing", switched_off_it_does_nothing),
        test("datagrams_wait", datagrams_wait),
        test("datagrams_of_polling_sockets_wait", datagrams_of_polling_sockets_wait),
        test("sockets_closed_while_paused_are_freed", sockets_closed_while_paused_are_freed),
        test("a_device_goes_down_and_up", a_device_goes_down_and_up),
        test("a_queue_is_deleted_and_comes_again", a_queue_is_deleted_and_comes_again),
    ];
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// Makes a test that gets both kernels. Without them, it reports a skip.
fn test(name: &'static str, run: fn(&Kernels)) -> Trial {
    static KERNELS: OnceLock<Result<Kernels, String>> = OnceLock::new();
    Trial::test(name, move || {
        match KERNELS.get_or_init(kernels) {
            Ok(kernels) => run(kernels),
            Err(why) => skip_named(name, Need::ZdKernels, why),
        }
        Ok(())
    })
}

/// Returns both kernels, or the reason why there are none.
fn kernels() -> Result<Kernels, String> {
    if std::env::var_os(ASKED).is_none() {
        return Err("two kernels are built first, so only `make test-kernel` runs it".to_owned());
    }
    let kernel = |which| match kernel_file(which, &Interrupt::default()) {
        Ok(kernel) => Ok(kernel),
        Err(Error::Unfit(why)) => Err(why),
        Err(e) => panic!("{e}"),
    };
    Ok(Kernels { unpatched: kernel(Kernel::Unpatched)?, zd: kernel(Kernel::Zd)? })
}

/// The result of the work in a guest without kernel warnings.
fn found(kernel: &Path, backpressure: bool, queue: Queue, work: Work) -> Findings {
    let order = Order { backpressure, queue, work };
    let (findings, _) = zd::run(kernel, 1, &order, &Interrupt::default()).unwrap();
    assert_eq!(findings.warnings, Vec::<String>::new(), "{findings:#?}");
    findings
}

/// Like `found` with the switch on; all paused flows must have resumed, and no socket may be left.
fn with_zd(kernels: &Kernels, queue: Queue, work: Work) -> Findings {
    let findings = found(&kernels.zd, true, queue, work);
    assert!(findings.paused.unwrap() > 0, "the queue was full: {findings:#?}");
    assert_eq!(findings.sockets_left, 0, "{findings:#?}");
    findings
}

const FLOWS: Work = Work::Transfer { flows: 200, bytes: 200_000 };

fn a_full_queue_drops_nothing(kernels: &Kernels) {
    let findings = with_zd(kernels, QUEUE, FLOWS);
    assert_eq!(findings.arrived, findings.sent);
    assert_eq!((findings.dropped, findings.retransmissions), (0, 0), "{findings:#?}");
    assert_eq!(findings.paused, findings.resumed);
}

fn segments_of_a_super_packet_are_not_lost(kernels: &Kernels) {
    let findings = with_zd(kernels, SHALLOW, FLOWS);
    assert_eq!(findings.arrived, findings.sent);
    assert_eq!((findings.dropped, findings.retransmissions), (0, 0), "{findings:#?}");
}

fn a_long_queue_causes_no_timeout(kernels: &Kernels) {
    let work = Work::Transfer { flows: 600, bytes: 100_000 };
    let without = found(&kernels.unpatched, false, LONG, work);
    assert!(without.timeouts > 100 && without.held > 100, "{without:#?}");
    let findings = with_zd(kernels, LONG, work);
    assert_eq!(findings.arrived, findings.sent);
    assert!(findings.held > 100, "timers expired while segments waited: {findings:#?}");
    assert_eq!((findings.retransmissions, findings.timeouts), (0, 0), "{findings:#?}");
}

fn each_queue_below_mq(kernels: &Kernels) {
    let findings = with_zd(kernels, SEVERAL, FLOWS);
    assert_eq!(findings.arrived, findings.sent);
    assert_eq!((findings.dropped, findings.retransmissions), (0, 0), "{findings:#?}");
    assert_eq!(findings.paused, findings.resumed);
    let without = found(&kernels.unpatched, false, SEVERAL, FLOWS);
    assert!(without.dropped > 100, "{without:#?}");
}

fn a_full_ring_of_a_tun_device(kernels: &Kernels) {
    let work = Work::Transfer { flows: 20, bytes: 500_000 };
    let findings = with_zd(kernels, TUN, work);
    assert_eq!(findings.arrived, findings.sent);
    // No data is lost. Packets that cannot wait have one place in so short a queue.
    assert_eq!((findings.retransmissions, findings.timeouts), (0, 0), "{findings:#?}");
    assert_eq!(findings.paused, findings.resumed);
    let without = found(&kernels.unpatched, false, TUN, work);
    assert!(without.dropped > 100 && without.retransmissions > 100, "{without:#?}");
}

fn without_it_the_same_flows_are_dropped(kernels: &Kernels) {
    let findings = found(&kernels.unpatched, false, QUEUE, FLOWS);
    assert!(findings.dropped > 100, "{findings:#?}");
    assert_eq!((findings.arrived, findings.paused), (findings.sent, None));
}

fn switched_off_it_does_nothing(kernels: &Kernels) {
    let unpatched = found(&kernels.unpatched, false, QUEUE, FLOWS);
    let off = found(&kernels.zd, false, QUEUE, FLOWS);
    assert_eq!((off.paused, off.resumed), (Some(0), Some(0)));
    assert!(off.dropped > 100, "{off:#?}");
    // Time is virtual and random numbers come from the seed, so it is the same run, except for
    // hashed kernel addresses.
    let ratio = off.seconds / unpatched.seconds;
    assert!((0.9..1.1).contains(&ratio), "{off:#?} {unpatched:#?}");
}

fn datagrams_wait(kernels: &Kernels) {
    let work = Work::Datagrams { sockets: 5, each: 4_000, polled: false };
    let without = found(&kernels.unpatched, false, QUEUE, work);
    assert!(without.arrived < without.sent, "lost without a word: {without:#?}");
    let findings = with_zd(kernels, QUEUE, work);
    assert_eq!((findings.arrived, findings.dropped), (findings.sent, 0), "{findings:#?}");
}

fn datagrams_of_polling_sockets_wait(kernels: &Kernels) {
    let work = Work::Datagrams { sockets: 5, each: 4_000, polled: true };
    let findings = with_zd(kernels, QUEUE, work);
    assert_eq!((findings.arrived, findings.dropped), (findings.sent, 0), "{findings:#?}");
    assert!(findings.refused > 0, "the queue refused some datagrams: {findings:#?}");
    assert!(findings.refused < 40_000, "and did not spin: {findings:#?}");
}

fn sockets_closed_while_paused_are_freed(kernels: &Kernels) {
    // `with_zd` checks sockets and warnings.
    with_zd(kernels, QUEUE, Work::Close { flows: 500 });
}

fn a_device_goes_down_and_up(kernels: &Kernels) {
    let work = Work::Down { flows: 200, bytes: 200_000 };
    let findings = with_zd(kernels, QUEUE, work);
    assert_eq!(findings.arrived, findings.sent, "{findings:#?}");
    assert_eq!(findings.paused, findings.resumed, "{findings:#?}");
}

fn a_queue_is_deleted_and_comes_again(kernels: &Kernels) {
    let work = Work::Replace { flows: 200, bytes: 200_000 };
    let findings = with_zd(kernels, QUEUE, work);
    assert_eq!(findings.arrived, findings.sent, "{findings:#?}");
    assert_eq!(findings.paused, findings.resumed, "{findings:#?}");
}
