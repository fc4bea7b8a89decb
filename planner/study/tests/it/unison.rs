//! Runs the evaluation on small networks, and checks its page.

use std::cell::RefCell;

use forebay_claims::age::{Age, Ages};
use forebay_claims::judge::AFTER;
use forebay_plan::synthetic::{Draw, plane};
use forebay_plan::topology::Topology;
use forebay_study::{self as study, Setup};

/// Returns three small networks, the smallest first.
pub(crate) fn topologies() -> [Topology; 3] {
    [(6, 1.2), (8, 1.6), (7, 1.9)].map(|(n, links)| plane(n, links, &mut Draw::new(n as u64)))
}

#[test]
fn the_study_runs_on_small_networks_and_its_page_shows_every_claim() {
    let topologies = topologies();
    let setup = Setup { topologies: &topologies, seeds: 1, congestion: 0.5, routers: None };
    let said = RefCell::new(Vec::new());
    let results =
        study::run(&setup, true, &|what| said.borrow_mut().push(what.to_owned())).unwrap();
    assert!(said.borrow().iter().any(|s| s.starts_with("dynamic traffic")));

    assert_eq!(results.gains.len(), 3);
    for gain in &results.gains {
        // More freedom never costs; whole aggregates never carry more than split ones.
        assert!(gain.unison[0] >= gain.intra[0] - 0.02 && gain.intra[0] >= -1e-6, "{gain:?}");
        assert!(gain.whole[0] <= gain.unison[0] + 0.02, "{gain:?}");
        assert_eq!(gain.providers.len(), 20);
    }
    // The two smallest are looked at closely.
    assert_eq!((results.dynamic.len(), results.grain.len(), results.fair.len()), (2, 2, 14));
    assert_eq!(results.literal.len(), 14);
    for fair in results.fair.iter().chain(&results.literal) {
        assert!(fair.wba <= fair.most + 1e-6 && fair.most <= 1.0 + 1e-9, "{fair:?}");
    }
    for partial in &results.partial {
        assert!(partial.staying.iter().all(|(all, partial)| *all >= -1e-4 && partial.abs() < 1e-6));
        assert_eq!((partial.joining.len(), partial.staying.len()), (10, 10));
    }
    for window in results.dynamic.iter().flat_map(|d| &d.windows) {
        assert!(window.reserved <= window.shared + 1e-9, "{window:?}");
    }

    let age = Age { commits: 2, last: "abcdef0".to_owned(), day: "2026-11-22".to_owned() };
    let results_age = [("results".to_owned(), age)].into();
    let ages = Ages { results: results_age, ..Ages::default() };
    let page = study::page(&results, "- A note.", &[], &ages, "unison");
    let claims = study::claims(&results);
    // The page wraps its sentences.
    let unwrapped = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains(&study::tally(&results).sentence()), "{page}");
    for claim in &claims {
        let row = page.lines().find(|l| l.contains(&format!("| {}: {}", claim.source, claim.what)));
        let failed = claim.judge(&results).is_outside();
        assert_eq!(row.unwrap().contains("**"), failed, "{}", claim.what);
        assert!(!row.unwrap().contains(AFTER), "the bands are stored with the run");
    }
    assert!(
        page.contains("- A note.") && unwrapped.contains("2 commits since then, the last abcdef0")
    );
    assert!(unwrapped.contains("None, as far as the git history shows."));
    let stored = serde_json::to_string(&results).unwrap();
    let read: study::Results = serde_json::from_str(&stored).unwrap();
    assert_eq!(study::page(&read, "- A note.", &[], &ages, "unison"), page);
    let pictures = study::pictures(&results);
    for (name, svg) in &pictures {
        assert!(
            page.contains(&format!("unison/{name}.svg")) && svg.ends_with("</svg>\n"),
            "{name}"
        );
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
    }
}

/// Runs the study twice, and asserts that the same again is the same, but for times.
pub(crate) fn assert_repeats(topologies: &[Topology], synthetic: bool) {
    let setup = Setup { topologies, seeds: 1, congestion: 0.5, routers: None };
    let [one, other] = [(); 2].map(|()| study::run(&setup, synthetic, &|_| {}).unwrap());
    assert_eq!(
        (&one.gains, &one.fair, &one.literal, &one.dynamic),
        (&other.gains, &other.fair, &other.literal, &other.dynamic)
    );
}

#[test]
fn the_study_of_the_smallest_network_repeats() {
    assert_repeats(&topologies()[..1], false);
}
