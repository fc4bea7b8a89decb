//! The report, as text and as JSON.

use std::fmt;

use serde::Serialize;

/// A role of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A sendbox with queues in user space.
    SendboxUser,
    /// A sendbox over the kernel's queues.
    SendboxKernel,
    /// A receivebox of any bundles.
    Receivebox,
}

impl Role {
    pub(super) const ALL: [Self; 3] = [Self::SendboxUser, Self::SendboxKernel, Self::Receivebox];
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SendboxUser => "a sendbox with dataplane = \"user\"",
            Self::SendboxKernel => "a sendbox with dataplane = \"kernel\"",
            Self::Receivebox => "a receivebox",
        })
    }
}

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything is as it should be.
    Ok,
    /// The operator should know this.
    Note,
    /// A box would not start, or would do harm.
    Problem,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The area of the check.
    pub area: &'static str,
    /// The object of the check.
    pub what: String,
    /// What the check found.
    pub found: String,
    /// The verdict on the finding.
    pub verdict: Verdict,
    /// The roles that the finding rules out.
    pub stops: Vec<Role>,
    /// The advice, or the meaning of the finding.
    pub advice: Option<String>,
}

impl Check {
    pub(super) fn new(
        area: &'static str,
        what: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let (what, found) = (what.into(), found.into());
        Self { area, what, found, verdict: Verdict::Ok, stops: Vec::new(), advice: None }
    }

    /// Sets the verdict to a note, with its reason.
    pub(super) fn note(self, advice: impl Into<String>) -> Self {
        let verdict = self.verdict.max(Verdict::Note);
        Self { verdict, advice: Some(advice.into()), ..self }
    }

    /// Sets the verdict to a problem for `roles`, with advice.
    pub(super) fn stops(self, roles: &[Role], advice: impl Into<String>) -> Self {
        Self { stops: roles.to_vec(), ..self.note(advice) }
    }
}

/// The results of all checks.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The wanted role; `None` is a sendbox over either dataplane, and a receivebox.
    wanted: Option<Role>,
    /// The possible roles.
    possible: Vec<Role>,
    /// Whether the wanted role is possible.
    healthy: bool,
    checks: Vec<Check>,
}

impl Report {
    /// Judges `checks` by the wanted role. Without one, a sendbox over either dataplane and a
    /// receivebox count.
    pub(super) fn new(wanted: Option<Role>, mut checks: Vec<Check>) -> Self {
        let stopped = |role| checks.iter().any(|c| c.stops.contains(&role));
        let possible: Vec<Role> = Role::ALL.into_iter().filter(|r| !stopped(*r)).collect();
        let healthy = serves(wanted, &possible);
        for check in &mut checks {
            let left: Vec<Role> =
                Role::ALL.into_iter().filter(|r| !check.stops.contains(r)).collect();
            if !serves(wanted, &left) {
                check.verdict = Verdict::Problem;
            }
        }
        Self { wanted, possible, healthy, checks }
    }

    /// Whether the wanted role is possible.
    pub fn is_healthy(&self) -> bool {
        self.healthy
    }

    /// Returns the results of the checks.
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }
}

/// Whether the wanted role is among the possible ones.
fn serves(wanted: Option<Role>, possible: &[Role]) -> bool {
    match wanted {
        Some(role) => possible.contains(&role),
        None => {
            let any_sendbox = [Role::SendboxUser, Role::SendboxKernel];
            any_sendbox.iter().any(|r| possible.contains(r)) && possible.contains(&Role::Receivebox)
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.checks.iter().map(|c| c.what.chars().count()).max().unwrap_or(0);
        let mut area = "";
        for check in &self.checks {
            if check.area != area {
                let gap = if area.is_empty() { "" } else { "\n" };
                writeln!(f, "{gap}{}", check.area)?;
                area = check.area;
            }
            let verdict = match check.verdict {
                Verdict::Ok => "ok",
                Verdict::Note => "note",
                Verdict::Problem => "PROBLEM",
            };
            writeln!(f, "  {verdict:7}  {:width$}  {}", check.what, check.found)?;
            for line in check.advice.iter().flat_map(|advice| wrapped(advice)) {
                writeln!(f, "  {:7}  {:width$}    {line}", "", "")?;
            }
        }
        writeln!(f)?;
        for role in self.wanted.map_or(Role::ALL.to_vec(), |role| vec![role]) {
            if self.possible.contains(&role) {
                writeln!(f, "Nothing here stops {role}.")?;
                continue;
            }
            let stopping = self.checks.iter().filter(|c| c.stops.contains(&role));
            let names: Vec<&str> = stopping.map(|c| c.what.as_str()).collect();
            writeln!(f, "Stopped here: {role}, by {}.", names.join(", "))?;
        }
        Ok(())
    }
}

/// The width of the column of advice.
const COLUMNS: usize = 90;

/// Wraps `text` into lines.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stops: &[Role]) -> Check {
        let check = Check::new("kernel", "release", "2.6.32");
        if stops.is_empty() { check } else { check.stops(stops, "take a newer one") }
    }

    #[test]
    fn what_stops_a_box_is_a_problem_where_that_box_is_wanted() {
        use Role::{Receivebox, SendboxKernel, SendboxUser};
        for (wanted, stops, verdict) in [
            (None, vec![], Verdict::Ok),
            (None, vec![SendboxKernel], Verdict::Note),
            (None, vec![SendboxKernel, SendboxUser], Verdict::Problem),
            (None, vec![Receivebox], Verdict::Problem),
            (Some(SendboxKernel), vec![SendboxKernel], Verdict::Problem),
            (Some(SendboxKernel), vec![SendboxUser, Receivebox], Verdict::Note),
        ] {
            let report = Report::new(wanted, vec![check(&stops)]);
            assert_eq!(report.checks()[0].verdict, verdict, "{wanted:?} {stops:?}");
            assert_eq!(report.is_healthy(), verdict != Verdict::Problem);
        }
    }

    #[test]
    fn two_that_each_stop_one_dataplane_stop_a_sendbox() {
        let checks = vec![check(&[Role::SendboxKernel]), check(&[Role::SendboxUser])];
        let report = Report::new(None, checks);
        assert!(!report.is_healthy());
    }

    #[test]
    fn it_is_read_at_a_glance() {
        let mut checks = vec![check(&[]), check(&[Role::SendboxKernel])];
        checks.push(Check::new("clocks", "clock source", "hpet").note("reading it is slow"));
        checks[1].what = "queues".to_owned();
        let expected = "\
kernel
  ok       release       2.6.32
  note     queues        2.6.32
                           take a newer one

clocks
  note     clock source  hpet
                           reading it is slow

Nothing here stops a sendbox with dataplane = \"user\".
Stopped here: a sendbox with dataplane = \"kernel\", by queues.
Nothing here stops a receivebox.
";
        assert_eq!(Report::new(None, checks).to_string(), expected);
    }

    #[test]
    fn advice_is_in_lines() {
        let text = vec!["word"; 40].join(" ");
        let lines = wrapped(&text);
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|l| l.len() <= COLUMNS));
        assert_eq!(lines.join(" "), text);
    }

    #[test]
    fn programs_read_it_too() {
        let report = Report::new(Some(Role::Receivebox), vec![check(&[Role::Receivebox])]);
        let json = serde_json::to_value(&report).unwrap();
        let expected = serde_json::json!({
            "wanted": "receivebox",
            "possible": ["sendbox_user", "sendbox_kernel"],
            "healthy": false,
            "checks": [{
                "area": "kernel", "what": "release", "found": "2.6.32", "verdict": "problem",
                "stops": ["receivebox"], "advice": "take a newer one",
            }],
        });
        assert_eq!(json, expected);
    }
}
