//! Reads untrusted flow records. The first byte chooses a capture, a file of messages, or datagrams
//! that each follow their length in two octets. The resulting demands are finite and form
//! a valid file.
#![no_main]

use std::net::IpAddr;

use forebay_plan::estimate;
use forebay_plan::flows::capture::Capture;
use forebay_plan::flows::time::Window;
use forebay_plan::flows::{Collector, Grain, Reason, report};
use forebay_plan::input;
use forebay_plan::topology::{Router, Topology};
use libfuzzer_sys::fuzz_target;

const EXPORTER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    if kind % 4 == 0 {
        return capture(rest);
    }
    let routers = ["A", "B"].map(|n| Router { name: n.to_owned(), serves: true }).to_vec();
    let topology = Topology::new(String::new(), routers, Vec::new(), Vec::new());
    let text = "[[provider]]\nname = \"x\"\nentry = [{ router = \"A\" }]\n";
    let providers = input::providers("p".as_ref(), text, &topology).expect("a good file").providers;
    let text = "prefix,router\n0.0.0.0/0,A\n198.51.100.0/24,B\n::/0,B\n";
    let prefixes = input::prefixes("x".as_ref(), text, &topology).expect("a good file");
    let text = "[[exporter]]\naddress = \"192.0.2.1\"\n\
                interface = [{ index = 0, provider = \"x\" }, { index = 3, provider = \"x\" }]\n";
    let table = input::exporters("e".as_ref(), text, &providers, &topology).expect("a good file");
    let mut collector = Collector::new(table, &prefixes, Grain::Prefix);
    let window = Window { begin: 0, end: 200_000 };
    collector.begin(0, 50_000, 4);
    if kind % 4 == 3 {
        collector.file(EXPORTER, rest, &mut |trouble| {
            assert!(trouble.at < rest.len() && !trouble.what.is_empty());
        });
    }
    let mut left = if kind % 4 == 3 { &[][..] } else { rest };
    while let Some((length, more)) = left.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length)).min(more.len());
        let (datagram, more) = more.split_at(length);
        collector.datagram(EXPORTER, datagram, 100_000, &mut |trouble| {
            assert!(trouble.at < datagram.len() && !trouble.what.is_empty());
        });
        left = more;
    }
    assert!((0.0..=1.0).contains(&collector.lost(0)));
    for reason in Reason::ALL {
        assert!(collector.counted(reason).octets.is_finite());
    }
    let measured = collector.demands(window);
    assert!(measured.iter().all(|m| m.rate.is_finite() && m.rate >= 0.0 && m.error.is_finite()));
    let demands = report::demands(&measured);
    let text = estimate::csv_of(&demands, &providers, &topology);
    let read = input::demands_csv("d".as_ref(), &text, &providers, &topology);
    assert_eq!(read.expect("what is written is read"), demands);
});

fn capture(file: &[u8]) {
    let Ok(mut capture) = Capture::new(file) else { return };
    let mut last = 0;
    while let Ok(Some(datagram)) = capture.next_datagram() {
        assert!(datagram.place > last && datagram.place + datagram.octets.len() <= file.len());
        assert_eq!(&file[datagram.place..][..datagram.octets.len()], datagram.octets);
        last = datagram.place;
    }
}
