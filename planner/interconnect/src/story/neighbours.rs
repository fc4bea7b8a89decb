//! The providers as neighbours of the service: the hints that they get, and one that misbehaves.

use std::collections::BTreeSet;

use forebay_plan::hints::Hints;
use serde_json::{Value, json};

use super::{SETTLE, Stage};
use crate::http::Reply;
use crate::service::Who;
use crate::tables::{self, Seen, Table};
use forebay_lab::engine::EngineError;

/// More changes in a row than the service allows.
const MAX_CHANGES: usize = 8;
/// The rate that counts as no traffic, in Mbit/s: a dozen packets in two seconds.
const NOTHING: f64 = 0.1;
/// The routes that a provider can read.
const OWN: [&str; 3] = ["/v1/hints", "/v1/program", "/v1/vswitch"];

/// Everything that a provider sees.
struct NeighbourView {
    provider: String,
    answers: Vec<Value>,
    table: Table,
    sessions: Vec<Seen>,
}

impl Stage<'_> {
    fn ask_as(
        &self,
        provider: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Reply, EngineError> {
        self.service.ask(Who::Provider(provider), method, path, body)
    }

    /// Has each provider get its hints with its own token.
    pub(super) fn ask_as_neighbours(&mut self, hints: &Hints) -> Result<(), EngineError> {
        let (mut holds, mut seen) = (true, Vec::new());
        for provider in self.names() {
            let reply = self.ask_as(&provider, "GET", "/v1/hints", "")?;
            let own = hints.of(&provider).into_iter().flat_map(|n| &n.hints);
            let own: BTreeSet<_> = own.map(|h| (h.prefix.to_string(), h.entry.clone())).collect();
            let told = told(&reply.body);
            holds &= reply.status == 200 && told == own;
            seen.push(format!("{} to {provider}", told.len()));
        }
        self.check("the service tells each provider its own hints", holds, seen.join(", "));
        Ok(())
    }

    /// Has a provider avoid the entry that a hint names. The planner decides about other hints.
    pub(super) fn avoid(&mut self) -> Result<(), EngineError> {
        let what = "what a provider avoids is in no hint to it, and its table and traffic follow";
        let hints = self.hints()?;
        let is_new = |name: &str, entry: &str| {
            self.record.first.get(name).is_some_and(|first| first.values().all(|e| e != entry))
        };
        let all = hints.neighbours.iter().flat_map(|n| n.hints.iter().map(move |h| (&n.name, h)));
        let told = all.filter(|(name, h)| h.method.is_some() && is_new(name, &h.entry));
        let Some((name, entry)) = told.map(|(n, h)| (n.clone(), h.entry.clone())).next() else {
            self.check(what, false, "nobody is hinted to another entry".to_owned());
            return Ok(());
        };
        let view = self.ask_as(&name, "GET", "/v1/vswitch", "")?.body;
        let outputs = view["outputs"].as_array().into_iter().flatten();
        let avoid = outputs.map(|o| json!({"output": o["output"], "input": entry}));
        let program = json!({"view": view["view"], "avoid": avoid.collect::<Vec<_>>()});
        self.event(&format!("{name} wants nothing to come in at {entry}"));
        let put = self.ask_as(&name, "PUT", "/v1/program", &program.to_string())?;
        let round = self.next_round()?;
        let asked = tables::asked(&self.hints()?, &self.record.first);
        let now = self.wait_for_tables(&asked)?;
        let taken = self.ask_as(&name, "GET", "/v1/program", "")?.body["state"] == "taken";
        let gone = now.get(&name).is_some_and(|table| table.values().all(|e| *e != entry));
        // The packets in flight arrive.
        self.pause(SETTLE)?;
        let arrived = self.measure(SETTLE)?.arrived;
        let left = arrived.get(&name).and_then(|own| own.get(&entry)).copied().unwrap_or(0.0);
        let said = put.status == 200 && taken && round.error.is_none();
        self.check(
            what,
            said && gone && now == asked && left < NOTHING,
            format!("{name} at {entry}: {} hints change, {left:.1} Mbit/s come in", round.changes),
        );
        Ok(())
    }

    /// Has the last provider send invalid programs, and then change its program repeatedly. Other
    /// providers must not be affected.
    pub(super) fn misbehave(&mut self) -> Result<(), EngineError> {
        let mut others = self.names();
        let Some(bad) = others.pop() else { return Ok(()) };
        let sessions = &self.reader.blueprint.sessions;
        let Some(entry) = sessions.iter().rfind(|s| self.named(s.provider) == bad) else {
            return Ok(());
        };
        let entry = entry.router.clone();
        let see =
            |stage: &Self| others.iter().map(|o| stage.view_of(o)).collect::<Result<Vec<_>, _>>();
        let before = see(self)?;
        self.event(&format!("{bad} sends the service nonsense"));
        let wish = |output: u32, demand: u64| {
            json!({"wishes": [{"output": output, "input": entry, "demand": demand}]}).to_string()
        };
        let nonsense = [
            ("half a text", "{".to_owned()),
            ("an output that is not there", wish(99, 1)),
            ("10^18 bit/s", wish(0, 1_000_000_000_000_000_000)),
        ];
        let (mut refused, mut seen) = (true, Vec::new());
        for (what, body) in nonsense {
            let status = self.ask_as(&bad, "PUT", "/v1/program", &body)?.status;
            refused &= matches!(status, 400 | 422);
            seen.push(format!("{what}: {status}"));
        }
        let program = self.ask_as(&bad, "GET", "/v1/program", "")?;
        refused &= program.body["state"] == "none";
        self.check("a provider that asks for nonsense is refused", refused, seen.join(", "));

        // The program alternates between avoiding an entry and not avoiding it. After three invalid
        // programs, of 500 each, the second change, of 1000 each, brings the penalty above 3000.
        // That change is back to avoiding nothing.
        let there = json!({"avoid": [{"output": 0, "input": entry}]}).to_string();
        let programs = [there, "{}".to_owned()];
        let mut taken = 0;
        let last = loop {
            let status = self.ask_as(&bad, "PUT", "/v1/program", &programs[taken % 2])?.status;
            if status != 200 || taken == MAX_CHANGES {
                break status;
            }
            taken += 1;
        };
        let seen = format!("{last} after {taken} changes");
        self.check("one that changes its program all the time is damped", last == 429, seen);

        let round = self.next_round()?;
        let unchanged = round.error.is_none() && (round.changes, round.steps) == (0, 0);
        let after = see(self)?;
        let mut disturbed: Vec<String> = before
            .iter()
            .zip(&after)
            .filter(|(a, b)| !a.is_as(b))
            .map(|(_, b)| b.provider.clone())
            .collect();
        if !unchanged {
            disturbed.push(format!("{} hints and {} routes change", round.changes, round.steps));
        }
        let seen = match disturbed.is_empty() {
            true => others.join(", "),
            false => disturbed.join(", "),
        };
        self.check("and the others' programs, hints and tables stay", disturbed.is_empty(), seen);
        Ok(())
    }

    fn named(&self, provider: usize) -> &str {
        &self.reader.blueprint.senders[provider].name
    }

    fn view_of(&self, provider: &str) -> Result<NeighbourView, EngineError> {
        let answer = |path: &&str| Ok(self.ask_as(provider, "GET", path, "")?.body);
        Ok(NeighbourView {
            provider: provider.to_owned(),
            answers: OWN.iter().map(answer).collect::<Result<_, EngineError>>()?,
            table: self.reader.best(provider)?,
            sessions: self.reader.sessions(provider)?,
        })
    }
}

impl NeighbourView {
    /// Whether nothing differs between this and `later`.
    fn is_as(&self, later: &Self) -> bool {
        (&self.answers, &self.table) == (&later.answers, &later.table)
            && tables::uninterrupted(&self.sessions, &later.sessions)
    }
}

/// Returns the hints in an answer, by prefix and entry.
fn told(body: &Value) -> BTreeSet<(String, String)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let hints = body["hints"].as_array().into_iter().flatten();
    hints.filter_map(|h| Some((text(&h["prefix"])?, text(&h["entry"])?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read_from_an_answer() {
        let body = json!({"neighbour": "x", "hints": [{"prefix": "10.0.0.0/8", "entry": "a"}, {"prefix": 1}]});
        assert_eq!(told(&body), [("10.0.0.0/8".to_owned(), "a".to_owned())].into());
        assert!(told(&Value::Null).is_empty());
    }

    #[test]
    fn changes_of_a_view_are_noticed() {
        let view = |hints: u64, entry: &str, since: &str| NeighbourView {
            provider: "x".to_owned(),
            answers: vec![json!({"version": hints})],
            table: [("10.0.0.0/8".parse().unwrap(), entry.to_owned())].into(),
            sessions: vec![Seen {
                entry: "a".to_owned(),
                established: true,
                since: since.to_owned(),
            }],
        };
        let first = view(1, "a", "09:45:13.934");
        assert!(first.is_as(&view(1, "a", "09:45:13.935")));
        assert!(!first.is_as(&view(2, "a", "09:45:13.934")));
        assert!(!first.is_as(&view(1, "b", "09:45:13.934")));
        assert!(!first.is_as(&view(1, "a", "09:45:20.934")));
    }
}
