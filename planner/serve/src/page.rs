//! The operator's page: one HTML document with its pictures and style sheet. It loads nothing and
//! has no scripts.

mod links;
mod switch;
mod tables;

use forebay_picture::number::{self, rate};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use crate::metrics::list;

/// The style sheet of the page, beside those of pictures and of all pages.
const STYLE: &str = include_str!("page/page.css");

/// Renders the page for the operator's `state`.
pub(crate) fn page(state: &Value) -> String {
    let report = &state["report"];
    let network = report["network"].as_str().filter(|n| !n.is_empty()).unwrap_or("the network");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="refresh" content="30";
                title { "Forebay plan: " (network) }
                style {
                    (PreEscaped(forebay_picture::STYLE))
                    (PreEscaped(forebay_picture::PAGE_STYLE))
                    (PreEscaped(STYLE))
                }
            }
            body {
                main {
                    header { h1 { (network) } p { (summary(state)) } }
                    @if let Some(error) = state["error"].as_str() {
                        (notice("warning", &format!(
                            "The last round failed, and everything in force stays in force: {error}."
                        )))
                    }
                    @if let Some(failed) = announcement_error(state) {
                        (notice("warning", &failed))
                    }
                    @if report.is_object() {
                        (tiles(state))
                        (pictures(state))
                    } @else {
                        (notice("note", "There was no round since the start."))
                    }
                    section { h2 { "Hints" } (tables::hints(&state["hints"])) }
                    section { h2 { "Neighbours" } (tables::neighbours(state)) }
                    @if state["learned"].is_object() {
                        section { h2 { "Routes" } (tables::routes(&state["learned"])) }
                    }
                }
            }
        }
    };
    page.into_string()
}

fn pictures(state: &Value) -> Markup {
    html! {
        section {
            h2 { "The vSwitch" }
            p class="say" {
                "The neighbours' demands, from their entries at the left to the boundary routers at \
                 the right: as they come in now, and if the hints are followed."
            }
            (switch::pictures(list(&state["flows"])))
        }
        section {
            h2 { "Links and interconnections" }
            p class="say" {
                "The fullest, by utilisation: " span class="key now" { "now" } ", and "
                span class="key then" { "if the hints are followed" }
                " and the paths inside are the best for that."
            }
            (links::picture(list(&state["report"]["links"])))
        }
    }
}

fn summary(state: &Value) -> String {
    let every = duration(state["interval"].as_f64().unwrap_or(0.0));
    match (state["round"].as_u64(), state["at"].as_str()) {
        (Some(round), Some(at)) => {
            let age = duration(state["age"].as_f64().unwrap_or(0.0));
            let announces =
                if state["announces"] == true { "announced by BGP" } else { "not announced" };
            format!("Round {round} at {at}, {age} ago; one every {every}. Hints are {announces}.")
        }
        _ => format!("A round every {every}."),
    }
}

fn announcement_error(state: &Value) -> Option<String> {
    let announced = &state["announced"];
    if let Some(error) = announced["error"].as_str() {
        return Some(format!("Announcements have stopped: {error}."));
    }
    match announced["failed"].as_u64() {
        None | Some(0) => None,
        Some(failed) => Some(format!(
            "{failed} announcements or withdrawals failed in the last round. The next round tries \
             again; the log has the causes."
        )),
    }
}

fn notice(class: &str, text: &str) -> Markup {
    html! { p class={ "notice " (class) } { (text) } }
}

fn note(text: &str) -> Markup {
    html! { p class="say" { (text) } }
}

fn tiles(state: &Value) -> Markup {
    let report = &state["report"];
    let carried = |when: &str| report[when]["total"].as_f64().unwrap_or(0.0);
    let used = |when: &str| share(report[when]["most_used"].as_f64().unwrap_or(0.0));
    let (before, after) = (carried("before"), carried("after"));
    let gain = if before > 0.0 { (after / before - 1.0) * 100.0 } else { 0.0 };
    // The table of hints has these too.
    let hints = tables::in_force(&state["hints"]) as u64;
    let demand = rate(report["demand"].as_f64().unwrap_or(0.0));
    // Demand that full links hide is an estimate.
    let about = if state["estimated"].as_u64().is_some_and(|n| n > 0) { "about " } else { "" };
    let sign = if gain >= 0.05 { "+" } else { "" };
    html! {
        section class="tiles" {
            (tile("carried now", &rate(before), &format!("of {about}{demand} demand")))
            (tile("if the hints are followed", &rate(after), &format!("{sign}{gain:.1} %")))
            (tile(
                "the fullest link",
                &used("before"),
                &format!("{} if the hints are followed", used("after"))
            ))
            (tile(
                "hints in force",
                &number::count(hints),
                &format!("planned in {} ms", state["took"])
            ))
        }
    }
}

fn tile(name: &str, value: &str, detail: &str) -> Markup {
    html! { div class="tile" { span { (name) } strong { (value) } em { (detail) } } }
}

/// Formats a part from 0 to 1 in whole per cent.
fn share(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_escaped_and_nothing_is_loaded() {
        let evil = "<script>alert(1)</script>";
        let state = json!({
            "estimated": 1, "interval": 300, "round": 3, "at": "now", "age": 5, "error": evil,
            "announced": {"error": evil},
            "neighbours": [{"name": evil, "state": "lapsed", "reason": {"message": evil}, "hints": 1}],
            "hints": {"neighbours": [{"name": evil, "gain": 1e9, "notes": [evil], "withdrawn": [],
                "hints": [{"prefix": evil, "entry": evil, "router": evil, "demand": 1e9, "state": "new",
                           "before": [{"entry": evil, "part": 1.0}], "method": "med"}]}]},
            "flows": [{"provider": evil, "entry": evil, "router": evil, "now": 1e9, "after": 1e9}],
            "report": {"network": evil, "demand": 2e9, "before": {"total": 1e9, "most_used": 0.5},
                "after": {"total": 2e9, "most_used": 0.9},
                "links": [{"from": evil, "to": evil, "capacity": 1e9, "before": 5e8, "after": 9e8}]},
        });
        let html = page(&state);
        assert!(!html.contains("<script") && html.contains("&lt;script&gt;"));
        for outside in ["http://", "https://", "src=", "href=", "url("] {
            let without = html.replace("http-equiv", "");
            assert!(!without.contains(outside), "{outside}");
        }
        assert!(html.contains("+100.0 %") && html.contains("of about 2.00 Gbit/s demand"));
    }

    #[test]
    fn a_page_before_the_first_round() {
        let html = page(&json!({"interval": 60, "neighbours": []}));
        assert!(html.contains("There was no round since the start."), "{html}");
    }
}
