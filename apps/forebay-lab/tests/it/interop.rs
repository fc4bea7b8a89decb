//! Tests mistakes in the arguments of `forebay lab interop`.

use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay-lab");

#[test]
fn mistakes_are_one_line_and_exit_with_2() {
    let run = |scenario: &str, arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["interop"]).args(arguments).env("SCENARIO", scenario);
        let out = command.stdin(Stdio::null()).output().unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    for (scenario, says) in [
        ("", "no scenario: write it in the variable SCENARIO"),
        ("simple-p2p --delay=15ms", "--bandwidth is missing"),
        ("rebind --first-rebind=1s", "scenario `rebind` is not supported"),
        ("tcp-cross-traffic --delay=15ms", "nothing here makes traffic"),
    ] {
        let (code, text) = run(scenario, &[]);
        assert!(code == Some(2) && text.contains(says) && text.lines().count() == 1, "{text}");
    }
    // An argument comes before the variable.
    let (code, text) = run("simple-p2p --delay=15ms", &["nothing"]);
    assert!(code == Some(2) && text.contains("unknown scenario `nothing`"), "{text}");
    let (code, text) = run("", &["--policy", "cake"]);
    assert!(code == Some(2) && text.contains("there are fifo, sfq, fq_codel"), "{text}");
}
