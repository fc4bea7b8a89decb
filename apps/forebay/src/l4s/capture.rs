//! `forebay l4s capture`: whether L4S works for the TCP connections of a capture.

use std::path::Path;
use std::process::ExitCode;

use forebay_capture::Capture;
use forebay_cli::terminal::{Failure, fail, print, warn};
use forebay_config::ConfigError;
use forebay_input::Contents;
use forebay_l4s_check::Verdict;
use forebay_l4s_check::tcp::{Analysis, Place};

use crate::cli::L4sCaptureArgs;

/// The largest capture in octets; captures are read into memory.
const MAX_FILE: u64 = 1 << 30;

pub(super) fn run(args: &L4sCaptureArgs) -> Result<ExitCode, Failure> {
    let read = |path: &Path, at| read(path, at, &args.interface);
    let report = match (&args.file, &args.sender, &args.receiver) {
        (Some(file), ..) => read(file, None).map(|analysis| analysis.report()),
        (_, Some(sender), Some(receiver)) => {
            let sender = read(sender, Some(Place::Sender));
            sender.and_then(|s| Ok(s.report_of_both(&read(receiver, Some(Place::Receiver))?)))
        }
        (_, Some(file), None) => read(file, Some(Place::Sender)).map(|a| a.report()),
        (_, None, Some(file)) => read(file, Some(Place::Receiver)).map(|a| a.report()),
        (None, None, None) => return Ok(fail(&"a capture is needed", 2)),
    };
    let report = match report {
        Ok(report) => report,
        Err(e) => return Ok(fail(&e, 2)),
    };
    let text = if args.json { serde_json::to_string_pretty(&report)? } else { report.to_string() };
    print(&(text + "\n"))?;
    Ok(ExitCode::from(u8::from(report.verdict != Verdict::Works)))
}

/// Reads the packets of the capture at `path` that are of one of `interfaces`, or all.
fn read(path: &Path, at: Option<Place>, interfaces: &[String]) -> Result<Analysis, ConfigError> {
    let wrong = |message: String| ConfigError {
        file: path.to_owned(),
        line: None,
        key: String::new(),
        message,
    };
    let Contents { octets, is_cut } = forebay_input::read(path, MAX_FILE)?;
    let mut capture = Capture::new(&octets).map_err(|e| wrong(e.to_string()))?;
    let mut analysis = Analysis::new(at);
    let mut is_known = interfaces.is_empty();
    while let Some(packet) = capture.next_ip().map_err(|e| wrong(e.to_string()))? {
        let name = capture.interface_name(packet.interface);
        if interfaces.is_empty() || name.is_some_and(|n| interfaces.iter().any(|i| i == n)) {
            is_known = true;
            analysis.push(&packet);
        }
    }
    if !is_known {
        return Err(wrong(format!("has no packet of the interface {}", interfaces.join(" or "))));
    }
    analysis.push_left_out(capture.left_out);
    if is_cut || capture.cut.is_some() {
        warn(format_args!("{}: the file ends within a packet", path.display()));
    }
    Ok(analysis)
}
