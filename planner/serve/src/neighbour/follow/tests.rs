use std::path::PathBuf;

use super::*;
use crate::neighbour::config::{Access, Gobgp, Url};

fn entry(next_hop: Option<&str>, v6: Option<&str>, usable: bool) -> Entry {
    Entry {
        next_hop: next_hop.map(|hop| hop.parse().unwrap()),
        next_hop_v6: v6.map(|hop| hop.parse().unwrap()),
        usable,
    }
}

/// Entries Rome with both IP versions, Oslo with IPv4 only, and Bern, which is not usable.
fn config() -> Config {
    let entries = [
        ("Rome", entry(Some("192.0.2.1"), Some("2001:db8::1"), true)),
        ("Oslo", entry(Some("192.0.2.2"), None, true)),
        ("Bern", entry(Some("192.0.2.3"), None, false)),
    ];
    Config {
        access: Access {
            url: Url { tls: false, host: "::1".to_owned(), port: 80 },
            token: None,
            authority: None,
            certificate: None,
        },
        out: PathBuf::new(),
        every: Duration::from_secs(60),
        hold: Duration::from_secs(900),
        accept: Some(["10.0.0.0/8", "2001:db8::/32"].map(|net| net.parse().unwrap()).to_vec()),
        entries: entries.map(|(name, entry)| (name.to_owned(), entry)).into(),
        gobgp: Some(Gobgp {
            speaker: "127.0.0.1:50051".to_owned(),
            journal: PathBuf::new(),
            command: PathBuf::new(),
        }),
    }
}

fn given(all: &[(&str, &str)]) -> Vec<Given> {
    let given = |(prefix, entry): &(&str, &str)| Given {
        prefix: prefix.parse().unwrap(),
        entry: (*entry).to_owned(),
    };
    all.iter().map(given).collect()
}

#[test]
fn changes_are_said_in_words() {
    let last = given(&[("10.0.0.0/16", "Rome"), ("10.1.0.0/16", "Rome"), ("10.2.0.0/16", "Oslo")]);
    let now = given(&[("10.0.0.0/16", "Rome"), ("10.1.0.0/16", "Oslo"), ("10.3.0.0/16", "Oslo")]);
    let said: Vec<_> = changes(&last, &now).iter().map(ToString::to_string).collect();
    let expected = [
        "move 10.1.0.0/16 from Rome to Oslo",
        "no longer send 10.2.0.0/16 through Oslo",
        "send 10.3.0.0/16 through Oslo",
    ];
    assert_eq!(said, expected);
    assert_eq!(changes(&now, &now), []);
}

#[test]
fn only_what_is_allowed_is_followed() {
    let hints = Hints {
        hints: given(&[
            ("10.0.0.0/16", "Rome"),
            ("2001:db8:1::/48", "Rome"),
            ("2001:db8:2::/48", "Oslo"),
            ("10.1.0.0/16", "Bern"),
            ("10.2.0.0/16", "Paris"),
            ("0.0.0.0/0", "Rome"),
            ("192.0.2.0/24", "Rome"),
            ("10.0.0.0/16", "Oslo"),
            ("10.4.0.1/16", "Rome"),
        ]),
        ..Hints::default()
    };
    let followed = follow(&hints, &config());
    assert_eq!(followed.hints, hints.hints[..2]);
    let hops: Vec<_> = followed.routes.iter().map(|r| r.next_hop.unwrap().to_string()).collect();
    assert_eq!(hops, ["192.0.2.1", "2001:db8::1"]);
    let why: Vec<_> = followed.declined.iter().map(|d| d.why).collect();
    let expected = [
        "its entry has no next hop of that IP version",
        "its entry is not usable",
        "its entry has no [[entry]]",
        "it is outside of the prefixes of `accept`",
        "it is outside of the prefixes of `accept`",
        "it is the second one for its prefix",
        "it has bits set after its length",
    ];
    assert_eq!(why, expected);
    // Without a speaker there are no routes, and without entries all are usable.
    let file = Config { gobgp: None, entries: BTreeMap::new(), ..config() };
    let followed = follow(&hints, &file);
    assert_eq!((followed.routes.len(), followed.hints.len()), (0, 5));
}

#[test]
fn a_prefix_that_moves_replaces_its_route() {
    use forebay_plan::hints::announce::{Journal, JournalEntry, Step, steps};
    let of = |entry: &str| {
        let hints = Hints { hints: given(&[("10.0.0.0/16", entry)]), ..Hints::default() };
        follow(&hints, &config()).routes
    };
    let mut journal = Journal::default();
    journal.record(&JournalEntry::Done(Step::Announce(of("Rome").remove(0))));
    assert_eq!(steps(&journal, &of("Oslo")), [Step::Announce(of("Oslo").remove(0))]);
    assert_eq!(steps(&journal, &[]), [Step::Withdraw(of("Rome").remove(0))]);
}

#[test]
fn entries_that_cannot_be_used_are_reported_once() {
    let config = config();
    let usable = usable_entries(&config).unwrap();
    assert_eq!(usable, ["Oslo", "Rome"].into());
    let view = json!({"view": "v2", "inputs": ["Rome", "Bern"], "outputs": [{}, {}]});
    let wishes = json!([{"output": 1, "input": "Rome", "demand": 5}]);
    let none = json!({"version": 0, "state": "none", "program": null});
    let reported = program(&view, &none, &usable).unwrap().unwrap();
    let avoid = json!([{"output": 0, "input": "Bern"}, {"output": 1, "input": "Bern"}]);
    assert_eq!(reported, json!({"view": "v2", "wishes": [], "avoid": avoid}));
    // Wishes stay, unless they are for another view.
    let own = |view: &str| json!({"program": {"view": view, "wishes": wishes, "avoid": []}});
    assert_eq!(program(&view, &own("v2"), &usable).unwrap().unwrap()["wishes"], wishes);
    assert_eq!(program(&view, &own("v1"), &usable).unwrap().unwrap()["wishes"], json!([]));
    // The service knows already.
    let known = json!({"program": reported});
    assert_eq!(program(&view, &known, &usable), Ok(None));
    // An entry that is usable again is reported too. Not all entries are avoided.
    let again = program(&view, &known, &["Rome", "Bern"].into()).unwrap().unwrap();
    assert_eq!(again["avoid"], json!([]));
    assert_eq!(program(&view, &none, &BTreeSet::new()), Ok(None));
    assert!(program(&json!({}), &none, &usable).is_err());
}

#[test]
fn hints_that_cannot_be_read_are_refused() {
    let good = json!({"neighbour": "x", "version": 3, "at": "now",
        "hints": [{"prefix": "10.0.0.0/8", "entry": "Rome"}]});
    assert_eq!(hints(&good).unwrap().hints, given(&[("10.0.0.0/8", "Rome")]));
    for wrong in
        [json!({}), json!([]), json!({"neighbour": "x", "version": 3, "at": "", "hints": [1]})]
    {
        assert!(hints(&wrong).unwrap_err().starts_with("the hints cannot be read"));
    }
}

#[test]
fn silence_is_over_once_after_each_answer() {
    let at = Duration::from_secs;
    let mut silence = Silence::new(at(900), at(0));
    assert!(!silence.is_over(at(899)));
    silence.answered(at(899));
    assert!(!silence.is_over(at(1798)));
    assert!(silence.is_over(at(1799)));
    assert!(!silence.is_over(at(5000)), "it was told");
    silence.answered(at(5000));
    assert!(!silence.is_over(at(5001)));
    assert!(silence.is_over(at(9000)));
}
