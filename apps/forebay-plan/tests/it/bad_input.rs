//! Tests that bad input gives one clear line on standard error and exit status 2, and changes
//! nothing.

use std::process::{Command, Output};

use forebay_test_support::Dir;

fn forebay_plan(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay-plan")).args(args).output().unwrap()
}

#[test]
fn a_plans_files_are_named_by_line() {
    let dir = Dir::new("plan");
    let topology = "graph [\n node [ id 0 label \"A\" ]\n node [ id 1 label \"B\" ]\n edge [ source 0 target 1 ]\n]\n";
    let providers = "[[provider]]\nname = \"x\"\nentry = [{ router = \"A\" }]\n";
    let good = [
        ("t.gml", topology),
        ("p.toml", providers),
        ("d.csv", "provider,entry,router,demand\nx,A,B,1 Gbit/s\n"),
    ];
    let solve = |bad: &str, text: &str| {
        let files =
            good.map(|(name, own)| dir.file(name, if name == bad { text } else { own }, 0o644));
        let [t, p, d] = files.each_ref().map(|f| f.to_str().unwrap());
        forebay_plan(&["solve", "--topology", t, "--providers", p, "--demands", d])
    };
    let plan = solve("", "");
    assert!(plan.status.success(), "{plan:?}");
    assert!(String::from_utf8(plan.stdout).unwrap().contains("1.00 Gbit/s demand"));
    let cases = [
        ("t.gml", "graph [\n node [ ]\n]\n", "t.gml:2: a node has no id: give it one"),
        ("p.toml", "[[provider]]\nname = 3\n", "p.toml:2: provider.name: invalid type"),
        (
            "d.csv",
            "provider,entry,router,demand\nx,A,C,1\n",
            "d.csv:2: the topology has no router \"C\"",
        ),
    ];
    for (file, text, expected) in cases {
        let output = solve(file, text);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.replace(&format!("{}/", dir.0.display()), "")
                .starts_with(&format!("forebay-plan: {expected}")),
            "{said}"
        );
    }
}
