//! The answers to the operator.

use serde_json::{Value, json};

use super::neighbour::storage_failure;
use super::{Request, Service};
use crate::answer::Answer;
use crate::history::History;
use crate::inputs::DemandText;
use crate::routes::Op;
use crate::{clock, metrics, page};

impl Service {
    pub(super) fn answer_operator(&self, op: Op, request: &Request<'_>) -> Answer {
        match op {
            Op::Page => {
                let html = page::page(&self.state(request.now));
                // The page loads nothing and has no scripts.
                let policy = "default-src 'none'; style-src 'unsafe-inline'";
                Answer::text("text/html; charset=utf-8", html)
                    .with("content-security-policy", policy)
            }
            Op::State => Answer::json(&self.state(request.now)),
            Op::PutDemands => self.put_demands(request),
            Op::Metrics => {
                let text = metrics::text(&self.state(request.now), &self.counters, self.hub.len());
                Answer::text(metrics::CONTENT_TYPE, text)
            }
            // The thread of rounds answers requests for a round.
            _ => Answer::error(403, "forbidden", None, "is not for the operator"),
        }
    }

    fn put_demands(&self, request: &Request<'_>) -> Answer {
        if let Some(file) = &self.config.files.demands {
            let message = format!("demands are read from {}: write them there", file.display());
            return Answer::error(409, "demands", None, &message);
        }
        if self.collecting.is_some() {
            let message = "demands are measured from flow records: they cannot be put";
            return Answer::error(409, "demands", None, message);
        }
        let json = match request.kind {
            "text/csv" => false,
            "" | "application/json" => true,
            _ => {
                let message = "write demands as text/csv or application/json";
                return Answer::error(415, "media_type", None, message);
            }
        };
        let Ok(text) = std::str::from_utf8(request.body) else {
            return Answer::error(400, "demands", None, "is not UTF-8: write the demands in UTF-8");
        };
        let text = DemandText { json, text: text.to_owned() };
        let count = match self.fixed.demands("demands".as_ref(), &text) {
            Ok(demands) => demands.len(),
            Err(e) => return Answer::error(400, "demands", None, &e.to_string()),
        };
        let mut inner = self.inner();
        if let Err(e) = inner.store.put_demands(&text, request.now) {
            return storage_failure(&e);
        }
        inner.demands = Some((text, request.now));
        Answer::json(&json!({"demands": count, "at": clock::text(request.now)}))
    }

    /// Returns all that the operator may see.
    pub fn state(&self, now: u64) -> Value {
        let inner = self.inner();
        let last = &inner.last;
        let neighbours = self.config.neighbours.iter().enumerate().map(|(at, neighbour)| {
            let known = &inner.neighbours[at];
            let mut value = self.program(&inner, at);
            value["name"] = neighbour.name.as_str().into();
            let penalty = known.penalty.decayed(&self.config.damping, now).value;
            value["penalty"] = (penalty.round() as u64).into();
            let wait = known.penalty.refused_for(&self.config.damping, now);
            value["damped_for"] = json!(wait.map(|w| w.div_ceil(1000)));
            value["refused"] = known.refused.into();
            value["hints"] = known.told.as_ref().map_or(0, |t| t.value.len()).into();
            value["hints_version"] = known.told.as_ref().map_or(0, |t| t.version).into();
            value
        });
        let announced = last.announced.as_ref().map(|outcome| match outcome {
            Ok(outcome) => json!({"done": outcome.done, "failed": outcome.failed}),
            Err(why) => json!({"error": why}),
        });
        let measured = self.collecting.as_ref().map(|collecting| {
            let mut report = collecting.report(&self.fixed, i64::try_from(now).unwrap_or(i64::MAX));
            // The page shows the demands of the last round, by flow.
            report.demands.clear();
            report
        });
        let feed = self.collecting.as_ref().and_then(|collecting| collecting.feed());
        let relayed = feed.map(|feed| feed.report());
        let learned = self
            .learning
            .as_ref()
            .map(|learning| json!({"report": learning.report(now), "round": last.learned}));
        json!({
            "version": 1,
            "now": clock::text(now),
            "started": clock::text(self.started),
            "interval": self.config.interval.as_secs(),
            "announces": self.config.announce.is_some(),
            "round": last.round,
            "at": (last.at > 0).then(|| clock::text(last.at)),
            "age": (last.at > 0).then(|| now.saturating_sub(last.at) / 1000),
            "took": last.took,
            "error": last.error,
            "failures": last.failures,
            "announced": announced,
            "demands_at": inner.demands.as_ref().map(|d| clock::text(d.1)),
            "estimated": last.estimated,
            "aggregates": last.core.as_ref().map(|c| c.map.aggregates),
            "lost": last.core.as_ref().map(|c| c.lost),
            "neighbours": neighbours.collect::<Vec<_>>(),
            "hints": last.hints,
            "flows": last.flows,
            "measured": measured,
            "relayed": relayed,
            "history": self.history().map(History::report),
            "learned": learned,
            "report": last.report.as_deref(),
        })
    }
}
