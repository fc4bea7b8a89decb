//! Metrics in Prometheus' text format. They name neighbours, so only the operator may read them.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_metrics::Kind::{Counter, Gauge};
use forebay_metrics::{Families, sample};
use serde_json::Value;

use crate::service::Counters;

/// The media type of the answer.
pub(crate) use forebay_metrics::CONTENT_TYPE;

/// Returns all metrics: those of the operator's `state`, and the counters of the service.
pub(crate) fn text(state: &Value, counters: &Counters, listeners: usize) -> String {
    let mut families = Families::new("forebay_plan");
    rounds(&mut families, state);
    neighbours(&mut families, state);
    if state["measured"].is_object() {
        flows(&mut families, &state["measured"]);
    }
    if state["relayed"].is_object() {
        relayed(&mut families, &state["relayed"]);
    }
    if state["history"].is_object() {
        history(&mut families, &state["history"]);
    }
    if state["learned"].is_object() {
        routes(&mut families, &state["learned"]);
    }
    requests(&mut families, counters, listeners);
    families.text()
}

fn rounds(families: &mut Families, state: &Value) {
    families.one(Counter, "rounds", "Rounds since the state was made.", number(&state["round"]));
    let help = "Rounds that failed, since the start.";
    families.one(Counter, "round_failures", help, number(&state["failures"]));
    let took = number(&state["took"]) / 1000.0;
    families.one(Gauge, "round_seconds", "Duration of the last round.", took);
    if let Some(age) = state["age"].as_f64() {
        families.one(Gauge, "round_age_seconds", "Time since the last round.", age);
    }
    if let Some(count) = state["estimated"].as_f64() {
        let help = "Demands estimated above what was measured, since a link on their path is full.";
        families.one(Gauge, "estimated_demands", help, count);
    }
    let report = &state["report"];
    if report.is_object() {
        families.one(Gauge, "demand_bps", "Demand of all neighbours.", number(&report["demand"]));
        let by_routing = |key: &str| {
            ["before", "after"]
                .map(|routing| sample(&[("routing", routing)], number(&report[routing][key])))
        };
        let help = "Traffic carried: now, and if the hints are followed.";
        families.add(Gauge, "carried_bps", help, by_routing("total"));
        let help = "Utilisation of the fullest link or interconnection.";
        families.add(Gauge, "most_used_ratio", help, by_routing("most_used"));
    }
    let announced = &state["announced"];
    let failed = number(&announced["failed"]) + f64::from(u8::from(announced["error"].is_string()));
    let help = "Announcements and withdrawals of the last round that failed.";
    families.one(Gauge, "announce_failed", help, failed);
}

fn neighbours(families: &mut Families, state: &Value) {
    for (kind, name, key, help) in [
        (Gauge, "neighbour_hints", "hints", "Hints in force."),
        (Gauge, "neighbour_penalty", "penalty", "Penalty for changes, which damping uses."),
        (Counter, "neighbour_refused", "refused", "Programs refused, since the start."),
    ] {
        let samples = list(&state["neighbours"]).iter().map(|neighbour| {
            sample(&[("neighbour", text_of(&neighbour["name"]))], number(&neighbour[key]))
        });
        families.add(kind, name, help, samples);
    }
}

fn flows(families: &mut Families, measured: &Value) {
    for (kind, name, key, help) in [
        (Counter, "flows_messages", "messages", "Messages of flow records received."),
        (Counter, "flows_records", "flows", "Flows in them, used or not."),
        (
            Counter,
            "flows_unsampled",
            "unsaid",
            "Flows without a known sampling rate: they count unscaled.",
        ),
        (Gauge, "flows_lost_ratio", "lost", "Messages lost, by their sequence numbers."),
    ] {
        let samples = list(&measured["exporters"]).iter().map(|exporter| {
            sample(&[("exporter", text_of(&exporter["address"]))], number(&exporter[key]))
        });
        families.add(kind, name, help, samples);
    }
    for (name, key, help) in [
        ("flows_left_out", "times", "Messages, sets and flows that are in no demand, by reason."),
        ("flows_left_out_bytes", "octets", "Their octets, as far as they are known."),
    ] {
        let samples = list(&measured["left_out"])
            .iter()
            .map(|left| sample(&[("reason", text_of(&left["reason"]))], number(&left[key])));
        families.add(Counter, name, help, samples);
    }
}

fn relayed(families: &mut Families, relayed: &Value) {
    let up = f64::from(u8::from(relayed["state"] == "up"));
    families.one(Gauge, "kafka_up", "Whether the topic of Kafka is read.", up);
    for (name, key, help) in [
        ("kafka_failures", "failures", "How often reading from Kafka failed."),
        ("kafka_messages", "messages", "Messages read from Kafka."),
        ("kafka_bytes", "octets", "Octets of these messages."),
        ("kafka_expired", "expired", "Messages that the brokers removed before they were read."),
        ("kafka_refused", "refused", "Batches that were skipped: too large, or damaged."),
    ] {
        families.one(Counter, name, help, number(&relayed[key]));
    }
    let partitions = relayed["partitions"].as_object();
    let lags = partitions.into_iter().flatten();
    let lags = lags.map(|(name, p)| sample(&[("partition", name)], number(&p["lag"])));
    families.add(Gauge, "kafka_lag", "Messages in the brokers that were not read yet.", lags);
}

fn history(families: &mut Families, history: &Value) {
    let up = f64::from(u8::from(history["up"] == true));
    families.one(Gauge, "history_up", "Whether the last write into ClickHouse succeeded.", up);
    for (kind, name, key, help) in [
        (Counter, "history_failures", "failures", "How often writing into ClickHouse failed."),
        (Counter, "history_rows", "rows", "Rows written into ClickHouse."),
        (Counter, "history_lost", "lost", "Rows that were dropped or refused."),
        (Gauge, "history_waiting", "waiting", "Rows that wait."),
    ] {
        families.one(kind, name, help, number(&history[key]));
    }
}

fn routes(families: &mut Families, learned: &Value) {
    let report = &learned["report"];
    families.one(Gauge, "routes", "Routes in the table.", number(&report["routes"]));
    let help = "Routes for which the table had no room.";
    families.one(Counter, "routes_refused", help, number(&report["refused"]));
    let help = "Connections for BMP of addresses that are no routers.";
    families.one(Counter, "bmp_strangers", help, number(&report["strangers"]));
    if let Some(prefixes) = learned["round"]["prefixes"].as_f64() {
        let help = "Prefixes of users that the last round learned.";
        families.one(Gauge, "learned_prefixes", help, prefixes);
    }
    let sessions = || list(&report["sessions"]).iter();
    let label =
        |session: &Value, value: f64| sample(&[("router", text_of(&session["router"]))], value);
    let is = |so: bool| f64::from(u8::from(so));
    let up = sessions().map(|s| label(s, is(s["state"] == "up")));
    families.add(Gauge, "bmp_up", "Whether the router's BMP session is up.", up);
    let complete = sessions().map(|s| label(s, is(s["complete"] == true)));
    let help = "Whether all routes of the router are in the table.";
    families.add(Gauge, "bmp_complete", help, complete);
    let heard = sessions().filter_map(|s| s["heard"].as_f64().map(|heard| label(s, heard)));
    families.add(Gauge, "bmp_silence_seconds", "Time since the router was heard.", heard);
    for (kind, name, key, help) in [
        (Gauge, "bmp_peers", "peers", "Peers of the router that are up."),
        (Gauge, "bmp_routes", "routes", "Routes of the router, with those that are held."),
        (Counter, "bmp_messages", "messages", "BMP messages received."),
        (Counter, "bmp_malformed", "malformed", "BMP messages that could not be read."),
        (Counter, "bmp_cuts", "cuts", "How often the session was cut."),
        (Counter, "bmp_stuck", "stuck", "How often it was cut since the router was silent."),
    ] {
        families.add(kind, name, help, sessions().map(|s| label(s, number(&s[key]))));
    }
}

fn requests(families: &mut Families, counters: &Counters, listeners: usize) {
    families.one(Gauge, "listeners", "Clients that listen for events.", listeners as f64);
    for (name, counter, help) in [
        ("connections", &counters.connections, "Connections accepted."),
        ("connections_turned_away", &counters.turned_away, "Connections refused at the limit."),
        (
            "connections_displaced",
            &counters.displaced,
            "Connections without a valid request that were closed for a new one.",
        ),
        ("unauthorized", &counters.strangers, "Requests without a valid token or certificate."),
    ] {
        families.one(Counter, name, help, count(counter));
    }
    let answers = counters.answers.lock().unwrap_or_else(PoisonError::into_inner);
    let samples = answers.iter().map(|((method, path, status), times)| {
        let status = status.to_string();
        let labels = [("method", *method), ("path", *path), ("status", status.as_str())];
        sample(&labels, *times as f64)
    });
    families.add(Counter, "requests", "Requests answered.", samples);
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The elements of an array; none if `value` is something else.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], Vec::as_slice)
}

fn count(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let state = json!({"estimated": 4, "neighbours": [{"name": "a\"b\n\\", "hints": 2}]});
        let text = text(&state, &Counters::default(), 3);
        assert!(
            text.contains("forebay_plan_neighbour_hints{neighbour=\"a\\\"b\\n\\\\\"} 2\n"),
            "{text}"
        );
        assert!(text.contains("\nforebay_plan_estimated_demands 4\n"), "{text}");
        assert!(text.contains("# TYPE forebay_plan_listeners gauge\nforebay_plan_listeners 3\n"));
    }

    #[test]
    fn each_router_has_its_metrics() {
        let one = json!({"router": "rome", "state": "up", "complete": true, "heard": 3, "cuts": 2});
        let two = json!({"router": "oslo", "state": "held", "complete": true, "routes": 7});
        let report = json!({"routes": 9, "sessions": [one, two]});
        let state = json!({"learned": {"report": report, "round": {"prefixes": 5}}});
        let text = text(&state, &Counters::default(), 0);
        for line in [
            "forebay_plan_routes 9\n",
            "forebay_plan_learned_prefixes 5\n",
            "forebay_plan_bmp_up{router=\"rome\"} 1\n",
            "forebay_plan_bmp_up{router=\"oslo\"} 0\n",
            "forebay_plan_bmp_routes{router=\"oslo\"} 7\n",
            "forebay_plan_bmp_silence_seconds{router=\"rome\"} 3\n",
            "forebay_plan_bmp_cuts_total{router=\"rome\"} 2\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("bmp_silence_seconds{router=\"oslo\"}"));
    }

    #[test]
    fn counters_end_in_total_and_whole_numbers_have_no_fraction() {
        let counters = Counters::default();
        *counters.answers.lock().unwrap() = [(("GET", "/", 200), 7)].into();
        let state = json!({"round": 5, "took": 1500, "age": 12});
        let text = text(&state, &counters, 0);
        for lines in [
            "# TYPE forebay_plan_rounds_total counter\nforebay_plan_rounds_total 5\n",
            "# TYPE forebay_plan_round_seconds gauge\nforebay_plan_round_seconds 1.5\n",
            "forebay_plan_round_age_seconds 12\n",
            "forebay_plan_requests_total{method=\"GET\",path=\"/\",status=\"200\"} 7\n",
        ] {
            assert!(text.contains(lines), "{lines}: {text}");
        }
    }
}
