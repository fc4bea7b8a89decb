//! L4S traffic and other traffic in the queues that had L4S traffic.

use super::number::{count, figure};
use super::table::{Column, Row, Table};
use super::tables::Named;
use crate::analysis::{ByL4s, Delay, Signals};

/// A row for each run and queue: waiting times, marks and drops of L4S traffic and of other
/// traffic, which DualPI2 keeps in the L and the C queue. `None` without L4S traffic.
pub(crate) fn table(runs: &[Named<'_>]) -> Option<Table> {
    let rows: Vec<Row> = runs.iter().flat_map(rows).collect();
    let columns = ["L4S", "classic"].into_iter().flat_map(|group| {
        ["mean ms", "p99 ms", "marked", "dropped"].map(|name| Column::new(group, name))
    });
    (!rows.is_empty()).then(|| Table {
        corner: "queue".to_owned(),
        columns: columns.collect(),
        rows,
    })
}

fn rows(run: &Named<'_>) -> Vec<Row> {
    let Some(by) = run.run.summary.l4s else { return Vec::new() };
    let ByL4s { bottleneck_signals, sendbox_signals, .. } = by;
    [
        ("bottleneck", [by.bottleneck_l4s_ms, by.bottleneck_classic_ms], bottleneck_signals),
        ("sendbox", [by.sendbox_l4s_ms, by.sendbox_classic_ms], sendbox_signals),
    ]
    .into_iter()
    // A sendbox that only forwards has no queue.
    .filter(|(_, delays, _)| delays.iter().any(Option::is_some))
    .map(|(place, delays, signals)| Row {
        label: format!("{}: {place}", run.name),
        cells: delays.into_iter().zip(signals).flat_map(cells).collect(),
        strong: run.strong,
    })
    .collect()
}

fn cells((delay, signals): (Option<Delay>, Signals)) -> [String; 4] {
    let of = |value: fn(&Delay) -> f64| delay.as_ref().map(value).map_or(String::new(), figure);
    [of(|d| d.mean), of(|d| d.p99), count(signals.marked), count(signals.dropped)]
}

#[cfg(test)]
mod tests {
    use forebay_records::packet_log::{Fate, Record};
    use forebay_units::{Nanos, Rate};

    use super::*;
    use crate::analysis::Analysis;
    use crate::results::Run;

    /// At a link, a hundred L4S packets wait half a millisecond and ten are marked; of fifty others
    /// that wait 15 ms, one is dropped. At the bottleneck no packet waits.
    #[test]
    fn by_hand() {
        let record = |wait, l4s, marked, fate| Record {
            time: Nanos::from_millis(500),
            sojourn: Nanos::from_micros(wait),
            l4s,
            marked,
            fate,
            ..Record::of_flags(0)
        };
        let l4s = (0..100).map(|n| record(500, true, n < 10, Fate::Sent));
        let rest = (0..50)
            .map(|n| record(15_000, false, false, if n == 0 { Fate::Dropped } else { Fate::Sent }));
        let run = Run {
            arm: "link".into(),
            end: Nanos::from_secs(1),
            rate: Rate::from_mbps(8),
            sendbox: l4s.chain(rest).collect(),
            bottleneck: [true, false].map(|l4s| record(0, l4s, false, Fate::Sent)).into(),
            ..Run::default()
        };
        let analysis = Analysis::of(&run);
        let named = Named { name: "link".into(), run: &analysis, strong: false };
        insta::assert_snapshot!(table(&[named]).unwrap().text(false), @r"
                                                   L4S                           classic
        queue         mean ms  p99 ms  marked  dropped  mean ms  p99 ms  marked  dropped
        --------------------------------------------------------------------------------
        link:
        bottleneck       0.00    0.00       0        0     0.00    0.00       0        0
        link:
        sendbox          0.50    0.50      10        0     15.0    15.0       0        1
        ");
        let none = Analysis::of(&Run { sendbox: vec![], bottleneck: vec![], ..run });
        let named = Named { name: "link".into(), run: &none, strong: false };
        assert!(table(&[named]).is_none());
    }
}
