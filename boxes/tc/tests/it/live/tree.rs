//! Trees on real devices: made, adopted, changed, damaged, taken away.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use forebay_tc::{
    BundleQueues, Device, Discipline, Error, Event, Features, Foreign, Found, Object, Root,
    Statistics, Step, Tree, Watch, steps,
};
use forebay_test_support::queues::{ByAddress, Network, WAN, fifo, install, plan};
use forebay_test_support::{Need, has_root, skip};
use forebay_units::{Bytes, Rate};

use super::{RECEIVE_TIMEOUT, until};

const SFQ: Discipline = Discipline::Sfq { limit: 1_250, perturb: None };

fn found() -> Found {
    Found::of(&Device::find(WAN).unwrap()).unwrap()
}

/// Steps that are not about filters, which are always set.
fn beside_filters(steps: Vec<Step>) -> Vec<Step> {
    steps.into_iter().filter(|s| !matches!(s, Step::Make(Object::Filter(_)))).collect()
}

#[test]
fn what_was_made_is_what_was_planned_and_goes_without_a_trace() {
    if !has_root() {
        return;
    }
    let network = Network::new();
    let before = (network.tc("qdisc show"), network.tc("class show dev wan"));
    network.within(|| {
        let bundles: &[&[Discipline]] = &[&[fifo(100)], &[SFQ], &[fifo(10), SFQ]];
        let tree = install(bundles);
        assert_eq!(found().root(), Root::Ours);
        assert_eq!(beside_filters(steps(&found(), &plan(bundles))), []);
        assert!(matches!(
            Tree::install(
                tree.device().clone(),
                plan(&[]),
                &ByAddress::load().programs(),
                Foreign::Refuse
            ),
            Err(Error::InUse(_))
        ));
        tree.remove().unwrap();
        assert_eq!(found().root(), Root::Default);
    });
    assert_eq!((network.tc("qdisc show"), network.tc("class show dev wan")), before);
}

#[test]
fn packets_go_where_the_programs_say() {
    if !has_root() {
        return;
    }
    let network = Network::new();
    let far: Vec<UdpSocket> =
        (2..6).map(|host| network.far_socket(&format!("10.9.0.{host}:9"))).collect();
    let statistics = network.within(|| {
        let mut tree = install(&[&[fifo(100)], &[SFQ], &[fifo(10), SFQ]]);
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        // So that no packet of the address resolution is among those that are counted.
        for host in 2..6 {
            socket.send_to(&[0; 100], format!("10.9.0.{host}:9")).unwrap();
        }
        let mut received = [0; 2_000];
        for socket in &far {
            socket.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
            socket.recv(&mut received).unwrap();
        }
        let mut before = Vec::new();
        tree.statistics(&mut before).unwrap();
        for (host, count) in [(2, 5), (3, 7), (4, 11), (5, 13)] {
            for _ in 0..count {
                socket.send_to(&[0; 1_000], format!("10.9.0.{host}:9")).unwrap();
            }
        }
        for (socket, count) in far.iter().zip([5, 7, 11, 13]) {
            for _ in 0..count {
                assert_eq!(socket.recv(&mut received).unwrap(), 1_000);
            }
        }
        let mut after = Vec::new();
        tree.statistics(&mut after).unwrap();
        let mut second = before.clone();
        tree.statistics_of(&[1], &mut second).unwrap();
        assert_eq!(second, [before[0], after[1], before[2]]);
        let counted: Vec<Statistics> = after
            .iter()
            .zip(&before)
            .map(|(a, b)| Statistics {
                sent: Bytes(a.sent.0 - b.sent.0),
                packets: a.packets - b.packets,
                ..*a
            })
            .collect();
        tree.remove().unwrap();
        counted
    });
    // To .5 is no bundle. A frame is 1042 bytes.
    let of =
        |packets| Statistics { packets, sent: Bytes(1_042 * packets), ..Statistics::default() };
    assert_eq!(statistics, [of(5), of(7), of(11)]);
}

/// Returns the statistics of the first bundle.
fn first(tree: &mut Tree) -> Statistics {
    let mut all = Vec::new();
    tree.statistics(&mut all).unwrap();
    all[0]
}

/// Lets frames wait in the queue of the first bundle, and returns its statistics then.
fn let_wait(tree: &mut Tree, far: &UdpSocket) -> Statistics {
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    socket.send_to(&[0; 100], "10.9.0.2:9").unwrap();
    far.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
    far.recv(&mut [0; 2_000]).unwrap();
    // A frame takes 8 s at this rate, and one may go at once.
    tree.set_rate(0, Some(Rate::from_bps(1_000)));
    assert_eq!(tree.flush().unwrap(), 1);
    for _ in 0..20 {
        socket.send_to(&[0; 1_000], "10.9.0.2:9").unwrap();
    }
    let statistics = first(tree);
    assert!(statistics.queued >= 19, "{statistics:?}");
    statistics
}

#[test]
fn a_restart_adopts_what_is_there_with_all_that_waits() {
    if !has_root() {
        return;
    }
    let network = Network::new();
    let far = network.far_socket("10.9.0.2:9");
    network.within(|| {
        let bundles: &[&[Discipline]] = &[&[fifo(100)], &[SFQ]];
        let program = ByAddress::load();
        let mut tree = install(bundles);
        let before = let_wait(&mut tree, &far);
        drop(tree);
        let device = Device::find(WAN).unwrap();
        let (mut tree, steps) =
            Tree::install(device, plan(bundles), &program.programs(), Foreign::Refuse).unwrap();
        assert_eq!(beside_filters(steps), []);
        assert_eq!(first(&mut tree), before);
        // The rate was adopted too, so that to set it again is no change.
        tree.set_rate(0, Some(Rate::from_bps(1_000)));
        assert_eq!(tree.flush().unwrap(), 0);
        tree.rebuild(&program.programs()).unwrap();
        assert_eq!(first(&mut tree), before);
        tree.remove().unwrap();
    });
}

/// A running process changes its tree: what is in both plans stays, with its packets and rate.
#[test]
fn a_change_touches_what_differs_and_a_refused_one_nothing() {
    if !has_root() {
        return;
    }
    let network = Network::new();
    let far = network.far_socket("10.9.0.2:9");
    network.within(|| {
        let features = Features::probe().unwrap();
        let program = ByAddress::load();
        let numbered = |bundles: &[(usize, Discipline)]| -> Vec<BundleQueues> {
            let bundle = |(number, discipline): &(usize, Discipline)| BundleQueues {
                shares: Vec::new(),
                share: forebay_tc::Share::default(),
                number: *number,
                name: format!("b{number}"),
                classes: vec![*discipline],
            };
            bundles.iter().map(bundle).collect()
        };
        let mut tree = install(&[&[SFQ], &[fifo(7)], &[fifo(8)]]);
        let before = let_wait(&mut tree, &far);

        // Bundle 1 goes, bundle 2 changes, bundles 3 and 4 come.
        let bundles = [(0, SFQ), (2, fifo(9)), (3, fifo(3)), (4, SFQ)];
        let next = tree.plan().next(&numbered(&bundles), &features).unwrap();
        let steps = tree.change(next.clone(), &program.programs()).unwrap();
        let text: Vec<_> = steps.iter().map(ToString::to_string).collect();
        assert!(text.contains(&"change qdisc 1002: below fb0:3, pfifo limit 9 packets".to_owned()));
        assert!(text.contains(&"delete class fb0:2".to_owned()), "{text:?}");
        let of_first = |step: &&String| step.contains("1000:") || step.ends_with("fb0:1");
        assert_eq!(text.iter().filter(of_first).count(), 0, "{text:?}");
        assert_eq!(first(&mut tree), before);
        // The rate was kept too, so that to set it again is no change.
        tree.set_rate(0, Some(Rate::from_bps(1_000)));
        assert_eq!(tree.flush().unwrap(), 0);
        assert_eq!(tree.change(next.clone(), &program.programs()).unwrap(), [], "nothing differs");
        // Without SFQ in the kernel these are more notifications than the socket of a watch takes.
        let mut watch = Watch::new(&tree).unwrap();
        let small = tree.plan().next(&numbered(&bundles[..3]), &features).unwrap();
        for plan in [small, next].iter().cycle().take(10) {
            tree.change(plan.clone(), &program.programs()).unwrap();
        }
        assert_eq!(watch.events().unwrap(), [], "what we change");

        if steps.len() > 20 {
            // The kernel has no SFQ. The program for these two classes was not loaded.
            let mut two = numbered(&bundles);
            two[1].classes = vec![SFQ, fifo(3)];
            let refused = tree.plan().next(&two, &features).unwrap();
            let kept = tree.plan().clone();
            let error = tree.change(refused, &program.programs()).unwrap_err();
            assert!(matches!(error, Error::NoProgram { classes: 2 }), "{error}");
            assert_eq!(first(&mut tree), before);
            assert_eq!(tree.plan(), &kept);
        }
        tree.remove().unwrap();
    });
}

/// What found no room; where the kernel has AQMs, what they drop later is in this count alone.
#[test]
fn drops_are_counted_by_each_bundle_s_own_queue() {
    if !has_root() {
        return;
    }
    let network = Network::new();
    let far = network.far_socket("10.9.0.2:9");
    network.within(|| {
        // Another device's queues of these names are no business of this one's.
        let other = network.ip("link add other type veth peer name beyond");
        assert_eq!(other, "");
        network.tc("qdisc add dev other root handle 1001: pfifo limit 3");
        let mut tree = install(&[&[fifo(4)], &[fifo(4)]]);
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        socket.send_to(&[0; 100], "10.9.0.2:9").unwrap();
        far.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
        far.recv(&mut [0; 2_000]).unwrap();
        tree.set_rate(0, Some(Rate::from_bps(1_000)));
        tree.flush().unwrap();
        for _ in 0..20 {
            // A full queue is an error here, since the sender is on this machine.
            let _ = socket.send_to(&[0; 1_000], "10.9.0.2:9");
        }
        let mut counts = Vec::new();
        tree.statistics(&mut counts).unwrap();
        let drops: Vec<u64> = tree.queue_counts().unwrap().iter().map(|c| c.drops).collect();
        assert!(drops[0] >= 15, "four wait and one may go at once: {drops:?}");
        assert_eq!(drops, [counts[0].drops, 0]);
        tree.remove().unwrap();
    });
}

/// Lets a socket have this many bytes on their way.
fn set_send_buffer(socket: &UdpSocket, bytes: libc::c_int) {
    let (fd, option) = (socket.as_raw_fd(), libc::SO_SNDBUFFORCE);
    // SAFETY: the option's value is an int that lives through the call.
    let done =
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const bytes).cast(), 4) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// A hundred changes a second while packets wait: none is lost, and no change lets packets out at
/// once. The test ends by a count of packets. A change takes effect between two readings of the
/// clock, and the higher rate counts for the time between them.
#[test]
fn changes_of_rate_lose_nothing_and_give_no_credit() {
    if !has_root() {
        return;
    }
    const FRAMES: u32 = 3_000;
    /// The last frames pass without changes, so that the queue is never empty during one.
    const LAST: u64 = 300;
    let network = Network::new();
    let far = network.far_socket("10.9.0.2:9");
    network.within(|| {
        let mut tree = install(&[&[fifo(FRAMES)]]);
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        socket.send_to(&[0; 100], "10.9.0.2:9").unwrap();
        far.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
        far.recv(&mut [0; 2_000]).unwrap();
        let begin = first(&mut tree);
        let [low, high] = [10, 30].map(Rate::from_mbps);
        tree.set_rate(0, Some(low));
        tree.flush().unwrap();
        set_send_buffer(&socket, 64 << 20);
        for _ in 0..FRAMES {
            socket.send_to(&[0; 1_458], "10.9.0.2:9").unwrap();
        }

        let mut since = Instant::now();
        let start = first(&mut tree);
        let mut allowed = 0.0;
        let bytes = |rate: Rate, time: Duration| rate.as_bytes_per_sec_f64() * time.as_secs_f64();
        let mut changes = 0;
        let end = loop {
            let (old, new) = if changes % 2 == 0 { (low, high) } else { (high, low) };
            let before = Instant::now();
            tree.set_rate(0, Some(new));
            tree.flush().unwrap();
            let after = Instant::now();
            allowed += bytes(old, before - since) + bytes(high, after - before);
            changes += 1;
            std::thread::sleep(Duration::from_millis(10));
            let now = first(&mut tree);
            since = Instant::now();
            allowed += bytes(new, since - after);
            if now.queued < LAST {
                break now;
            }
            assert!(changes < 3_000, "changes hold packets back: {now:?}");
        };
        assert!(changes > 50, "{changes} changes while packets waited");
        let sent = (end.sent.0 - start.sent.0) as f64;
        // Credit for a refilled burst at every change would be 250 us each time, a fortieth; one
        // such burst and a frame may be there by right.
        assert!(sent < allowed * 1.005 + 3_000.0, "{sent} of {allowed} in {changes} changes");

        tree.set_rate(0, None);
        tree.flush().unwrap();
        until(|| first(&mut tree).queued == 0);
        let end = first(&mut tree);
        assert_eq!((end.packets - begin.packets, end.drops), (FRAMES.into(), 0));
        tree.remove().unwrap();
    });
}

/// A greedy flow beside a modest one: each has its own queue.
#[test]
fn flows_share_where_the_kernel_has_no_fair_queue() {
    if !has_root() {
        return;
    }
    if Features::probe().unwrap().kinds().any(|kind| kind == "sfq") {
        skip(Need::Kernel, "this kernel has SFQ, and the test is for those without");
        return;
    }
    /// Of 32 flows in 256 leaves by hash alone, one would share the greedy one's in every eighth
    /// run, and some two in nearly each.
    const MODEST: u16 = 32;
    const GREEDY: usize = 60;
    let total = GREEDY + usize::from(MODEST);
    let network = Network::new();
    let far = network.far_socket("10.9.0.2:9");
    far.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
    network.within(|| {
        let mut tree = install(&[&[SFQ]]);
        let greedy = UdpSocket::bind("10.9.0.1:1000").unwrap();
        greedy.send_to(&[0; 100], "10.9.0.2:9").unwrap();
        let mut received = [0; 2_000];
        far.recv(&mut received).unwrap();
        // A frame in 120 ms, until all wait.
        tree.set_rate(0, Some(Rate::from_bps(100_000)));
        tree.flush().unwrap();
        for _ in 0..GREEDY {
            greedy.send_to(&[1; 1_458], "10.9.0.2:9").unwrap();
        }
        // None of these flows shares the greedy one's queue, whatever their hashes.
        let modest: Vec<UdpSocket> =
            (1..=MODEST).map(|p| UdpSocket::bind(("10.9.0.1", 2_000 + p)).unwrap()).collect();
        for socket in &modest {
            socket.send_to(&[2; 1_458], "10.9.0.2:9").unwrap();
        }
        tree.set_rate(0, Some(Rate::from_mbps(10)));
        tree.flush().unwrap();
        let order: Vec<u8> =
            (0..total).map(|_| far.recv(&mut received).map(|_| received[0]).unwrap()).collect();
        // A round, and what had left before they came.
        let late = order[total - 20..].iter().filter(|mark| **mark == 2).count();
        assert_eq!(late, 0, "{order:?}");
        tree.remove().unwrap();
    });
}

#[test]
fn foreign_queues_are_refused_or_put_back() {
    if !has_root() {
        return;
    }
    let network = Network::new();
    for command in [
        "qdisc add dev wan root handle 1: htb default 20",
        "class add dev wan parent 1: classid 1:1 htb rate 90mbit burst 15k",
        "class add dev wan parent 1:1 classid 1:10 htb rate 30mbit ceil 90mbit prio 1",
        "class add dev wan parent 1:1 classid 1:20 htb rate 60mbit ceil 5gbit prio 2",
        "qdisc add dev wan parent 1:20 handle 20: tbf rate 50mbit burst 20k latency 30ms",
    ] {
        network.tc(command);
    }
    let state = || {
        let text = network.tc("qdisc show") + &network.tc("class show dev wan");
        // HTB counts here what passed it before it had a class.
        let words = text.split(' ').scan("", |last, word| {
            let counter = std::mem::replace(last, word) == "direct_packets_stat";
            Some(if counter { "" } else { word })
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let before = state();
    network.within(|| {
        let program = ByAddress::load();
        let device = || Device::find(WAN).unwrap();
        let install =
            |foreign| Tree::install(device(), plan(&[&[fifo(9)]]), &program.programs(), foreign);
        let refused = install(Foreign::Refuse).unwrap_err().to_string();
        assert!(
            refused.starts_with("`wan` already has queues of another owner (htb 1:)"),
            "{refused}"
        );
        assert_eq!(state(), before);
        let (tree, _) = install(Foreign::Replace).unwrap();
        // Killed, and started again.
        drop(tree);
        let (tree, _) = install(Foreign::Refuse).unwrap();
        assert_eq!(found().root(), Root::Ours);
        tree.remove().unwrap();
    });
    assert_eq!(state(), before);
}

#[test]
fn foreign_filters_cannot_be_put_back() {
    if !has_root() {
        return;
    }
    let network = Network::new();
    network.tc("qdisc add dev wan root handle 1: htb default 20");
    network.within(|| {
        let program = ByAddress::load();
        let file = std::env::temp_dir().join(format!("fb-tc-{}", std::process::id()));
        std::fs::write(&file, "1,6 0 0 4294967295,").unwrap();
        network.tc(&format!("filter add dev wan parent 1: bpf bytecode-file {}", file.display()));
        std::fs::remove_file(&file).unwrap();
        let device = Device::find(WAN).unwrap();
        let result = Tree::install(device, plan(&[]), &program.programs(), Foreign::Replace);
        assert!(matches!(result, Err(Error::ForeignFilters { .. })), "{result:?}");
    });
    assert!(network.tc("qdisc show dev wan").contains("htb 1:"));
}

#[test]
fn what_others_do_is_noticed_and_mended() {
    if !has_root() {
        return;
    }
    let network = Network::new();
    network.within(|| {
        let program = ByAddress::load();
        let bundles: &[&[Discipline]] = &[&[fifo(9)], &[fifo(9)]];
        let mut tree = install(bundles);
        let mut watch = Watch::new(&tree).unwrap();
        for rate in 1..50 {
            tree.set_rate(0, Some(Rate::from_mbps(rate)));
            tree.flush().unwrap();
        }
        assert_eq!(watch.events().unwrap(), [], "rates that we set");
        let mended = |tree: &mut Tree, watch: &mut Watch| {
            assert_eq!(watch.events().unwrap(), [Event::Damaged]);
            tree.rebuild(&program.programs()).unwrap();
            assert_eq!(beside_filters(steps(&found(), &plan(bundles))), []);
            assert_eq!(watch.events().unwrap(), [], "what we mend");
        };
        network.tc("class del dev wan classid fb0:2");
        tree.set_rate(1, Some(Rate::from_mbps(1)));
        let error = tree.flush().unwrap_err();
        assert!(matches!(error, Error::Refused { errno: libc::ENOENT, .. }), "{error}");
        mended(&mut tree, &mut watch);
        network.tc("qdisc del dev wan root");
        mended(&mut tree, &mut watch);
        network.tc("filter del dev wan parent fb0:");
        mended(&mut tree, &mut watch);
        network.ip("link set wan down");
        network.ip("link set wan up");
        assert_eq!(watch.events().unwrap(), [Event::Down, Event::Up]);
        assert_eq!(beside_filters(steps(&found(), &plan(bundles))), [], "the tree stays");
        network.tc("qdisc replace dev wan root handle 7: htb");
        assert_eq!(watch.events().unwrap(), [Event::Damaged]);
        let error = tree.rebuild(&program.programs()).unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error}");
        tree.remove().unwrap();
        assert!(matches!(found().root(), Root::Foreign { .. }), "not ours to take away");
        network.ip("link del wan");
        assert!(watch.events().unwrap().contains(&Event::Gone));
    });
}

#[test]
fn a_missing_device_and_a_failed_start_leave_nothing() {
    if !has_root() {
        return;
    }
    let network = Network::new();
    network.within(|| {
        let error = Device::find("nowhere").unwrap_err().to_string();
        assert_eq!(error, "there is no network interface `nowhere` (`ip link` lists them)");
        // Something that is no program of a classifier.
        let file = std::fs::File::open("/dev/null").unwrap();
        let programs = forebay_tc::Programs { bundles: std::os::fd::AsFd::as_fd(&file) };
        let device = Device::find(WAN).unwrap();
        let result = Tree::install(device, plan(&[&[SFQ]]), &programs, Foreign::Refuse);
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with("wan: make filter of fb0:"), "{error}");
        assert_eq!(found().root(), Root::Default);
    });
}
