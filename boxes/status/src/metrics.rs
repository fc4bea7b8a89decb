//! The metrics of boxes. Units are base units: seconds, bytes, ratios.

use forebay_metrics::Kind::{Counter, Gauge};
use forebay_metrics::{Families, Kind, Sample, sample};
use forebay_records::{ReceiveStatus, SendStatus, Status, Wait};

use crate::Answer;

/// The modes of a bundle, in the words of [`SendStatus::mode`].
const MODES: [&str; 4] = ["open", "delay control", "pass-through", "rate control"];

/// A metric of all bundles: its kind, name and help, and its value for a bundle.
type Metric<T> = (Kind, &'static str, &'static str, fn(&T) -> Option<f64>);

const SEND: [Metric<SendStatus>; 17] = [
    (Gauge, "send_trouble", "1 if something is wrong between the boxes.", |b| {
        Some(f64::from(u8::from(b.trouble.is_some())))
    }),
    (Gauge, "send_mode_age_seconds", "Time since the mode began.", |b| Some(b.mode_s)),
    (Gauge, "send_limit_bytes_per_second", "Rate limit; absent without one.", |b| {
        bytes(b.rate_bps)
    }),
    (Gauge, "send_rate_bytes_per_second", "Rate at which the bundle leaves.", |b| {
        bytes(b.send_bps)
    }),
    (Gauge, "send_arrival_rate_bytes_per_second", "Rate at which the bundle arrives.", |b| {
        bytes(b.receive_bps)
    }),
    (Gauge, "send_loss_ratio", "Share of packets lost on the path, 0 to 1.", |b| b.loss),
    (Gauge, "send_round_trip_seconds", "Round-trip time.", |b| seconds(b.rtt_ms)),
    (Gauge, "send_round_trip_minimum_seconds", "Minimum round-trip time.", |b| {
        seconds(b.min_rtt_ms)
    }),
    (
        Gauge,
        "send_wait_network_seconds",
        "Wait in the network: round trip above its minimum.",
        |b| seconds(b.wait_network_ms),
    ),
    (Gauge, "send_wait_box_seconds", "Wait in the box at the present rate.", |b| {
        seconds(b.wait_here_ms)
    }),
    (Gauge, "send_backlog_bytes", "Bytes that wait in the box.", |b| Some(b.backlog_bytes as f64)),
    (Counter, "send_packets", "Packets that left the box.", |b| Some(b.packets as f64)),
    (Counter, "send_bytes", "Bytes of IP packets that left the box.", |b| Some(b.bytes as f64)),
    (Counter, "send_dropped_packets", "Packets that the box's queue dropped.", |b| {
        b.dropped.map(|n| n as f64)
    }),
    (Counter, "send_marked_packets", "Packets that the box's queue marked.", |b| {
        b.marked.map(|n| n as f64)
    }),
    (Counter, "send_measurements", "Feedback messages that gave a measurement.", |b| {
        Some(b.measurements as f64)
    }),
    (Counter, "send_refused_messages", "Messages of the receivebox that were refused.", |b| {
        Some(b.refused as f64)
    }),
];

const RECEIVE: [Metric<ReceiveStatus>; 6] = [
    (Gauge, "receive_trouble", "1 if something is wrong between the boxes.", |b| {
        Some(f64::from(u8::from(b.trouble.is_some())))
    }),
    (Gauge, "receive_heard_age_seconds", "Time since the last message of the sendbox.", |b| {
        b.heard_s
    }),
    (Counter, "receive_packets", "Packets that arrived.", |b| Some(b.packets as f64)),
    (Counter, "receive_bytes", "Bytes of IP packets that arrived.", |b| Some(b.bytes as f64)),
    (Counter, "receive_refused_messages", "Messages of the sendbox that were refused.", |b| {
        Some(b.refused as f64)
    }),
    (Counter, "receive_unanswered_packets", "Boundary packets without feedback.", |b| {
        Some(b.unanswered as f64)
    }),
];

fn bytes(bits: Option<u64>) -> Option<f64> {
    bits.map(|bits| bits as f64 / 8.0)
}

fn seconds(milliseconds: Option<f64>) -> Option<f64> {
    milliseconds.map(|ms| ms / 1e3)
}

/// Returns the metrics of all boxes as text.
pub(crate) fn text(answers: &[Answer]) -> String {
    let mut families = Families::new("forebay");
    let all: Vec<&Status> = answers.iter().filter_map(|a| a.status.as_ref().ok()).collect();
    let up = answers.iter().map(|answer| {
        let process = answer.process.to_string();
        sample(&[("process", &process)], f64::from(u8::from(answer.status.is_ok())))
    });
    families.add(Gauge, "up", "Whether the box of a process answered.", up);
    let uptime = all.iter().map(|s| {
        let (process, interface) = (s.process.to_string(), s.interfaces.join(","));
        let labels = [("process", process.as_str()), ("role", &s.role), ("interface", &interface)];
        sample(&labels, s.up_s)
    });
    families.add(Gauge, "uptime_seconds", "Time since the start of the box.", uptime);
    let unknown = all.iter().flat_map(|s| {
        let interface = s.interfaces.first().map_or("", String::as_str);
        let ways = [("left", s.not_understood.left), ("arrived", s.not_understood.arrived)];
        ways.map(|(way, frames)| {
            sample(&[("interface", interface), ("direction", way)], frames as f64)
        })
    });
    let help = "Frames in which no IP packet was found.";
    families.add(Counter, "not_understood_frames", help, unknown);
    let between = all.iter().filter_map(|s| {
        let interface = s.interfaces.first().map_or("", String::as_str);
        Some(sample(&[("interface", interface)], s.hand_over_drops? as f64))
    });
    let help = "Packets dropped between the threads of a sendbox.";
    families.add(Counter, "hand_over_dropped_packets", help, between);
    let modes = bundles(&all, |s| &s.sends).flat_map(|(interface, bundle)| {
        MODES.map(|mode| {
            let is = f64::from(u8::from(bundle.mode == mode));
            sample(&[("interface", &interface), ("bundle", &bundle.name), ("mode", mode)], is)
        })
    });
    families.add(Gauge, "send_mode", "1 for the present mode of the bundle.", modes);
    for (kind, name, help, value) in SEND {
        let series = bundles(&all, |s| &s.sends).filter_map(|(interface, bundle)| {
            value(bundle).map(|value| of(&interface, &bundle.name, value))
        });
        families.add(kind, name, help, series);
    }
    let help = "Packets that left the box, by the transfer that they belong to.";
    families.add(Counter, "send_waited_packets", help, waits(&all, |w| w.packets as f64));
    let help = "Sum of their waits in the box.";
    families.add(Counter, "send_waited_seconds", help, waits(&all, |w| w.waited_ms / 1e3));
    for (kind, name, help, value) in RECEIVE {
        let series = bundles(&all, |s| &s.receives).filter_map(|(interface, bundle)| {
            value(bundle).map(|value| of(&interface, &bundle.name, value))
        });
        families.add(kind, name, help, series);
    }
    families.text()
}

/// Returns a figure of the waits of small and of large transfers, of bundles that tell them.
fn waits<'a>(
    all: &'a [&'a Status],
    value: impl Fn(&Wait) -> f64 + Copy,
) -> impl Iterator<Item = Sample> {
    bundles(all, |s| &s.sends).flat_map(move |(interface, bundle)| {
        let waits = bundle.waits.iter().flat_map(|w| [("small", &w.small), ("large", &w.large)]);
        waits
            .map(|(transfer, wait)| {
                let bundle = ("bundle", bundle.name.as_str());
                sample(&[("interface", &interface), bundle, ("transfer", transfer)], value(wait))
            })
            .collect::<Vec<_>>()
    })
}

fn of(interface: &str, bundle: &str, value: f64) -> Sample {
    sample(&[("interface", interface), ("bundle", bundle)], value)
}

/// Returns all bundles with the outer interface of their box.
fn bundles<'a, T: 'a>(
    all: &'a [&'a Status],
    list: fn(&Status) -> &Vec<T>,
) -> impl Iterator<Item = (String, &'a T)> {
    all.iter().flat_map(move |status| {
        let interface = status.interfaces.first().cloned().unwrap_or_default();
        list(status).iter().map(move |bundle| (interface.clone(), bundle))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::{fs, io};

    use forebay_records::{NotUnderstood, STATUS_VERSION, WaitsHere};

    use super::*;

    fn site() -> Status {
        Status {
            version: STATUS_VERSION,
            role: "site".to_owned(),
            process: 7,
            run: 1,
            up_s: 61.5,
            interfaces: vec!["wan0".to_owned()],
            not_understood: NotUnderstood { left: 3, arrived: 4 },
            hand_over_drops: Some(5),
            strangers: 0,
            sends: vec![SendStatus {
                name: "branch \"a\"".to_owned(),
                key_fingerprint: None,
                receivebox: "192.0.2.1:28316".parse().ok(),
                moves: 0,
                mode: "pass-through".to_owned(),
                mode_s: 2.0,
                reason: None,
                reason_kind: None,
                phase: None,
                trouble: None,
                rate_bps: Some(24_000_000),
                send_bps: None,
                receive_bps: None,
                loss: Some(0.25),
                rtt_ms: Some(52.0),
                min_rtt_ms: Some(50.0),
                min_rtt_age_s: Some(3.2),
                rtt_range_ms: None,
                backlog_bytes: 3_000,
                wait_here_ms: None,
                wait_network_ms: Some(2.0),
                packets: 9,
                bytes: 9_000,
                dropped: Some(3),
                marked: None,
                waits: Some(WaitsHere {
                    large: Wait { packets: 8, waited_ms: 250.0, ..Wait::default() },
                    ..WaitsHere::default()
                }),
                refused: 0,
                measurements: 5,
                unmatched: 0,
                decided: 0,
                decisions: Vec::new(),
            }],
            receives: vec![ReceiveStatus {
                name: "branch".to_owned(),
                key_fingerprint: None,
                sendbox: "192.0.2.1:28316".parse().ok(),
                moves: 0,
                trouble: Some("no message".to_owned()),
                heard_s: None,
                packets: 12,
                bytes: 3_400,
                refused: 1,
                unanswered: 2,
            }],
        }
    }

    #[test]
    fn metrics_have_base_units_and_absent_values_have_no_series() {
        let hangs = Err(io::Error::other("it does not answer"));
        let answers =
            [Answer { process: 7, status: Ok(site()) }, Answer { process: 8, status: hangs }];
        let text = text(&answers);
        for line in [
            "# TYPE forebay_up gauge",
            "forebay_up{process=\"7\"} 1",
            "forebay_up{process=\"8\"} 0",
            "forebay_not_understood_frames_total{interface=\"wan0\",direction=\"left\"} 3",
            "forebay_not_understood_frames_total{interface=\"wan0\",direction=\"arrived\"} 4",
            "forebay_hand_over_dropped_packets_total{interface=\"wan0\"} 5",
            "forebay_uptime_seconds{process=\"7\",role=\"site\",interface=\"wan0\"} 61.5",
            "forebay_send_mode{interface=\"wan0\",bundle=\"branch \\\"a\\\"\",mode=\"pass-through\"} 1",
            "forebay_send_limit_bytes_per_second{interface=\"wan0\",bundle=\"branch \\\"a\\\"\"} 3000000",
            "forebay_send_wait_network_seconds{interface=\"wan0\",bundle=\"branch \\\"a\\\"\"} 0.002",
            "forebay_send_dropped_packets_total{interface=\"wan0\",bundle=\"branch \\\"a\\\"\"} 3",
            "forebay_send_waited_seconds_total{interface=\"wan0\",bundle=\"branch \\\"a\\\"\",transfer=\"large\"} 0.25",
            "forebay_send_waited_packets_total{interface=\"wan0\",bundle=\"branch \\\"a\\\"\",transfer=\"small\"} 0",
            "# TYPE forebay_receive_bytes_total counter",
            "forebay_receive_bytes_total{interface=\"wan0\",bundle=\"branch\"} 3400",
            "forebay_receive_trouble{interface=\"wan0\",bundle=\"branch\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        for absent in ["forebay_receive_heard_age_seconds{", "forebay_send_marked_packets_total{"] {
            assert!(!text.contains(absent), "{text}");
        }
    }
    /// Returns the names of metrics of boxes that a text has.
    fn names(text: &str) -> BTreeSet<&str> {
        let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        let of_boxes = |word: &&str| {
            word.starts_with("forebay_")
                && !word.starts_with("forebay_plan_")
                && !word.ends_with('_')
        };
        words.filter(of_boxes).collect()
    }

    #[test]
    fn the_dashboard_and_the_book_have_every_metric_and_rules_have_no_other() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let file = |name: &str| fs::read_to_string(root.join(name)).unwrap();
        let text = text(&[]);
        let all = names(&text);
        assert!(all.contains("forebay_send_bytes_total"), "{all:?}");
        for name in ["contrib/grafana/forebay.json", "docs/src/status.md"] {
            assert_eq!(names(&file(name)), all, "{name}");
        }
        let rules = file("contrib/prometheus/forebay.rules.yml");
        assert_eq!(names(&rules).difference(&all).collect::<Vec<_>>(), [&""; 0]);
    }
}
