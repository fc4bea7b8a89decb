//! A study in a terminal of 80 columns.

use forebay_picture::number::{count, figure, percent};

use super::Report;
use crate::measure::Outcome;

/// The columns of a terminal.
const WIDTH: usize = 80;

pub(super) fn text(report: &Report<'_>) -> String {
    let mut text = String::new();
    for part in [&report.machine].into_iter().chain(&report.notes) {
        text += &wrapped(part, "", "");
    }
    text += &checks(report);
    let mut series: Vec<&str> = Vec::new();
    for outcome in &report.results.outcomes {
        if !series.contains(&&*outcome.point.series) {
            series.push(&outcome.point.series);
        }
    }
    for name in series {
        text += &table(report, name);
    }
    text += "\nFindings\n";
    for finding in &report.findings {
        let mark = if finding.seen { "* " } else { "- " };
        text += &wrapped(&format!("{} ({})", finding.sentence(), finding.of), mark, "  ");
    }
    text
}

/// The checks that are not fine.
fn checks(report: &Report<'_>) -> String {
    let bad = report.results.checks.iter().filter(|check| check.is_open());
    let lines = bad.map(|check| {
        let line = format!("{}: {}, wanted {}: {}", check.what, check.have, check.want, check.fix);
        wrapped(&line, "! ", "  ")
    });
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\nThis machine\n{lines}") }
}

fn table(report: &Report<'_>, series: &str) -> String {
    let points = report.results.outcomes.iter().filter(|o| o.point.series == series);
    let points: Vec<&Outcome> = points.collect();
    let Some(first) = points.first() else { return String::new() };
    let flows_vary = points.iter().any(|o| o.point.flows != first.point.flows);
    let (head, fixed) = if flows_vary || points.len() == 1 {
        ("flows", String::new())
    } else {
        ("length", format!(" with {} flows", count(u64::from(first.point.flows))))
    };
    let title = format!("\n{series}{fixed}\n");
    let mut text = title;
    text += &format!(
        "{head:>8} {:>8} {:>6} {:>7} {:>8} {:>7} {:>7} {:>7} {:>6} {:>6}\n",
        "Mbit/s", "CPU", "s/Gbit", "RTT ms", "p99 ms", "bytes", "again", "drop/s", "fair"
    );
    for o in points {
        let m = &o.measured;
        let key = if head == "flows" { o.point.flows } else { o.point.limit };
        text += &format!(
            "{:>8} {:>8} {:>6} {:>7} {:>8} {:>7} {:>7} {:>7} {:>6} {:>6}\n",
            compact(f64::from(key)),
            figure(m.goodput_mbps),
            percent(m.busy()),
            m.cpu_per_gbit().map_or("-".to_owned(), figure),
            figure(m.rtt_ms.p50),
            figure(m.rtt_ms.p99),
            compact(m.segment_bytes),
            percent(m.retransmitted),
            compact(m.drops_per_s),
            figure(m.rates.jain),
        );
    }
    text
}

/// A count in at most six characters.
fn compact(n: f64) -> String {
    match n {
        n if n < 10_000.0 => format!("{n:.0}"),
        n if n < 1e6 => format!("{:.0}k", n / 1e3),
        n => format!("{:.1}M", n / 1e6),
    }
}

/// Breaks `text` at blanks, so that lines with their indents fit the terminal. Numbers in groups of
/// digits stay together.
fn wrapped(text: &str, first: &str, rest: &str) -> String {
    let mut out = String::new();
    let mut line = first.to_owned();
    let mut has_words = false;
    for word in words(text) {
        if has_words && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out += line.trim_end();
            out.push('\n');
            line = rest.to_owned();
            has_words = false;
        }
        if has_words {
            line.push(' ');
        }
        line += &word;
        has_words = true;
    }
    out + line.trim_end() + "\n"
}

/// The words of `text`; a group of three digits belongs to the number before it.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        let follows = |last: &&mut String| last.ends_with(|c: char| c.is_ascii_digit());
        match words.last_mut().filter(follows) {
            Some(last) if digits == 3 => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Check, Verdict};
    use crate::findings::Finding;
    use crate::measure::Measured;
    use crate::point::Point;
    use crate::point::tests::point;
    use crate::study::Results;

    #[test]
    fn every_line_fits_the_terminal() {
        let point = Point { series: "a series ".repeat(3), ..point(300_000) };
        let measured = Measured {
            goodput_mbps: 123_456.7,
            retransmitted: 1.0,
            segment_bytes: 65_535.0,
            drops_per_s: 1.2e9,
            ..Measured::default()
        };
        let check = Check {
            what: "net.ipv4.tcp_rmem".into(),
            have: "4096 131072 33554432".into(),
            want: "8192 65536 16777216 (set in each namespace)".into(),
            verdict: Verdict::Advice,
            fix: "--tune, or `sysctl -w net.ipv4.tcp_rmem=\"8192 65536 16777216\"`".into(),
        };
        let results = Results { checks: vec![check], outcomes: vec![Outcome { point, measured }] };
        let finding =
            Finding { id: "a".into(), of: "b".into(), seen: true, text: "word ".repeat(40) };
        let report = Report {
            results: &results,
            findings: vec![finding],
            machine: "machine ".repeat(20),
            command: String::new(),
            notes: vec!["note ".repeat(30)],
        };
        let text = report.text();
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        assert!(text.contains("    300k"), "{text}");
    }

    #[test]
    fn numbers_are_not_broken() {
        let expected = ["of", "100 000", "flows,", "1 234 567."];
        assert_eq!(words("of 100 000 flows, 1 234 567."), expected);
    }

    #[test]
    fn counts_are_compact() {
        let written = [0.0, 9999.0, 10_000.0, 300_000.0, 1.25e6].map(compact);
        assert_eq!(written, ["0", "9999", "10k", "300k", "1.2M"]);
    }
}
