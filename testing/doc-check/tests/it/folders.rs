//! A crate uses only crates of its own folder and of those below it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use toml::Table;

/// The folders from the lowest, each with those that its crates may use besides its own. Nothing
/// but the programs uses the programs, and nothing but tests uses `testing`.
const FOLDERS: [(&str, &[&str]); 9] = [
    ("core", &[]),
    ("base", &["core"]),
    ("boxes", &["core", "base"]),
    ("lab", &["core", "base", "boxes"]),
    ("tools", &["core", "base", "boxes", "lab"]),
    ("planner", &["core", "base", "boxes", "lab"]),
    ("apps", &["core", "base", "boxes", "lab", "tools", "planner"]),
    ("python", &["core", "base", "boxes", "lab", "planner"]),
    ("testing", &["core", "base", "boxes", "lab", "tools", "planner"]),
];

/// A crate of the workspace.
#[derive(Debug)]
struct Crate {
    folder: String,
    /// The crates that it needs to be built. Those of its tests are not among them.
    uses: Vec<String>,
}

/// Reads the manifest `text` of a crate in `folder`, and returns the crate with its name.
fn read(folder: &str, text: &str) -> (String, Crate) {
    let manifest: Table = text.parse().unwrap();
    let name = manifest["package"]["name"].as_str().unwrap().to_owned();
    let targets = manifest.get("target").and_then(|t| t.as_table());
    let tables = targets.into_iter().flat_map(Table::values).filter_map(|t| t.as_table());
    let dependencies = tables.chain([&manifest]).flat_map(|table| {
        ["dependencies", "build-dependencies"].map(|kind| table.get(kind)?.as_table())
    });
    let uses = dependencies.flatten().flat_map(Table::keys).cloned().collect();
    (name, Crate { folder: folder.to_owned(), uses })
}

/// Reads all crates of the workspace by their names.
fn workspace() -> BTreeMap<String, Crate> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest: Table = fs::read_to_string(root.join("Cargo.toml")).unwrap().parse().unwrap();
    let members = manifest["workspace"]["members"].as_array().unwrap();
    let mut crates = BTreeMap::new();
    for member in members.iter().map(|member| member.as_str().unwrap()) {
        let folder = member.trim_end_matches("/*");
        let directories = match folder == member {
            true => vec![root.join(member)],
            false => fs::read_dir(root.join(folder)).unwrap().map(|e| e.unwrap().path()).collect(),
        };
        let manifests = directories.iter().map(|directory| directory.join("Cargo.toml"));
        crates.extend(manifests.map(|file| read(folder, &fs::read_to_string(file).unwrap())));
    }
    crates
}

/// Describes each use that the order of the folders forbids.
fn forbidden(crates: &BTreeMap<String, Crate>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, user) in crates {
        let (_, below) = FOLDERS.iter().find(|(folder, _)| *folder == user.folder).unwrap();
        for other in user.uses.iter().filter_map(|name| Some((name, crates.get(name)?))) {
            let (used, Crate { folder, .. }) = other;
            if *folder != user.folder && !below.contains(&folder.as_str()) {
                found.push(format!(
                    "{name} in {} uses {used} in {folder}: {} may use {}",
                    user.folder,
                    user.folder,
                    if below.is_empty() { "nothing else".to_owned() } else { below.join(", ") }
                ));
            }
        }
    }
    found
}

#[test]
fn crates_use_only_folders_below_their_own() {
    let crates = workspace();
    assert!(crates.len() > 40 && crates.contains_key("forebay-units"), "{:?}", crates.keys());
    let found = forbidden(&crates);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_folders_have_an_order() {
    for (number, (folder, below)) in FOLDERS.iter().enumerate() {
        let earlier = |name: &&str| FOLDERS[..number].iter().any(|(other, _)| other == name);
        assert!(below.iter().all(earlier), "{folder} may use a folder that is not below it");
    }
}

#[test]
fn a_use_upwards_is_found_and_one_of_tests_is_not() {
    let manifest = |name: &str, kind: &str, used: &str| {
        format!("[package]\nname = \"{name}\"\n[{kind}]\n{used} = \"1\"\n")
    };
    let status = manifest("status", "target.'cfg(unix)'.dependencies", "lab");
    let lab = manifest("lab", "dev-dependencies", "forebay");
    let forebay = manifest("forebay", "build-dependencies", "support");
    let support = manifest("support", "dependencies", "serde");
    let crates = BTreeMap::from([
        read("boxes", &status),
        read("lab", &lab),
        read("apps", &forebay),
        read("testing", &support),
    ]);
    assert_eq!(
        forbidden(&crates),
        [
            "forebay in apps uses support in testing: apps may use core, base, boxes, lab, tools, \
             planner",
            "status in boxes uses lab in lab: boxes may use core, base",
        ]
    );
}
