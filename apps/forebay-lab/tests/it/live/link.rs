//! Tests `forebay link` between real senders of the laboratory.

use forebay_lab::analysis::Analysis;
use forebay_lab::results::store;
use forebay_test_support::{Dir, Need, has_root, skip};

use crate::support::lab::lab_run;

const SENDERS: &str = r#"name = "senders"
duration = "2 s"
warmup = "1 s"
path = { rate = "50 Mbit/s", rtt = "10 ms", queue = { kind = "fifo", limit = "500 packets" } }
[[traffic]]
name = "scalable"
kind = "bulk"
congestion = "dctcp"
ecn = "ect1"
[[traffic]]
name = "prague"
kind = "bulk"
transport = "udp"
congestion = "prague"
[[traffic]]
name = "cubic"
kind = "bulk"
[[arm]]
name = "dualpi2"
link = { rate = "20 Mbit/s", policy = "dualpi2", limit = "1000 packets" }
"#;

/// Real scalable senders, DCTCP and Prague over UDP, send ECT(1) data beside Cubic, over both IP
/// versions.
#[test]
fn real_senders_use_both_queues() {
    if !has_root() {
        return;
    }
    for ip in [4, 6] {
        let dir = Dir::new(&format!("link-senders{ip}"));
        let file = dir.file("senders.toml", &format!("ip = {ip}\n{SENDERS}"), 0o644);
        let output = lab_run("netns", &file, dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() && said.contains("no DCTCP here") {
            skip(Need::Kernel, &said);
            return;
        }
        assert!(output.status.success(), "{said}");
        let kept = store::files(&dir.0).unwrap();
        let run = store::load(&kept[0]).unwrap();
        let summary = Analysis::of(&run).summary;
        let none: [String; 0] = [];
        assert_eq!(summary.conservation.violations, none);
        let of = |traffic: &str| summary.goodput_by_traffic_mbps[traffic];
        for traffic in ["scalable", "prague", "cubic"] {
            assert!(of(traffic) > 0.0, "{summary:?}");
        }
        let by = summary.l4s.unwrap();
        let [l, c] = [by.sendbox_l4s_ms, by.sendbox_classic_ms].map(|d| d.unwrap().packets);
        assert!(l > 100 && c > 100, "{l} and {c} packets");
        let hop = summary.hops.iter().find(|hop| hop.hop == "sendbox").unwrap();
        assert!(hop.marked.unwrap() > 0, "{hop:?}");
    }
}
