//! Announcements of the service, and their fate when the service stops or crashes.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use forebay_test_support::Dir;
use forebay_test_support::process::until;

use super::client::{DEMANDS, Server, files};

/// A stand-in for GoBGP's command: it keeps a table of routes for each speaker in a directory, and
/// kills its parent at a given call.
const GOBGP: &str = r#"#!/bin/sh
dir=$(dirname "$0")
echo "$@" >> "$dir/calls"
calls=$(wc -l < "$dir/calls")
rib="$dir/rib.$4"
mkdir -p "$rib"
name=$(echo "$8" | tr / _)
case $7 in
add) echo "$@" > "$rib/$name" ;;
del) rm -f "$rib/$name" ;;
esac
# Killed after the route is there, before anybody knows of it.
if [ -e "$dir/kill" ] && [ "$calls" = "$(cat "$dir/kill")" ]; then kill -9 $PPID; fi
exit 0
"#;

/// Demands that fit where they enter, so that no hint is worthwhile.
const LITTLE: &str =
    "provider,entry,router,demand\nvideo,in1,out,10 Mbit/s\ngames,in1,out,10 Mbit/s\n";

fn setup(name: &str, more: &str) -> Dir {
    let dir = Dir::new(name);
    files(&dir, &format!("[announce]\njournal = \"journal\"\ngobgp = \"./gobgp\"\n{more}"));
    dir.file("gobgp", GOBGP, 0o755);
    dir
}

fn routes(dir: &Dir) -> usize {
    let count =
        |port: &str| fs::read_dir(dir.0.join(format!("rib.{port}"))).map_or(0, Iterator::count);
    count("1001") + count("1002")
}

#[test]
fn each_round_announces_its_hints_and_withdraws_old_ones() {
    let dir = setup("serve-announce", "");
    let server = Server::start(&dir);
    let round = server.round();
    let there = routes(&dir);
    assert!(there > 0 && there.is_multiple_of(2), "each prefix at both entries: {there}");
    assert_eq!(round["announced"]["failed"], 0);
    // Without a change there is nothing to announce.
    let calls = || fs::read_to_string(dir.0.join("calls")).unwrap().lines().count();
    let before = calls();
    server.round();
    assert_eq!((calls(), routes(&dir)), (before, there));
    // The traffic is gone, so the hints and announcements go too.
    dir.file("d.csv", LITTLE, 0o644);
    server.round();
    assert_eq!(routes(&dir), 0);
    // They come again with the traffic, and an orderly stop keeps them.
    dir.file("d.csv", DEMANDS, 0o644);
    server.round();
    assert_eq!(routes(&dir), there);
    assert!(server.stop());
    assert_eq!(routes(&dir), there);
    // The next start takes them over.
    let before = calls();
    let server = Server::start(&dir);
    server.round();
    assert_eq!((calls(), routes(&dir)), (before, there));
    // While the service runs, no other command may withdraw.
    let withdraw = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-plan"));
        command.args(["withdraw", "--journal"]).arg(dir.0.join("journal"));
        command.arg("--gobgp").arg(dir.0.join("gobgp")).output().unwrap()
    };
    let refused = withdraw();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && error.contains("is in use by another"), "{error}");
    server.crash();
    assert!(withdraw().status.success());
    assert_eq!(routes(&dir), 0);
}

#[test]
fn an_orderly_stop_withdraws_if_it_should() {
    let dir = setup("serve-exit", "on_exit = \"withdraw\"\n");
    let server = Server::start(&dir);
    server.round();
    assert!(routes(&dir) > 0);
    assert!(server.stop());
    assert_eq!(routes(&dir), 0);
}

#[test]
fn after_a_kill_announcements_stay_or_go_as_configured() {
    let keep = setup("serve-keep", "");
    let server = Server::start(&keep);
    server.round();
    let there = routes(&keep);
    server.crash();
    let gone = setup("serve-gone", "on_death = \"withdraw\"\n");
    let server = Server::start(&gone);
    server.round();
    assert_eq!(routes(&gone), there);
    server.crash();
    until("the supervisor withdraws", || routes(&gone) == 0);
    assert_eq!(routes(&keep), there, "nobody withdraws those");
    // The next start works, however far the supervisor has got.
    let server = Server::start(&gone);
    server.round();
    assert_eq!(routes(&gone), there);
    assert!(server.stop());
    assert_eq!(routes(&gone), there, "an orderly stop is no death");
}

#[test]
fn a_kill_between_announcements_leaves_no_unrecorded_route() {
    for call in 1..=4 {
        let dir = setup(&format!("serve-between-{call}"), "on_death = \"withdraw\"\n");
        dir.file("kill", &call.to_string(), 0o644);
        let mut server = Server::start(&dir);
        // The stand-in kills the service during the first round's announcements.
        server.child.wait().unwrap();
        until("the supervisor withdraws", || routes(&dir) == 0);
        let journal = fs::read_to_string(dir.0.join("journal")).unwrap();
        assert!(journal.contains("begun"), "{journal}");
    }
}

/// A stand-in for a slow GoBGP: it announces only after something is written to a pipe.
const SLOW: &str = r#"#!/bin/sh
dir=$(dirname "$0")
echo "$@" >> "$dir/calls"
read line < "$dir/pipe"
echo "$@" >> "$dir/late"
"#;

#[test]
fn an_announcement_under_way_ends_with_the_service() {
    let dir = setup("serve-slow-gobgp", "");
    let pipe = dir.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    dir.file("gobgp", SLOW, 0o755);
    // Opening a pipe for writing without blocking fails as long as it has no reader.
    let read = || {
        let mut options = fs::OpenOptions::new();
        options.write(true).custom_flags(libc::O_NONBLOCK).open(&pipe).is_ok()
    };
    let server = Server::start(&dir);
    let asked = || dir.0.join("calls").exists();
    until("the first round announces", asked);
    server.crash();
    until("the command is gone", || !read());
    assert!(!dir.0.join("late").exists());
}
