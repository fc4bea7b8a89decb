//! Runs the example of the book for networks of SNDlib, and the same network in SNDlib's XML and as
//! REPETITA has it.

use std::path::Path;
use std::process::{Command, Output};

use forebay_test_support::Dir;

const BOOK: &str = include_str!("../../../../docs/src/plan.md");
/// The network of the book in SNDlib's XML.
const XML: &str = "<network><networkStructure><nodes><node id=\"West\"/><node id=\"Mid\"/>\
<node id=\"East\"/></nodes><links>\
<link id=\"L1\"><source>West</source><target>Mid</target><preInstalledModule>\
<capacity>100</capacity></preInstalledModule><routingCost>1</routingCost></link>\
<link id=\"L2\"><source>Mid</source><target>East</target><preInstalledModule>\
<capacity>100</capacity></preInstalledModule><routingCost>1</routingCost></link>\
<link id=\"L3\"><source>West</source><target>East</target><routingCost>3</routingCost>\
<additionalModules><addModule><capacity>100</capacity></addModule></additionalModules></link>\
</links></networkStructure><demands><demand id=\"D1\"><source>West</source><target>East</target>\
<demandValue>150</demandValue></demand></demands></network>\n";
/// The network and the demand of the book as REPETITA has them: in kbit/s.
const GRAPH: &str = "NODES 3\nlabel x y\nWest -7.5 50.2\nMid 0.0 49.0\nEast 2.3 48.8\n\nEDGES 6\n\
label src dest weight bw delay\ne0 0 1 1 100000 10\ne1 1 0 1 100000 10\ne2 1 2 1 100000 10\n\
e3 2 1 1 100000 10\ne4 0 2 3 100000 10\ne5 2 0 3 100000 10\n";
const DEMANDS: &str = "DEMANDS 1\nlabel src dest bw\nd0 0 2 150000\n";

/// The first block of shell commands in the section with this title.
fn example(title: &str) -> &'static str {
    let (_, section) = BOOK.split_once(title).unwrap();
    let (_, block) = section.split_once("```sh\n").unwrap();
    block.split_once("```").unwrap().0
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_example_of_the_book_works() {
    let dir = Dir::new("plan-formats");
    let program = Path::new(env!("CARGO_BIN_EXE_forebay-plan"));
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let shell = example("### Networks of SNDlib and REPETITA\n");
    let mut command = Command::new("sh");
    command.current_dir(&dir.0).env("PATH", path).args(["-e", "-c", shell]);
    let text = said(&command.output().unwrap());
    // By the one path of OSPF 100 of 150 Mbit/s, and all by both paths.
    let carried = text.lines().find(|line| line.starts_with("carried")).unwrap();
    assert!(carried.ends_with(" 100 Mbit/s  150 Mbit/s"), "{text}");

    dir.file("small.xml", XML, 0o644);
    dir.file("small.graph", GRAPH, 0o644);
    dir.file("small.demands", DEMANDS, 0o644);
    for (topology, demands) in [("small.xml", "small.xml"), ("small.graph", "small.demands")] {
        let mut command = Command::new(program);
        command.current_dir(&dir.0).args(["solve", "--topology", topology]);
        command.args(["--providers", "all.toml", "--demands", demands]);
        assert_eq!(said(&command.output().unwrap()), text, "{topology}");
    }
}

#[test]
fn errors_name_file_and_line() {
    let dir = Dir::new("plan-formats-bad");
    dir.file("small.graph", GRAPH, 0o644);
    dir.file("all.toml", "[[provider]]\nname = \"all\"\nentry = [{ router = \"Mid\" }]\n", 0o644);
    dir.file("d", DEMANDS, 0o644);
    let run = |topology: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-plan"));
        command.current_dir(&dir.0).args(["solve", "--topology", topology]);
        command.args(["--providers", "all.toml", "--demands", "d"]).output().unwrap()
    };
    let error = |output: Output| {
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let text = error(run("small.graph"));
    let expected = "d:3: no provider has an entry at West: add one to the file of providers";
    assert!(text.contains(expected), "{text}");
    dir.file("bad.txt", "?SNDlib native format; type: network\nNODES (\nWest\n", 0o644);
    let text = error(run("bad.txt"));
    assert!(text.contains("bad.txt:4: the file ends instead of the id of a node or `)`"), "{text}");
}
