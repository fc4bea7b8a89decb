use super::*;

const HERE: &[&str] = &["htb", "pfifo", "bfifo"];
const STOCK: &[&str] = &["htb", "pfifo", "bfifo", "sfq", "fq_codel"];

const SFQ: Discipline = Discipline::Sfq { limit: 1_250, perturb: None };
const FIFO: Discipline = Discipline::Fifo { limit: FifoLimit::Packets(1_250) };
const CODEL: Discipline =
    Discipline::FqCodel { limit: 1_000, target: None, interval: None, ecn: true };

fn plan(bundles: &[&[Discipline]], kinds: &[&'static str]) -> Result<Plan, Error> {
    let bundles: Vec<BundleQueues> = bundles
        .iter()
        .enumerate()
        .map(|(number, classes)| BundleQueues {
            number,
            name: format!("b{number}"),
            classes: classes.to_vec(),
            shares: Vec::new(),
            share: Share::default(),
        })
        .collect();
    Plan::new(&bundles, &Features::of(kinds))
}

fn class(id: Handle, shape: Shape, urgency: u32) -> Object {
    let (parent, quantum) = (id.qdisc(), Bytes(3_028));
    let burst = Nanos::from_micros(250);
    Object::Class(Class { id, parent, shape, assured: None, urgency, quantum, burst })
}

#[test]
fn a_discipline_of_the_kernel_s_is_the_bundle_s_queue() {
    let plan = plan(&[&[FIFO], &[CODEL]], STOCK).unwrap();
    let shaped = |i| class(Handle::new(0xfb0, i), Shape::Bundle, 0);
    let queue = |major, minor, kind| {
        qdisc(Some(Handle::new(major, 0)), Handle::new(0xfb0, minor), QdiscKind::Queue(kind))
    };
    let expected = vec![
        qdisc(Some(Handle::new(0xfb0, 0)), Handle::ROOT, QdiscKind::Htb),
        shaped(1),
        shaped(2),
        queue(0x1000, 1, FIFO),
        queue(0x1001, 2, CODEL),
        Object::Filter(Filter { parent: Handle::new(0xfb0, 0), program: Program::Bundles }),
    ];
    assert_eq!(plan.objects, expected);
}

#[test]
fn classes_by_flow_stand_in_for_sfq() {
    let plan = plan(&[&[SFQ]], HERE).unwrap();
    // Root, bundle, its HTB, 256 leaves with a queue each, two filters.
    assert_eq!(plan.objects.len(), 3 + 2 * 256 + 2);
    let leaf = Discipline::Fifo { limit: FifoLimit::Packets(208) };
    let last = Handle::new(0x1000, 256);
    let pair = [class(last, Shape::Unlimited, 0), qdisc(None, last, QdiscKind::Queue(leaf))];
    assert_eq!(plan.objects[3 + 510..3 + 512], pair);
    let program = Program::Leaves { classes: 1, masks: 255 };
    let filter = Object::Filter(Filter { parent: Handle::new(0x1000, 0), program });
    assert_eq!(plan.objects[3 + 512], filter);
}

#[test]
fn strict_priority_is_an_htb_s() {
    let plan = plan(&[&[FIFO, SFQ, CODEL]], &["htb", "pfifo", "fq_codel"]).unwrap();
    let program = Program::Leaves { classes: 3, masks: 0x00ff00 };
    let queue = Handle::new(0x1000, 0);
    assert!(plan.objects.contains(&Object::Filter(Filter { parent: queue, program })));
    for (urgency, minor) in [(0, 1), (1, 257), (1, 512), (2, 513)] {
        let class = class(Handle::new(0x1000, minor), Shape::Unlimited, urgency);
        assert!(plan.objects.contains(&class), "{class:?}");
    }
    let codel = qdisc(None, Handle::new(0x1000, 513), QdiscKind::Queue(CODEL));
    assert!(plan.objects.contains(&codel));
}

#[test]
fn a_thousand_bundles_share_the_leaves() {
    let all = vec![&[SFQ][..]; 1_000];
    let plan = plan(&all, HERE).unwrap();
    let leaves =
        plan.objects.iter().filter(|o| matches!(o, Object::Qdisc(q) if q.handle.is_none()));
    assert_eq!(leaves.count(), 16_000);
    let of_all = [64, 65, 16_384, 0].map(|bundles| flows(bundles, bundles));
    assert_eq!(of_all, [256, 128, 1, 256]);
    assert_eq!((flows(1, 512), flows(1, 513), flows(1, 16_384)), (256, 128, 8), "one of many");
}

#[test]
fn a_running_tree_grows_within_its_room_and_keeps_its_leaves() {
    let bundle = |number, discipline| BundleQueues {
        number,
        name: format!("b{number}"),
        classes: vec![discipline],
        shares: Vec::new(),
        share: Share::default(),
    };
    let features = Features::of(HERE);
    let first = Plan::new(&[bundle(0, SFQ), bundle(1, FIFO)], &features).unwrap();
    let next = |bundles: &[BundleQueues]| first.next(bundles, &features);
    let other = next(&[bundle(63, FIFO), bundle(1, FIFO)]).unwrap();
    assert_eq!(other.bundles.keys().copied().collect::<Vec<_>>(), [1, 63]);
    let kept = first.objects.iter().filter(|o| other.objects.contains(o)).count();
    // The root, its filter, and the class of the bundle that stays with its queue.
    assert_eq!(kept, 4);
    assert!(matches!(next(&[bundle(64, FIFO)]), Err(Error::NoRoom)));
    let many: Vec<_> = (0..64).map(|number| bundle(number, SFQ)).collect();
    assert_eq!(next(&many).unwrap().objects.len(), 2 + 64 * (3 + 2 * 256));
    // Each with two classes has more leaves than the kernel has names for.
    let twice: Vec<_> =
        many.into_iter().map(|b| BundleQueues { classes: vec![SFQ, SFQ], ..b }).collect();
    assert!(matches!(next(&twice), Err(Error::NoRoom)));
    let programs: Vec<_> = later_programs(&first).collect();
    assert_eq!(programs.len(), 8);
    assert_eq!(programs.last(), Some(&Program::Leaves { classes: 1, masks: 255 }));
    let stock = Plan::new(&[bundle(0, SFQ)], &Features::of(STOCK)).unwrap();
    assert_eq!(later_programs(&stock).count(), 7);
}

#[test]
fn what_there_is_not_is_said() {
    let said = |bundles: &[&[Discipline]], kinds: &[&'static str]| {
        plan(bundles, kinds).unwrap_err().to_string()
    };
    let line = said(&[&[CODEL]], HERE);
    assert!(line.starts_with("this kernel has no queueing discipline fq_codel: "), "{line}");
    assert!(line.contains("modprobe sch_fq_codel"), "{line}");
    assert!(said(&[&[FIFO]], &["pfifo"]).contains("discipline htb"));
    assert!(said(&[&[FIFO; 9]], STOCK).contains("9 classes"));
    assert!(said(&vec![&[FIFO][..]; 16_385], STOCK).contains("at most 16384"));
}

/// By hand: 3 of 100 Mbit/s are guaranteed to the second bundle, 97 are left for weights 1, 4, 5.
#[test]
fn bundles_have_their_parts_of_a_common_limit() {
    let bundle = |number, weight, rate: Option<u64>| BundleQueues {
        number,
        name: format!("b{number}"),
        classes: vec![FIFO],
        shares: Vec::new(),
        share: Share { weight, rate: rate.map(Rate::from_mbps), ceil: None },
    };
    let bundles = [bundle(0, 2, None), bundle(1, 8, Some(3)), bundle(2, 10, None)];
    let limit = Rate::from_mbps(100);
    let plan = Plan::limited(&bundles, Some(limit), &Features::of(HERE)).unwrap();
    let expected = "\
qdisc fb0: htb
  filter bpf: by the longest prefix of the destination
  class fb0:ffff: all bundles, at most 100.000 Mbit/s
  class fb0:1: bundle b0, at the rate of its control loop, 9.700 Mbit/s assured
    qdisc 1000: pfifo limit 1250 packets
  class fb0:2: bundle b1, at the rate of its control loop, 41.800 Mbit/s assured
    qdisc 1001: pfifo limit 1250 packets
  class fb0:3: bundle b2, at the rate of its control loop, 48.500 Mbit/s assured
    qdisc 1002: pfifo limit 1250 packets
  direct: everything else, unshaped
";
    assert_eq!(plan.to_string(), expected);
    let quanta = plan.objects.iter().filter_map(|object| match object {
        Object::Class(class) => class.assured.map(|_| class.quantum.0),
        _ => None,
    });
    assert_eq!(quanta.collect::<Vec<_>>(), [65_536, 262_144, 327_680]);
    // A plan that follows keeps the limit.
    let next = plan.next(&bundles[..1], &Features::of(HERE)).unwrap();
    assert_eq!(next.limit(), Some(limit));
}

/// The second class has twice the others' turns, and never more than 2 Mbit/s. The guarantee of the
/// first one is part of its rate, which is not in the plan.
#[test]
fn weighted_classes_borrow_from_one_class_of_their_bundle() {
    let class = |weight, rate: Option<u64>, ceil: Option<u64>| Share {
        weight,
        rate: rate.map(Rate::from_mbps),
        ceil: ceil.map(Rate::from_mbps),
    };
    let bundle = BundleQueues {
        number: 0,
        name: "oslo".to_owned(),
        classes: vec![FIFO, FIFO, FIFO],
        shares: vec![class(1, Some(4), None), class(2, None, Some(2)), class(1, None, None)],
        share: Share::default(),
    };
    let plan = Plan::new(std::slice::from_ref(&bundle), &Features::of(HERE)).unwrap();
    let expected = "\
qdisc fb0: htb
  filter bpf: by the longest prefix of the destination
  class fb0:1: bundle oslo, at the rate of its control loop
    qdisc 1000: htb
      filter bpf: by the packet's class
      class 1000:ffff: all classes, unlimited, urgency 0
      class 1000:1, unlimited, 65536 B in its turn
        qdisc pfifo limit 1250 packets
      class 1000:101, at most 2.000 Mbit/s, 131072 B in its turn
        qdisc pfifo limit 1250 packets
      class 1000:201, unlimited, 65536 B in its turn
        qdisc pfifo limit 1250 packets
  direct: everything else, unshaped
";
    assert_eq!(plan.to_string(), expected);
    // Nothing stands in for SFQ.
    let sfq = BundleQueues { classes: vec![FIFO, SFQ, FIFO], ..bundle };
    let said = Plan::new(&[sfq], &Features::of(HERE)).unwrap_err().to_string();
    assert!(said.starts_with("this kernel has no queueing discipline sfq: "), "{said}");
}
