//! `forebay status`: the state of the boxes that run in this network namespace.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use forebay_cli::terminal::{Failure, fail, print_if_read, print_on_cleared_screen};
use forebay_picture::number::duration;
use forebay_records::{ReceiveStatus, SendStatus, Status, WaitsHere};

use crate::cli::StatusArgs;

/// The time that all boxes have for their answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The width of the text.
const WIDTH: usize = 80;
/// The decisions that are shown of each bundle.
const DECISIONS: usize = 3;

pub(crate) fn status(args: &StatusArgs) -> ExitCode {
    loop {
        let text = match report(args) {
            Ok(text) => text,
            Err(e) => return fail(&e, 1),
        };
        let clears = args.watch && !args.json;
        let print = if clears { print_on_cleared_screen } else { print_if_read };
        // A reader that has ended wants no more.
        match print(&text) {
            Ok(true) if args.watch => {}
            Ok(_) => return ExitCode::SUCCESS,
            Err(e) => return fail(&e, 1),
        }
        thread::sleep(Duration::from_secs(1));
    }
}

/// Serves metrics until the process is ended.
#[cfg(feature = "exporter")]
pub(crate) fn exporter(args: &crate::cli::ExporterArgs) -> ExitCode {
    let stop = match crate::service::stop() {
        Ok(stop) => stop,
        Err(e) => return fail(&e, 1),
    };
    let names = args.host.clone().into();
    match forebay_status::run(args.listen, names, &stop, crate::service::ready) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&format!("cannot listen at {}: {e}", args.listen), 2),
    }
}

fn report(args: &StatusArgs) -> Result<String, Failure> {
    let mut boxes = Vec::new();
    for answer in forebay_status::read(ANSWER_TIMEOUT)? {
        boxes.push(answer.status.map_err(|e| format!("process {}: {e}", answer.process))?);
    }
    boxes.sort_by(|a, b| (&a.role, &a.interfaces).cmp(&(&b.role, &b.interfaces)));
    if let Some(name) = &args.name {
        for status in &mut boxes {
            status.sends.retain(|bundle| bundle.name == *name);
            status.receives.retain(|bundle| bundle.name == *name);
        }
        boxes.retain(|status| !status.sends.is_empty() || !status.receives.is_empty());
        if boxes.is_empty() {
            return Err(format!("no box that runs here has a bundle or peer \"{name}\"").into());
        }
    }
    if args.json {
        return Ok(format!("{}\n", serde_json::json!(boxes)));
    }
    if boxes.is_empty() {
        return Ok("no box runs in this network namespace\n".to_owned());
    }
    let texts: Vec<_> = boxes.iter().map(|status| Text(status).to_string()).collect();
    Ok(texts.join("\n"))
}

/// The state of a box as text of 80 columns.
struct Text<'a>(&'a Status);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { role, process, up_s, interfaces, sends, receives, .. } = self.0;
        let interfaces = interfaces.join(", ");
        writeln!(f, "{role} at {interfaces}, process {process}, up {}", duration(*up_s))?;
        let unknown = self.0.not_understood;
        for (frames, ways) in [(unknown.left, "left"), (unknown.arrived, "arrived")] {
            if frames > 0 {
                wrapped(f, &format!("{frames} frames {ways} in which no IP packet was found"))?;
            }
        }
        if let Some(packets) = self.0.hand_over_drops.filter(|packets| *packets > 0) {
            let text = "packets were dropped since the thread that queues them has too much to do";
            wrapped(f, &format!("{packets} {text}"))?;
        }
        if self.0.strangers > 0 {
            let text = "connections of other users to the box's local sockets were refused";
            wrapped(f, &format!("{} {text}", self.0.strangers))?;
        }
        for bundle in sends {
            send(f, bundle)?;
        }
        for bundle in receives {
            receive(f, bundle)?;
        }
        Ok(())
    }
}

fn send(f: &mut fmt::Formatter<'_>, bundle: &SendStatus) -> fmt::Result {
    let SendStatus { name, receivebox, mode, mode_s, .. } = bundle;
    writeln!(
        f,
        "\n  to {name} ({}): {mode} for {}",
        place(*receivebox, bundle.moves),
        duration(*mode_s)
    )?;
    if let Some(trouble) = &bundle.trouble {
        wrapped(f, &format!("TROUBLE: {trouble}"))?;
    }
    if let Some(reason) = &bundle.reason {
        wrapped(f, &format!("since {reason}"))?;
    }
    let mbps = |rate: Option<u64>, absent: &str| match rate {
        Some(bps) => format!("{:.2}", bps as f64 / 1e6),
        None => absent.to_owned(),
    };
    let mut line = format!(
        "Mbit/s: limit {}, sent {}, received {}",
        mbps(bundle.rate_bps, "none"),
        mbps(bundle.send_bps, "unknown"),
        mbps(bundle.receive_bps, "unknown")
    );
    if let Some(loss) = bundle.loss {
        write!(line, "; lost {:.1} %", loss * 100.0)?;
    }
    wrapped(f, &line)?;
    let mut line = match (bundle.rtt_ms, bundle.min_rtt_ms) {
        (Some(rtt), Some(least)) => format!("round trip {}, at least {}", Ms(rtt), Ms(least)),
        _ => "round trip unknown".to_owned(),
    };
    if let Some(age) = bundle.min_rtt_age_s {
        write!(line, " ({} old)", duration(age))?;
    }
    if let Some(wait) = bundle.wait_network_ms {
        write!(line, "; wait {} in the network", Ms(wait))?;
    }
    let kilobytes = bundle.backlog_bytes as f64 / 1e3;
    match bundle.wait_here_ms {
        Some(wait) => write!(line, ", {} here ({kilobytes:.0} kB)", Ms(wait))?,
        None => write!(line, ", {kilobytes:.0} kB here")?,
    }
    wrapped(f, &line)?;
    if let Some(waits) = &bundle.waits
        && let Some(line) = who_waits(waits)
    {
        wrapped(f, &line)?;
    }
    let dropped = bundle.dropped.map(|n| format!("dropped {n}"));
    let marked = bundle.marked.map(|n| format!("marked {n}"));
    let refused = (bundle.refused > 0).then(|| format!("refused {} messages", bundle.refused));
    let counts: Vec<_> = [dropped, marked, refused].into_iter().flatten().collect();
    if !counts.is_empty() {
        wrapped(f, &format!("since the start, here: {}", counts.join(", ")))?;
    }
    key(f, bundle.key_fingerprint.as_deref())?;
    if let Some(phase) = &bundle.phase {
        wrapped(f, &format!("rate: {phase}"))?;
    }
    for decision in bundle.decisions.iter().take(DECISIONS) {
        wrapped(f, &format!("{} ago: {}", duration(decision.ago_s), decision.text))?;
    }
    Ok(())
}

/// Returns where another box is, in words.
fn place(address: Option<SocketAddr>, moves: u64) -> String {
    match (address, moves) {
        (None, _) => "address not known yet".to_owned(),
        (Some(address), 0) => address.to_string(),
        (Some(address), 1) => format!("{address}, moved once"),
        (Some(address), moves) => format!("{address}, moved {moves} times"),
    }
}

/// Says who waited here in the last second; `None` if nothing left.
fn who_waits(waits: &WaitsHere) -> Option<String> {
    let classes = waits.classes.iter().map(|class| (&class.name[..], &class.wait));
    let all = [("small transfers", &waits.small), ("large ones", &waits.large)];
    let told = all.into_iter().chain(classes);
    let told = told.filter_map(|(name, w)| Some(format!("{name} {}", Ms(w.mean_ms?))));
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| format!("packets that left waited on average: {}", told.join(", ")))
}

fn receive(f: &mut fmt::Formatter<'_>, bundle: &ReceiveStatus) -> fmt::Result {
    let ReceiveStatus { name, sendbox, packets, bytes, .. } = bundle;
    let heard = match bundle.heard_s {
        Some(seconds) => format!("heard {} ago", duration(seconds)),
        None => "not heard yet".to_owned(),
    };
    writeln!(f, "\n  from {name} ({}): {heard}", place(*sendbox, bundle.moves))?;
    if let Some(trouble) = &bundle.trouble {
        wrapped(f, &format!("TROUBLE: {trouble}"))?;
    }
    key(f, bundle.key_fingerprint.as_deref())?;
    wrapped(f, &format!("{packets} packets, {:.1} MB", *bytes as f64 / 1e6))
}

/// Writes the fingerprint of a key, by which people see that both ends have the same one.
fn key(f: &mut fmt::Formatter<'_>, fingerprint: Option<&str>) -> fmt::Result {
    match fingerprint {
        Some(fingerprint) => wrapped(f, &format!("fingerprint of the key: {fingerprint}")),
        None => Ok(()),
    }
}

/// Writes lines of at most [`WIDTH`] columns, indented.
fn wrapped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let mut column = WIDTH;
    for (index, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if column + 1 + length > WIDTH {
            let indent = if index == 0 { "    " } else { "\n      " };
            write!(f, "{indent}{word}")?;
            column = indent.trim_start_matches('\n').len() + length;
        } else {
            write!(f, " {word}")?;
            column += 1 + length;
        }
    }
    writeln!(f)
}

/// A time in milliseconds.
struct Ms(f64);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Paths of a few microseconds exist.
        let places = if self.0 < 1.0 { 3 } else { 1 };
        write!(f, "{:.places$} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use forebay_records::{Decision, NotUnderstood, STATUS_VERSION, Value};

    use super::*;

    fn status() -> Status {
        Status {
            version: STATUS_VERSION,
            role: "site".to_owned(),
            process: 77,
            run: 1,
            up_s: 93_784.0,
            interfaces: vec!["wan0".to_owned()],
            not_understood: NotUnderstood { left: 3, arrived: 4 },
            hand_over_drops: Some(5),
            strangers: 0,
            sends: vec![SendStatus {
                name: "branch".to_owned(),
                key_fingerprint: Some("630d-cd29-66c4-3366".to_owned()),
                receivebox: "192.0.2.1:28316".parse().ok(),
                moves: 0,
                mode: "delay control".to_owned(),
                mode_s: 61.0,
                reason: Some("first measured: RTT 50.3 ms, receive rate 1.7 Mbit/s".to_owned()),
                reason_kind: Some("measured".to_owned()),
                phase: Some("probing for more, no queue seen".to_owned()),
                trouble: None,
                rate_bps: Some(24_000_000),
                send_bps: Some(23_500_000),
                receive_bps: None,
                loss: Some(0.0123),
                rtt_ms: Some(52.04),
                min_rtt_ms: Some(50.0),
                min_rtt_age_s: Some(3.2),
                rtt_range_ms: Some((51.5, 53.25)),
                backlog_bytes: 102_400,
                wait_here_ms: Some(34.13),
                wait_network_ms: Some(2.04),
                packets: 9,
                bytes: 9_000,
                dropped: Some(12),
                marked: Some(3),
                waits: None,
                refused: 0,
                measurements: 5,
                unmatched: 0,
                decided: 17,
                decisions: vec![Decision {
                    number: 17,
                    ago_s: 1.5,
                    kind: "epoch_changed".to_owned(),
                    values: [("from".to_owned(), Value::Number(256))].into(),
                    text: "epoch 256 -> 128 packets".to_owned(),
                }],
            }],
            receives: vec![ReceiveStatus {
                name: "branch".to_owned(),
                key_fingerprint: None,
                sendbox: "192.0.2.1:28316".parse().ok(),
                moves: 0,
                trouble: Some(format!("no message {}", "for a long time ".repeat(8))),
                heard_s: None,
                packets: 12,
                bytes: 3_400_000,
                refused: 0,
                unanswered: 0,
            }],
        }
    }

    #[test]
    fn a_box_that_moved_or_was_not_found_is_said_to_be() {
        let mut status = status();
        (status.sends[0].receivebox, status.receives[0].moves) = (None, 2);
        let text = Text(&status).to_string();
        assert!(text.contains("to branch (address not known yet): delay"), "{text}");
        assert!(text.contains("from branch (192.0.2.1:28316, moved 2 times): not"), "{text}");
    }

    #[test]
    fn the_text_fits_into_80_columns() {
        let text = Text(&status()).to_string();
        let start = "site at wan0, process 77, up 1 d 2 h\n    3 frames left in which no IP packet was found\n    \
                     4 frames arrived in which no IP packet was found\n    \
                     5 packets were dropped since the thread that queues them has too much to \
                     do\n\n  \
                     to branch (192.0.2.1:28316): delay control for 1 min 1 s\n    \
                     since first measured: RTT 50.3 ms, receive rate 1.7 Mbit/s\n    \
                     Mbit/s: limit 24.00, sent 23.50, received unknown; lost 1.2 %\n    \
                     round trip 52.0 ms, at least 50.0 ms (3.2 s old); wait 2.0 ms in the\n      \
                     network, 34.1 ms here (102 kB)\n    since the start, here: dropped 12, \
                     marked 3\n    fingerprint of the key: 630d-cd29-66c4-3366\n    \
                     rate: probing for more, no queue seen\n    1.5 s ago: epoch 256 -> 128 \
                     packets\n\n  \
                     from branch (192.0.2.1:28316): not heard yet\n    TROUBLE: no message";
        assert!(text.starts_with(start), "{text}");
        assert!(text.ends_with("\n    12 packets, 3.4 MB\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn a_state_can_be_read_again() {
        let text = serde_json::to_string(&status()).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status());
    }
}
