//! The operator's page: one HTML document, with its pictures and its style in it, that loads nothing and runs nothing.

mod links;
mod switch;
mod tables;

use forebay_picture::{escape, number};
use forebay_units::Rate;
use serde_json::Value;

/// The page's own style, beside that of its pictures.
const STYLE: &str = include_str!("page/page.css");

/// The page that shows what the operator's `state` says.
pub(crate) fn page(state: &Value) -> String {
    let report = &state["report"];
    let network = report["network"].as_str().filter(|n| !n.is_empty()).unwrap_or("the network");
    let title = format!("Forebay plan: {network}");
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"refresh\" content=\"30\">\n<title>{}</title>\n\
         <style>\n{}{STYLE}</style></head>\n<body><main>\n<header><h1>{}</h1>\n<p>{}</p></header>\n",
        escape(&title),
        forebay_picture::STYLE,
        escape(network),
        escape(&standing(state)),
    );
    if let Some(error) = state["error"].as_str() {
        out += &notice(
            "warning",
            &format!(
                "The last round came to nothing, and what was in force before stays: {error}."
            ),
        );
    }
    if let Some(failed) = announcing(state) {
        out += &notice("warning", &failed);
    }
    if report.is_object() {
        out += &tiles(state);
        let flows = state["flows"].as_array().map_or(&[][..], Vec::as_slice);
        out += "<section><h2>The vSwitch</h2>\n<p class=\"say\">What neighbours ask for, from their entries at the left to \
                the boundary routers at the right: as it comes in now, and as it would if hints are followed.</p>\n";
        out += &switch::pictures(flows);
        out += "</section>\n<section><h2>Links and interconnections</h2>\n<p class=\"say\">The fullest, by how much of \
                their capacity is used: <span class=\"key now\">now</span>, and \
                <span class=\"key then\">if hints are followed</span> and the paths inside are the best for that.</p>\n";
        out += &links::picture(report["links"].as_array().map_or(&[][..], Vec::as_slice));
        out += "</section>\n";
    } else {
        out += &notice("note", "There was no round since the start.");
    }
    out += "<section><h2>Hints</h2>\n";
    out += &tables::hints(&state["hints"]);
    out += "</section>\n<section><h2>Neighbours</h2>\n";
    out += &tables::neighbours(state);
    out += "</section>\n</main></body></html>\n";
    out
}

fn standing(state: &Value) -> String {
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

fn announcing(state: &Value) -> Option<String> {
    let announced = &state["announced"];
    if let Some(error) = announced["error"].as_str() {
        return Some(format!("Nothing more is announced: {error}."));
    }
    match announced["failed"].as_u64() {
        None | Some(0) => None,
        Some(failed) => Some(format!(
            "{failed} announcements or withdrawals failed in the last round. The next tries again; the log says why."
        )),
    }
}

fn notice(class: &str, text: &str) -> String {
    format!("<p class=\"notice {class}\">{}</p>\n", escape(text))
}

fn tiles(state: &Value) -> String {
    let report = &state["report"];
    let carried = |when: &str| report[when]["total"].as_f64().unwrap_or(0.0);
    let used = |when: &str| share(report[when]["most_used"].as_f64().unwrap_or(0.0));
    let (before, after) = (carried("before"), carried("after"));
    let gain = if before > 0.0 { (after / before - 1.0) * 100.0 } else { 0.0 };
    let hints: usize = state["neighbours"]
        .as_array()
        .map_or(0, |all| all.iter().filter_map(|n| n["hints"].as_u64()).sum::<u64>() as usize);
    let tile = |name: &str, value: &str, more: &str| {
        format!(
            "<div class=\"tile\"><span>{name}</span><strong>{}</strong><em>{}</em></div>\n",
            escape(value),
            escape(more)
        )
    };
    let asked = rate(report["demand"].as_f64().unwrap_or(0.0));
    // What full links hide is not known.
    let about = if state["estimated"].as_u64().is_some_and(|n| n > 0) { "about " } else { "" };
    let sign = if gain >= 0.05 { "+" } else { "" };
    format!(
        "<section class=\"tiles\">\n{}{}{}{}</section>\n",
        tile("carried now", &rate(before), &format!("of {about}{asked} asked for")),
        tile("if hints are followed", &rate(after), &format!("{sign}{gain:.1} %")),
        tile(
            "the fullest link",
            &used("before"),
            &format!("{} if they are followed", used("after"))
        ),
        tile(
            "hints in force",
            &number::count(hints as u64),
            &format!("planned in {} ms", state["took"])
        ),
    )
}

/// A rate as people say it.
fn rate(bps: f64) -> String {
    let (value, unit) = match bps {
        b if b >= 1e12 => (b / 1e12, "Tbit/s"),
        b if b >= 1e9 => (b / 1e9, "Gbit/s"),
        b if b >= 1e6 => (b / 1e6, "Mbit/s"),
        b if b >= 1e3 => (b / 1e3, "kbit/s"),
        b => return Rate::from_bps_f64(b).to_string(),
    };
    format!("{} {unit}", number::figure(value))
}

/// A share in whole per cent.
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
    fn names_cannot_become_markup_and_nothing_is_loaded() {
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
        assert!(html.contains("+100.0 %") && html.contains("of about 2.00 Gbit/s asked for"));
    }

    #[test]
    fn a_page_before_the_first_round() {
        let html = page(&json!({"interval": 60, "neighbours": []}));
        assert!(html.contains("There was no round since the start."), "{html}");
    }
}
