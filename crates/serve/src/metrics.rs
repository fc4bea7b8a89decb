//! Metrics, in Prometheus' text form. They name neighbours, so they are the operator's.

use std::fmt::Write;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::service::Counters;

/// All metrics, of what the operator's `state` shows and of what was counted.
pub(crate) fn text(state: &Value, counters: &Counters, listeners: usize) -> String {
    let mut out = Text(String::new());
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    out.one("rounds_total", "counter", "Rounds since the state was made.", number(&state["round"]));
    let failures = number(&state["failures"]);
    out.one(
        "round_failures_total",
        "counter",
        "Rounds that came to nothing, since the start.",
        failures,
    );
    let took = number(&state["took"]) / 1000.0;
    out.one("round_seconds", "gauge", "How long the last round took.", took);
    if let Some(age) = state["age"].as_f64() {
        out.one("round_age_seconds", "gauge", "How old the last round is.", age);
    }
    if let Some(count) = state["estimated"].as_f64() {
        let help = "Demands taken to be more than was measured, since a link on their way is full.";
        out.one("estimated_demands", "gauge", help, count);
    }
    if let Value::Object(report) = &state["report"] {
        out.one("demand_bps", "gauge", "What is asked for.", number(&report["demand"]));
        out.head("carried_bps", "gauge", "What is carried: now, and if hints are followed.");
        for routing in ["before", "after"] {
            out.row("carried_bps", &[("routing", routing)], number(&report[routing]["total"]));
        }
        out.head(
            "most_used_ratio",
            "gauge",
            "Of the fullest link or interconnection, what is used.",
        );
        for routing in ["before", "after"] {
            out.row(
                "most_used_ratio",
                &[("routing", routing)],
                number(&report[routing]["most_used"]),
            );
        }
    }
    let announced = &state["announced"];
    let failed = number(&announced["failed"]) + f64::from(u8::from(announced["error"].is_string()));
    out.one("announce_failed", "gauge", "Steps of the last announcing that failed.", failed);
    let neighbours = state["neighbours"].as_array().map_or(&[][..], Vec::as_slice);
    for (name, key, help) in [
        ("neighbour_hints", "hints", "Hints in force."),
        ("neighbour_penalty", "penalty", "What its changes came to; damping is by it."),
        ("neighbour_refused_total", "refused", "Programs that were refused, since the start."),
    ] {
        out.head(name, if name.ends_with("total") { "counter" } else { "gauge" }, help);
        for neighbour in neighbours {
            let who = neighbour["name"].as_str().unwrap_or_default();
            out.row(name, &[("neighbour", who)], number(&neighbour[key]));
        }
    }
    if let Value::Object(measured) = &state["measured"] {
        flows(&mut out, measured);
    }
    out.one("listeners", "gauge", "Who listens for events.", listeners as f64);
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as f64;
    let connections = count(&counters.connections);
    out.one("connections_total", "counter", "Connections that were taken.", connections);
    let away = count(&counters.turned_away);
    out.one(
        "connections_turned_away_total",
        "counter",
        "Connections that were one too many.",
        away,
    );
    let strangers = count(&counters.strangers);
    out.one(
        "unauthorized_total",
        "counter",
        "Requests without a right token or certificate.",
        strangers,
    );
    out.head("requests_total", "counter", "Requests that were answered.");
    let answers = counters.answers.lock().unwrap_or_else(PoisonError::into_inner);
    for ((method, path, status), times) in answers.iter() {
        let labels = [("method", *method), ("path", *path), ("status", &status.to_string())];
        out.row("requests_total", &labels, *times as f64);
    }
    out.0
}

/// What was counted of flow records.
fn flows(out: &mut Text, measured: &serde_json::Map<String, Value>) {
    let list = |name: &str| measured[name].as_array().map_or(&[][..], Vec::as_slice);
    for (name, key, help) in [
        ("flows_messages_total", "messages", "Messages of flow records that came."),
        ("flows_records_total", "flows", "Flows in them, whatever became of them."),
        (
            "flows_unsampled_total",
            "unsaid",
            "Flows of which nobody said how they were sampled: they count as they are.",
        ),
        ("flows_lost_ratio", "lost", "What did not come, by the messages' numbers."),
    ] {
        out.head(name, if name.ends_with("total") { "counter" } else { "gauge" }, help);
        for exporter in list("exporters") {
            let who = exporter["address"].as_str().unwrap_or_default();
            out.row(name, &[("exporter", who)], exporter[key].as_f64().unwrap_or(0.0));
        }
    }
    let help = "Messages, sets and flows that are in no demand, by reason.";
    out.head("flows_left_out_total", "counter", help);
    for left in list("left_out") {
        let reason = left["reason"].as_str().unwrap_or_default();
        let times = left["times"].as_f64().unwrap_or(0.0);
        out.row("flows_left_out_total", &[("reason", reason)], times);
    }
    let help = "Octets that they stand for, as far as that is known.";
    out.head("flows_left_out_bytes_total", "counter", help);
    for left in list("left_out") {
        let reason = left["reason"].as_str().unwrap_or_default();
        let octets = left["octets"].as_f64().unwrap_or(0.0);
        out.row("flows_left_out_bytes_total", &[("reason", reason)], octets);
    }
}

struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.0,
            "# HELP forebay_plan_{name} {help}\n# TYPE forebay_plan_{name} {kind}"
        );
    }

    fn row(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let escaped =
            |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        let labels = match labels.as_slice() {
            [] => String::new(),
            some => format!("{{{}}}", some.join(",")),
        };
        let _ = writeln!(self.0, "forebay_plan_{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        self.row(name, &[], value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_cannot_become_lines() {
        let state = json!({"estimated": 4, "neighbours": [{"name": "a\"b\n\\", "hints": 2}]});
        let text = text(&state, &Counters::default(), 3);
        assert!(
            text.contains("forebay_plan_neighbour_hints{neighbour=\"a\\\"b\\n\\\\\"} 2\n"),
            "{text}"
        );
        assert!(text.contains("\nforebay_plan_estimated_demands 4\n"), "{text}");
        assert!(text.contains("# TYPE forebay_plan_listeners gauge\nforebay_plan_listeners 3\n"));
    }
}
