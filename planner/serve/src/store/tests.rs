use std::os::unix::fs::PermissionsExt;

use super::*;

/// A database that is removed when this value is dropped.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fb-store-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn open(&self) -> Result<Store, StoreError> {
        Store::open(&self.0.join("state.db"))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn given(entry: &str) -> Vec<Given> {
    vec![Given { prefix: "10.0.0.0/8".parse().unwrap(), entry: entry.to_owned() }]
}

#[test]
fn stored_state_is_read_back() {
    let dir = Dir::new("again");
    let mut store = dir.open().unwrap();
    assert!(store.programs().unwrap().is_empty() && store.last_round().unwrap().is_none());
    assert!(store.demands().unwrap().is_none());
    let penalty = Penalty { value: 1000.0, at: 5, suppressed: false };
    let program = Program { view: Some("v".to_owned()), ..Program::default() };
    assert_eq!(store.put_program("x", Some(&program), &penalty, 10).unwrap(), 1);
    assert_eq!(store.put_program("x", None, &penalty, 11).unwrap(), 2);
    assert_eq!(store.put_program("x", Some(&program), &penalty, 12).unwrap(), 3);
    assert_eq!(store.put_program("y", None, &penalty, 13).unwrap(), 1);
    let demands = DemandText { json: true, text: "[]".to_owned() };
    store.put_demands(&demands, 14).unwrap();
    let hints = Hints { demand: 7.0, ..Hints::default() };
    store.put_round(&Hints::default(), &[("x".to_owned(), given("a"))], 20).unwrap();
    let (round, _) = store.put_round(&hints, &[("x".to_owned(), given("b"))], 21).unwrap();
    drop(store);
    let store = dir.open().unwrap();
    let programs = store.programs().unwrap();
    assert_eq!(programs["x"], Versioned { version: 3, at: 12, value: Some(program) });
    assert_eq!(programs["y"].value, None);
    assert_eq!(store.penalties().unwrap()["x"], penalty);
    assert_eq!(store.demands().unwrap(), Some((demands, 14)));
    assert_eq!(
        store.last_round().unwrap(),
        Some(Versioned { version: round, at: 21, value: hints })
    );
    assert_eq!(
        store.given_hints().unwrap()["x"],
        Versioned { version: 2, at: 21, value: given("b") }
    );
}

#[test]
fn a_version_grows_only_when_the_hints_change() {
    let dir = Dir::new("versions");
    let mut store = dir.open().unwrap();
    let mut put = |entry: &str, at| {
        let (round, told) =
            store.put_round(&Hints::default(), &[("x".to_owned(), given(entry))], at).unwrap();
        (round, told[0].version, told[0].at)
    };
    assert_eq!(
        [put("a", 1), put("a", 2), put("b", 3), put("b", 4)],
        [(1, 1, 1), (2, 1, 1), (3, 2, 3), (4, 2, 3)]
    );
}

#[test]
fn a_second_process_and_another_version_are_refused() {
    let dir = Dir::new("one");
    let store = dir.open().unwrap();
    assert!(matches!(dir.open().unwrap_err(), StoreError::InUse(_)));
    store.database.pragma_update(None, "user_version", 9).unwrap();
    drop(store);
    assert!(
        dir.open()
            .unwrap_err()
            .to_string()
            .contains("is of version 9, but this program uses version 1")
    );
    fs::write(dir.0.join("state.db"), "no database at all, but long enough to have a header")
        .unwrap();
    assert!(matches!(dir.open().unwrap_err(), StoreError::Database { .. }));
}

#[test]
fn old_rounds_are_deleted() {
    let dir = Dir::new("old");
    let mut store = dir.open().unwrap();
    store.database.pragma_update(None, "synchronous", "OFF").unwrap();
    for at in 0..300 {
        store.put_round(&Hints::default(), &[], at).unwrap();
    }
    let kept: i64 =
        store.database.query_row("SELECT count(*) FROM round", [], |row| row.get(0)).unwrap();
    assert_eq!((kept, store.last_round().unwrap().unwrap().version), (ROUNDS, 300));
}

#[test]
fn a_database_loses_the_rights_of_others() {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let dir = Dir::new("modes");
    let path = dir.0.join("state.db");
    drop(dir.open().unwrap());
    assert_eq!(mode(&path), 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let wal = dir.0.join("state.db-wal");
    fs::write(&wal, "").unwrap();
    fs::set_permissions(&wal, fs::Permissions::from_mode(0o644)).unwrap();
    let store = dir.open().unwrap();
    assert_eq!((mode(&path), mode(&wal)), (0o600, 0o600));
    drop(store);
    fs::rename(&path, dir.0.join("moved.db")).unwrap();
    std::os::unix::fs::symlink(dir.0.join("moved.db"), &path).unwrap();
    assert!(dir.open().unwrap_err().to_string().contains("is a link"));
}
