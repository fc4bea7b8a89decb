use std::io;

use forebay_records::{STATUS_VERSION, Status};
use forebay_status::Answer;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;

use crate::{Action, App};

/// A site with a peer of each kind, at `second`.
fn site(second: u64) -> Status {
    let send = |name: &str, mode: &str, mbps: u64, range: (f64, f64), trouble: Option<&str>| {
        let decisions: Vec<_> = (0..10)
            .map(|back| {
                json!({"number": 10 - back, "ago_s": 7.5 + 100.0 * back as f64, "values": {},
                       "kind": "min_rtt_changed",
                       "text": "minimum RTT 50.123 ms -> 50.000 ms: a smaller sample"})
            })
            .collect();
        json!({
            "name": name, "receivebox": "192.0.2.1:28316", "mode": mode, "mode_s": 83.0,
            "reason": "first measured: RTT 50.3 ms, receive rate 1.7 Mbit/s",
            "reason_kind": "measured", "phase": null, "trouble": trouble,
            "rate_bps": 24_000_000, "send_bps": 23_000_000, "receive_bps": 22_900_000,
            "loss": 0.012, "rtt_ms": 52.0, "min_rtt_ms": 50.0, "rtt_range_ms": range,
            "backlog_bytes": if mbps > 0 { 90_000 } else { 0 },
            "wait_here_ms": if mbps > 0 { 30.0 } else { 0.0 }, "wait_network_ms": 2.0,
            "packets": 0, "bytes": second * mbps * 125_000, "dropped": 1234, "marked": 5,
            "refused": if trouble.is_some() { 17 } else { 0 }, "measurements": 5, "unmatched": 0,
            "decided": 10, "decisions": decisions
        })
    };
    let sends = [
        send("healthy", "delay control", 20, (50.0, 56.0), None),
        send(
            "wrongkey",
            "open",
            20,
            (50.0, 56.0),
            Some(
                "a message was refused: its tag is wrong; \
              do both boxes have the same key?",
            ),
        ),
        send("bursty", "delay control", 9, (50.0, 120.0), None),
        send("elastic", "pass-through", 6, (50.0, 56.0), None),
        send("idle-with-quite-a-long-name", "delay control", 0, (50.0, 56.0), None),
    ];
    let receive = json!({
        "name": "healthy", "sendbox": "192.0.2.1:28316", "trouble": null, "heard_s": 0.5,
        "packets": 10 * second, "bytes": second * 25_000, "refused": 0, "unanswered": 3
    });
    serde_json::from_value(json!({
        "version": STATUS_VERSION, "role": "site", "process": 7, "run": 1, "up_s": second,
        "interfaces": ["wan0"], "sends": sends, "receives": [receive]
    }))
    .unwrap()
}

fn app() -> App {
    let mut app = App::default();
    for second in 0..10 {
        app.take(second as f64, vec![Answer { process: 7, status: Ok(site(second)) }]);
    }
    app
}

fn drawn(app: &App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| app.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned()).collect()
}

#[test]
fn all_kinds_of_peers_fit_80_by_24() {
    let expected = "\
\x20forebay top  1 box, 6 directions, by state  1 in trouble
     peer                state          here ms there ms   limit  Mbit/s    lost
to   wrongkey            trouble           30.0     2.00    24.0    20.0   1.2 %
to   elastic             beside others     30.0     2.00    24.0    6.00   1.2 %
to   bursty              bursty path       30.0     2.00    24.0    9.00   1.2 %
to   healthy             controlled        30.0     2.00    24.0    20.0   1.2 %
from healthy             receiving            -        -       -    0.20       -
to   idle-with-quite-a-l idle              0.00     2.00    24.0    0.00   1.2 %
 to wrongkey, site at wan0 ─────────────────────────────────────────────────────
trouble. A message was refused: its tag is wrong; do both boxes have the same
key?
Open for 1 min 23 s: first measured: RTT 50.3 ms, receive rate 1.7 Mbit/s
Limit 24.0 Mbit/s, sent 23.0, arrived 22.9. Round trip 52.0 ms (least 50.0).
Dropped here 1234, marked 5; refused 17 messages. 90000 bytes wait.
      7.5 s ago  minimum RTT 50.123 ms -> 50.000 ms: a smaller sample
 1 min 47 s ago  minimum RTT 50.123 ms -> 50.000 ms: a smaller sample";
    let lines = drawn(&app(), 80, 24);
    for (line, expected) in lines.iter().zip(expected.lines()) {
        assert_eq!(line, expected, "{lines:#?}");
    }
    assert_eq!(lines[23], " up/down select   s sort   q leave");
}

#[test]
fn keys_select_sort_and_leave() {
    let mut app = app();
    let press = |app: &mut App, code| app.press(KeyEvent::new(code, KeyModifiers::NONE));
    assert_eq!(press(&mut app, KeyCode::Down), Action::Stay);
    assert!(drawn(&app, 80, 24)[8].contains("to elastic"));
    // The selection follows its row when the order changes.
    press(&mut app, KeyCode::Char('s'));
    let lines = drawn(&app, 80, 24);
    assert!(lines[0].contains("by name") && lines[2].starts_with("to   bursty"), "{lines:#?}");
    assert!(lines[8].contains("to elastic"));
    press(&mut app, KeyCode::Char('s'));
    assert!(drawn(&app, 80, 24)[2].contains("20.0"));
    press(&mut app, KeyCode::End);
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Home);
    press(&mut app, KeyCode::Up);
    assert_eq!(app.position(), Some(0));
    for code in [KeyCode::Char('q'), KeyCode::Esc] {
        assert_eq!(press(&mut app, code), Action::Leave);
    }
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.press(control), Action::Leave);
}

#[test]
fn many_rows_scroll_and_leave_room_for_details() {
    let mut many = site(1);
    let one = many.sends.remove(0);
    many.sends = (0..100)
        .map(|n| forebay_records::SendStatus { name: format!("peer {n:03}"), ..one.clone() })
        .collect();
    let mut app = App::default();
    app.take(0.0, vec![Answer { process: 7, status: Ok(many) }]);
    for _ in 0..60 {
        app.press(KeyEvent::new(KeyCode::Down, KeyModifiers::NONE));
    }
    let lines = drawn(&app, 80, 24);
    assert!(lines.iter().any(|line| line.starts_with("to   peer 060")), "{lines:#?}");
    assert!(lines[12].contains("to peer 060, site at wan0"), "{lines:#?}");
    // Small and odd terminals do not end it.
    for (width, height) in [(1, 1), (20, 5), (80, 3), (200, 60)] {
        drawn(&app, width, height);
    }
}

#[test]
fn boxes_that_do_not_answer_are_said() {
    let mut app = app();
    let hangs = Err(io::Error::other("it does not answer: does it hang?"));
    app.take(11.0, vec![Answer { process: 7, status: hangs }]);
    let lines = drawn(&app, 80, 24);
    assert!(lines[0].contains("process 7: it does not answer"), "{lines:#?}");
    assert!(lines[1].contains("No box runs"), "{lines:#?}");
    assert_eq!(app.press(KeyEvent::new(KeyCode::Down, KeyModifiers::NONE)), Action::Stay);
}
