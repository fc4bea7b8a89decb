//! The tables of hints and of neighbours.

use maud::{Markup, html};
use serde_json::Value;

use super::{duration, note, rate, share};

/// The most hints on the page; `/operator/state` has all of them.
const MAX_HINTS: usize = 200;

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn row(class: &str, cells: &[(&str, String)]) -> Markup {
    html! {
        tr class=(class) {
            @for (class, cell) in cells { td class=(class) { (cell) } }
        }
    }
}

fn table(heads: &[&str], rows: &[Markup]) -> Markup {
    html! {
        div class="scroll" {
            table {
                thead { tr { @for head in heads { th { (head) } } } }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

/// The number of hints in force.
pub(super) fn in_force(hints: &Value) -> usize {
    array(&hints["neighbours"]).iter().map(|neighbour| array(&neighbour["hints"]).len()).sum()
}

/// Renders all hints in force, and those that were withdrawn in the last round.
pub(super) fn hints(hints: &Value) -> Markup {
    let (mut rows, mut count) = (Vec::new(), 0);
    for neighbour in array(&hints["neighbours"]) {
        let name = text(&neighbour["name"]);
        let given = array(&neighbour["hints"]).iter().map(|h| (h, text(&h["state"])));
        let gone = array(&neighbour["withdrawn"]).iter().map(|h| (h, "withdrawn"));
        for (hint, state) in given.chain(gone) {
            count += 1;
            if count > MAX_HINTS {
                continue;
            }
            let was = array(&hint["before"]).iter().map(|part| match part["part"].as_f64() {
                Some(p) if p < 0.995 => format!("{} ({})", text(&part["entry"]), share(p)),
                _ => text(&part["entry"]).to_owned(),
            });
            let method = match text(&hint["method"]) {
                "" => "service",
                "med" => "MED",
                "more_specific" => "more specific",
                other => other,
            };
            rows.push(row(
                state,
                &[
                    ("", name.to_owned()),
                    ("code", text(&hint["prefix"]).to_owned()),
                    ("strong", text(&hint["entry"]).to_owned()),
                    ("", was.collect::<Vec<_>>().join(" + ")),
                    ("right", rate(hint["demand"].as_f64().unwrap_or(0.0))),
                    ("", method.to_owned()),
                    ("state", state.to_owned()),
                ],
            ));
        }
    }
    if count == 0 {
        return note("No hint gains enough.");
    }
    let heads = ["neighbour", "prefix", "should enter at", "entered at", "demand", "sent by", ""];
    html! {
        (table(&heads, &rows))
        @if count > MAX_HINTS { (note(&format!("{} more are not shown.", count - MAX_HINTS))) }
    }
}

/// Renders the state of each neighbour.
pub(super) fn neighbours(state: &Value) -> Markup {
    let results = array(&state["report"]["providers"]);
    let told = array(&state["hints"]["neighbours"]);
    let mut rows = Vec::new();
    for neighbour in array(&state["neighbours"]) {
        let name = text(&neighbour["name"]);
        let result = results.iter().find(|r| r["name"] == name).unwrap_or(&Value::Null);
        let own = told.iter().find(|t| t["name"] == name).unwrap_or(&Value::Null);
        let satisfied = |key: &str| result[key].as_f64().map_or("–".to_owned(), share);
        let damped = neighbour["damped_for"].as_f64();
        let status = match damped {
            Some(wait) => format!("damped for {}", duration(wait)),
            None => match text(&neighbour["state"]) {
                "none" => "no program".to_owned(),
                "taken" => format!("program {} taken", neighbour["version"]),
                "waiting" => format!("program {} waits for the next round", neighbour["version"]),
                _ => format!(
                    "program {} lapsed: {}",
                    neighbour["version"],
                    text(&neighbour["reason"]["message"])
                ),
            },
        };
        let mut notes: Vec<String> =
            array(&own["notes"]).iter().map(|n| text(n).to_owned()).collect();
        if let Some(followed) = own["followed"].as_f64() {
            notes.insert(0, format!("follows {}", share(followed)));
        }
        let class = if damped.is_some() { "damped" } else { text(&neighbour["state"]) };
        rows.push(row(
            class,
            &[
                ("strong", name.to_owned()),
                ("state", status),
                ("right", neighbour["hints"].to_string()),
                (
                    "right",
                    format!(
                        "{} → {}",
                        satisfied("satisfaction_before"),
                        satisfied("satisfaction_after")
                    ),
                ),
                ("right", neighbour["penalty"].to_string()),
                ("right", neighbour["refused"].to_string()),
                ("", notes.join("; ")),
            ],
        ));
    }
    if rows.is_empty() {
        return note("No neighbour has access to the service yet.");
    }
    let heads = ["neighbour", "program", "hints", "satisfaction", "penalty", "refused", ""];
    table(&heads, &rows)
}

/// Renders the sessions of the routers that report routes.
pub(super) fn routes(learned: &Value) -> Markup {
    let report = &learned["report"];
    let session = |session: &Value| {
        let state = text(&session["state"]);
        let since = duration(session["seconds"].as_f64().unwrap_or(0.0));
        let heard = session["heard"].as_f64();
        let complete = if session["complete"] == true { "all" } else { "not all" };
        row(
            state,
            &[
                ("strong", text(&session["router"]).to_owned()),
                ("state", format!("{state} for {since}")),
                ("", heard.map_or("–".to_owned(), |h| format!("{} ago", duration(h)))),
                ("right", session["peers"].to_string()),
                ("right", session["routes"].to_string()),
                ("", complete.to_owned()),
                ("right", session["cuts"].to_string()),
                ("", text(&session["ended"]).to_owned()),
            ],
        )
    };
    let rows: Vec<Markup> = array(&report["sessions"]).iter().map(session).collect();
    let heads =
        ["router", "session", "heard", "peers", "routes", "there", "cuts", "cut last since"];
    let prefixes = learned["round"]["prefixes"].as_u64();
    html! {
        p class="say" {
            (report["routes"].to_string()) " routes"
            @if let Some(prefixes) = prefixes { "; " (prefixes) " prefixes of users in the last round" }
            "."
        }
        (table(&heads, &rows))
        @for (what, key) in [
            ("Routers of the topology's file that no session, route or BGP-LS shows", "unseen"),
            ("Routers of BGP-LS that the topology's file does not have", "unknown"),
            ("Links of BGP-LS that the topology's file does not have", "links_only_reported"),
            ("Links of the topology's file that BGP-LS does not have", "links_only_in_file"),
        ] {
            @let names = array(&learned["round"]["topology"][key]["names"]);
            @if !names.is_empty() {
                p class="say" { (what) ": " (names.iter().map(text).collect::<Vec<_>>().join(", ")) "." }
            }
        }
    }
}
