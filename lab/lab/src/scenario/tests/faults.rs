//! Faults of boxes, clocks, routes and feedback.

use super::*;

const TWO_FAULTS: &str = r#"[[fault]]
process = "receivebox"
at = "6 s"
back = "9 s"
[[fault]]
process = "receivebox"
at = "2 s"
back = "5 s"
"#;

#[test]
fn faults_are_ordered_and_cut_with_the_run() {
    let secs = Nanos::from_secs;
    let fault = |at, back: Option<u64>| Fault {
        at: secs(at),
        kind: FaultKind::Killed { process: Process::Receivebox, back: back.map(secs) },
    };
    let text = MINIMAL.to_owned() + TWO_FAULTS;
    let cell = parse(FilePath::new("x.toml"), &text).unwrap().cells.remove(0);
    assert_eq!(cell.faults, [fault(2, Some(5)), fault(6, Some(9))]);
    let cut = |duration| cell.clone().measured_for(secs(duration)).faults;
    assert_eq!(cut(20), cell.faults);
    assert_eq!(cut(9), [fault(2, Some(5)), fault(6, None)], "it would be back when all is over");
    assert_eq!(cut(6), [fault(2, Some(5))]);
}

#[test]
fn invalid_faults_are_refused() {
    let cases = [
        (
            "\"receivebox\"",
            "\"link\"",
            "x.toml:14: fault.process: unknown variant `link`, expected `receivebox` or `sendbox`",
        ),
        ("\"6 s\"", "\"10 s\"", "x.toml:15: fault.at: must be within the run of 10.000 s"),
        (
            "\"9 s\"",
            "\"10 s\"",
            "x.toml:16: fault.back: must be after at = 6.000 s, within the run of 10.000 s",
        ),
        (
            "\"5 s\"",
            "\"2 s\"",
            "x.toml:20: fault.back: must be after at = 2.000 s, within the run of 10.000 s",
        ),
        (
            "back = \"5 s\"\n",
            "",
            "x.toml:15: fault.at: the receivebox is dead then: let another fault bring it `back` before",
        ),
        (
            "\"5 s\"",
            "\"6 s\"",
            "x.toml:15: fault.at: the receivebox is dead then: let another fault bring it `back` before",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(TWO_FAULTS.contains(from), "{from}");
        assert_eq!(error(&(MINIMAL.to_owned() + &TWO_FAULTS.replacen(from, to, 1))), expected);
    }
    let many = "[[fault]]\nprocess = \"receivebox\"\nat = \"1 s\"\n".repeat(101);
    let said = error(&(MINIMAL.to_owned() + &many));
    assert!(said.ends_with("fault: at most 100 faults are allowed"), "{said}");
}

#[test]
fn clocks_jump_routes_change_and_feedback_is_lost() {
    let with = |faults: &str| {
        let text = MINIMAL.replace("[[traffic]]", "feedback_loss = \"30 %\"\n[[traffic]]");
        parse(FilePath::new("x.toml"), &(text + faults)).map(|mut e| e.cells.remove(0))
    };
    let cell = with(
        "[[fault]]\nat = \"4 s\"\nrtt = \"90 ms\"\n[[fault]]\nat = \"2 s\"\nclock = \"receivebox\"\n\
         behind = \"1 s\"\n[[fault]]\nat = \"3 s\"\nclock = \"sendbox\"\nahead = \"5 s\"\n",
    );
    let cell = cell.unwrap();
    assert_eq!(cell.conditions.feedback_loss, 0.3);
    let kinds: Vec<_> = cell.faults.iter().map(|f| f.kind).collect();
    let clock = |of, by| FaultKind::Clock { of, by };
    assert_eq!(
        kinds,
        [
            clock(Clock::Receivebox, -1_000_000_000),
            clock(Clock::Sendbox, 5_000_000_000),
            FaultKind::Route { rtt: Nanos::from_millis(90) },
        ]
    );
    let one = "x.toml:15: fault: give it process, clock or rtt, one of them: a process may come \
               `back`, a clock goes `ahead` or `behind`";
    for (keys, says) in [
        ("", one),
        ("clock = \"sendbox\"\nrtt = \"1 ms\"\n", one),
        ("rtt = \"1 ms\"\nback = \"3 s\"\n", one),
        ("rtt = \"3 s\"\n", "x.toml:16: fault.rtt: must be at most 2 s"),
        (
            "clock = \"receivebox\"\n",
            "x.toml:15: fault.clock: a clock goes `ahead` or `behind`: give one of them",
        ),
        (
            "clock = \"sendbox\"\nbehind = \"1 s\"\n",
            "x.toml:17: fault.behind: the sendbox's clock is monotonic: it only goes `ahead`",
        ),
    ] {
        let said = with(&format!("[[fault]]\nat = \"2 s\"\n{keys}")).unwrap_err().to_string();
        assert_eq!(said, says, "{keys}");
    }
}
