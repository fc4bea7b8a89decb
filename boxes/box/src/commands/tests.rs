use std::fs;
use std::io::BufRead;
use std::path::PathBuf;
use std::time::Duration;

use forebay_records::{
    RELOAD_SOCKET, ReceiveStatus, STATUS_SOCKET, STATUS_VERSION, Status, UPGRADE_SOCKET,
};
use forebay_system::{clock, local, private};

use super::service::{ACCEPT_PAUSE, MAX_ACCEPTS, MAX_COMMANDS, STATUS_TIMEOUT};
use super::*;

/// A directory of a test with the sockets of a box, removed when dropped.
struct Place {
    path: PathBuf,
    directory: Directory,
}

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fb-commands-{name}-{}", std::process::id()));
        private::readable_directory(&path).unwrap();
        let directory = Directory::at(path.clone()).unwrap();
        Self { path, directory }
    }

    fn open(&self) -> Commands {
        Commands::open_in(Some(&self.directory), "receivebox", vec!["eth0".to_owned()])
    }

    fn socket(&self, kind: &str) -> PathBuf {
        self.directory.socket(kind, &std::process::id().to_string())
    }

    fn connect(&self, kind: &str) -> UnixStream {
        let (stream, _) = local::connect(&self.socket(kind)).unwrap();
        stream.set_nonblocking(false).unwrap();
        stream
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Serves commands with this state, as a loop does, until a condition holds.
fn serve_until(
    commands: &mut Commands,
    state: impl Fn() -> State,
    mut holds: impl FnMut(&mut Commands) -> bool,
) {
    while !holds(commands) {
        commands.serve(clock::now(), &state);
        thread::sleep(Duration::from_millis(1));
    }
}

fn receive(name: &str) -> ReceiveStatus {
    ReceiveStatus {
        name: name.to_owned(),
        key_fingerprint: None,
        sendbox: "192.0.2.1:28316".parse().ok(),
        moves: 0,
        trouble: None,
        heard_s: Some(0.5),
        packets: 1,
        bytes: 2,
        refused: 3,
        unanswered: 4,
    }
}

/// A state that fits into no socket's buffer.
fn many() -> State {
    State { receives: vec![receive(&"x".repeat(1000)); 2000], ..State::default() }
}

/// Reads an answer to its end on a thread of its own.
fn reading(mut stream: UnixStream) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut text = Vec::new();
        // A connection that was closed with data that nobody read is reset.
        let _ = stream.read_to_end(&mut text);
        text
    })
}

#[test]
fn readers_that_do_not_read_delay_no_other_and_one_too_many_is_refused() {
    let place = Place::new("slow");
    let mut service = place.service();
    let start = clock::now();
    let _idle: Vec<_> = (1..MAX_COMMANDS).map(|_| place.connect(STATUS_SOCKET)).collect();
    let reader = reading(place.connect(STATUS_SOCKET));
    service.turn(start);
    assert_eq!(service.asked(), [Request::Status], "one request for all");
    service.answer(Answer::Status(start, Box::new(many())));
    while !reader.is_finished() {
        service.turn(start);
    }
    let status: Status = serde_json::from_slice(&reader.join().unwrap()).unwrap();
    assert_eq!((status.role.as_str(), status.receives.len()), ("site", 2000));
    assert_eq!(status.receives[0], receive(&"x".repeat(1000)));
    assert_eq!((status.version, status.strangers), (STATUS_VERSION, 0));
    // There is room for one.
    let more = [STATUS_SOCKET; 2].map(|kind| reading(place.connect(kind)));
    service.turn(start + ACCEPT_PAUSE);
    assert_eq!(service.asked(), [Request::Status]);
    service.answer(Answer::Status(start, Box::default()));
    while !more.iter().all(JoinHandle::is_finished) {
        service.turn(start + ACCEPT_PAUSE);
    }
    let mut answers = more.map(|reader| reader.join().unwrap());
    answers.sort();
    assert!(answers[0].is_empty() && !answers[1].is_empty());
}

#[test]
fn a_reader_that_does_not_read_is_let_go() {
    let place = Place::new("late");
    let mut service = place.service();
    let start = clock::now();
    let mut idle = place.connect(STATUS_SOCKET);
    service.turn(start);
    assert_eq!(service.asked(), [Request::Status]);
    service.answer(Answer::Status(start, Box::new(many())));
    service.turn(start + STATUS_TIMEOUT - Nanos(1));
    idle.set_nonblocking(true).unwrap();
    assert!(idle.read(&mut [0]).unwrap() > 0, "it is not");
    service.turn(start + STATUS_TIMEOUT);
    let ended = loop {
        match idle.read(&mut [0; 1 << 16]) {
            Ok(1..) => {}
            other => break other,
        }
    };
    assert_ne!(ended.map_err(|e| e.kind()), Err(io::ErrorKind::WouldBlock));
}

#[test]
fn a_turn_accepts_a_bounded_number_of_connections() {
    let place = Place::new("turn");
    let mut service = place.service();
    let start = clock::now();
    // They come and go at once.
    for _ in 0..MAX_ACCEPTS * 2 + 8 {
        drop(place.connect(STATUS_SOCKET));
    }
    let left = |service: &TestService| {
        let all = service.listener(STATUS_SOCKET);
        let count = std::iter::from_fn(|| all.accept().ok()).count();
        drop((0..count).map(|_| place.connect(STATUS_SOCKET)).collect::<Vec<_>>());
        count
    };
    service.turn(start);
    assert_eq!(left(&service), MAX_ACCEPTS + 8);
    service.turn(start + ACCEPT_PAUSE - Nanos(1));
    assert_eq!(left(&service), MAX_ACCEPTS + 8, "there is a pause");
    service.turn(start + ACCEPT_PAUSE);
    assert_eq!(left(&service), 8);
}

#[test]
fn a_reload_is_asked_for_once_and_answers_all_who_asked() {
    let place = Place::new("reload");
    let mut commands = place.open();
    assert!(!commands.take_reload());
    let asking: Vec<_> = (0..3).map(|_| reading(place.connect(RELOAD_SOCKET))).collect();
    let mut reloads = 0;
    serve_until(&mut commands, State::default, |commands| {
        if commands.take_reload() {
            reloads += 1;
            let changes = vec![format!("reload {reloads}")];
            commands.answer_reload(Reloaded { changes, ..Reloaded::of(7) });
        }
        asking.iter().all(JoinHandle::is_finished)
    });
    // Those who came together have one answer, and those who came later another.
    assert!((1..=3).contains(&reloads));
    for reader in asking {
        let answer: Reloaded = serde_json::from_slice(&reader.join().unwrap()).unwrap();
        assert!(answer.changes[0].starts_with("reload "), "{answer:?}");
    }
    // A signal is answered to nobody, and disturbs nobody.
    commands.answer_reload(Reloaded::of(7));
    commands.answer_reload(Reloaded::of(7));
    let last = reading(place.connect(STATUS_SOCKET));
    serve_until(&mut commands, State::default, |_| last.is_finished());
    assert!(!last.join().unwrap().is_empty());
}

#[test]
fn one_process_at_a_time_can_take_over() {
    let place = Place::new("upgrade");
    let mut commands = place.open();
    let read_line = |stream: &UnixStream| {
        let mut line = String::new();
        io::BufReader::new(stream).read_line(&mut line).unwrap();
        line
    };
    let first = place.connect(UPGRADE_SOCKET);
    let offer: Offer = serde_json::from_str(&read_line(&first)).unwrap();
    assert_eq!((offer.role.as_str(), offer.interfaces), ("receivebox", vec!["eth0".to_owned()]));
    assert!(commands.has_successor());
    assert_eq!(read_line(&place.connect(UPGRADE_SOCKET)), "", "another one is refused");
    drop(first);
    let second = place.connect(UPGRADE_SOCKET);
    assert_ne!(read_line(&second), "", "the first has gone");
    // It still waits when the sockets are closed.
    commands.close();
    assert!(!local::is_alive(&place.socket(UPGRADE_SOCKET)));
    let reader = reading(second);
    commands.hand_over(Vec::new(), vec![Default::default()], None);
    let state = forebay_records::Handover::parse(&reader.join().unwrap()).unwrap();
    assert_eq!(state.receives.len(), 1);
    assert!(!commands.has_successor());
}

#[test]
fn a_box_runs_without_sockets() {
    let mut commands = Commands::open_in(None, "site", Vec::new());
    assert_eq!(commands.descriptor(), None);
    commands.serve(clock::now(), || unreachable!("nobody asks"));
    assert!(!commands.take_reload() && !commands.has_successor());
    commands.close();
}

/// The thread's part without a thread.
struct TestService {
    service: Service,
    requests: Receiver<Request>,
    answers: SyncSender<Answer>,
    _bell: UnixStream,
}

impl TestService {
    fn turn(&mut self, now: Nanos) {
        self.service.turn(now);
    }

    fn asked(&self) -> Vec<Request> {
        self.requests.try_iter().collect()
    }

    fn answer(&self, answer: Answer) {
        self.answers.try_send(answer).unwrap_or_else(|_| panic!("there is room"));
    }

    fn listener(&self, kind: &str) -> &std::os::unix::net::UnixListener {
        self.service.listener(kind)
    }
}

impl Place {
    fn service(&self) -> TestService {
        let (bell, bell_of_thread) = UnixStream::pair().unwrap();
        bell_of_thread.set_nonblocking(true).unwrap();
        let (ask, requests) = sync_channel(KINDS);
        let (answers, answered) = sync_channel(KINDS);
        let shared = Arc::new(Shared {
            successor: Successor::new(Offer::default()),
            strangers: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        });
        let about = About::new("site", vec!["eth0".to_owned()]);
        let service = Service::open(&self.directory, about, ask, answered, shared, bell_of_thread);
        TestService { service, requests, answers, _bell: bell }
    }
}

mod live {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use forebay_test_support::has_root;
    use forebay_test_support::rights::without_root;

    use super::*;

    #[test]
    fn other_users_can_neither_connect_nor_are_they_answered() {
        if !has_root() {
            return;
        }
        let place = Place::new("strangers");
        let mut commands = place.open();
        let sockets = [STATUS_SOCKET, RELOAD_SOCKET, UPGRADE_SOCKET].map(|kind| place.socket(kind));
        let connect = |path| UnixStream::connect(path).unwrap_err().kind();
        let refused = without_root(|| sockets.each_ref().map(connect));
        assert_eq!(refused, [io::ErrorKind::PermissionDenied; 3]);
        // Somebody has made them writable for all.
        for path in &sockets {
            fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
        }
        let strangers = thread::spawn(move || {
            let connect = |path| reading(UnixStream::connect(path).unwrap());
            let answers =
                || -> Vec<_> { (0..100).flat_map(|_| sockets.each_ref().map(connect)).collect() };
            without_root(answers).into_iter().all(|answer| answer.join().unwrap().is_empty())
        });
        serve_until(
            &mut commands,
            || unreachable!("no stranger is answered"),
            |commands| {
                assert!(!commands.take_reload() && !commands.has_successor());
                strangers.is_finished()
            },
        );
        assert!(strangers.join().unwrap());
        let own = reading(place.connect(STATUS_SOCKET));
        serve_until(&mut commands, State::default, |_| own.is_finished());
        let status: Status = serde_json::from_slice(&own.join().unwrap()).unwrap();
        assert_eq!(status.strangers, 300);
    }
}
