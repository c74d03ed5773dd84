//! Against the daemon that TRACESMITH_SOCKET names, and against none: tests/e2e/test_client_library.py starts it.

use std::os::unix::net::UnixListener;
use std::thread;
use std::time::{Duration, Instant};

use tracesmith::{Answer, Attach, By, Cell, Client, Error, ErrorKind, Query, Record, Stacks, Unit};

/// What needs a good moment of the process: on a busy machine none may come for seconds.
fn again(mut ask: impl FnMut() -> Result<Answer, Error>) -> Answer {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match ask() {
            Err(error) if error.message.ends_with("try again") && Instant::now() < end => (),
            answer => return answer.unwrap(),
        }
    }
}

#[test]
fn cells_have_their_types() {
    let mut client = Client::connect().unwrap();
    let answer = client.sql("SELECT 1 AS one, 0.5 AS half, 'x' AS text, x'00ff' AS blob, NULL AS none").unwrap();
    let cells: Vec<_> = answer.rows().next().unwrap().cells().collect();
    let expected = [Cell::Integer(1), Cell::Real(0.5), Cell::Text("x".into()), Cell::Blob(&[0, 255]), Cell::Null];
    assert_eq!(cells, expected);
    assert_eq!(answer.columns()[0].0, "one");
    assert_eq!(answer.cell(1, 0), Cell::Null);
    assert_eq!(answer.rows().next().unwrap().get("nothing"), Cell::Null);
    let seen = thread::scope(|scope| scope.spawn(|| answer.len()).join().unwrap());
    assert_eq!((seen, answer.truncated()), (1, false));
}

#[test]
fn queries_take_their_options() {
    let mut client = Client::connect().unwrap();
    let calls = client.query(&Query::new("apis").matching("cu*").sort("-calls").limit(1)).unwrap();
    assert_eq!((calls.len(), calls.truncated()), (1, true));
    assert!(calls.rows().all(|row| row.get("fn").text().unwrap().starts_with("cu")));
    assert!(calls.columns().iter().any(|(name, unit)| name == "total_ns" && *unit == Unit::Nanoseconds));
    let stacks = client.query(&Query::new("launches").since(Duration::from_secs(3600))).unwrap();
    assert!(stacks.rows().any(|row| matches!(row.get("stack"), Cell::Stack(frames) if !frames.is_empty())));
    assert!(!client.query(&Query::new("launches").by(By::Function)).unwrap().is_empty());
    let never = client.query(&Query::new("apis").window_ns(1, 2)).unwrap();
    assert!(never.is_empty() && !never.note().is_empty());
    assert!(client.status().unwrap().rows().any(|row| row.get("name").text() == Some("memory_bytes")));
    assert!(client.now_ns() > 0 && client.wall_offset_ns() > 0 && !client.version().is_empty());
}

#[test]
fn errors_say_why() {
    let none = Client::connect_to("/nonexistent", None).unwrap_err();
    assert_eq!(none.kind, ErrorKind::NoDaemon);
    assert!(none.to_string().starts_with("No daemon listens on /nonexistent"));
    assert_eq!(Client::connect_to("/a\0b", None).unwrap_err().kind, ErrorKind::BadRequest);
    assert_eq!(Client::open("/nonexistent").unwrap_err().kind, ErrorKind::Unavailable);
    let mut client = Client::connect().unwrap();
    let unknown = client.query(&Query::new("kernel")).unwrap_err();
    assert_eq!(unknown.kind, ErrorKind::NotFound);
    assert!(unknown.message.contains("did you mean 'kernels'"), "{}", unknown);
    assert_eq!(client.sql("SELEC 1").unwrap_err().kind, ErrorKind::BadRequest);
    let own = Attach::new(std::process::id());
    assert_eq!(client.attach(&own).unwrap_err().kind, ErrorKind::NoCuda);
    assert_eq!(client.attach(&own.clone().records([])).unwrap_err().kind, ErrorKind::BadRequest);
    assert_eq!(client.attach(&own.budget(1.0)).unwrap_err().kind, ErrorKind::BadRequest);
    assert!(client.detach(std::process::id()).is_err());
    assert_eq!(client.sql("SELECT 1").unwrap().len(), 1);
}

/// The process that TRACESMITH_PID names uses CUDA, and is not attached.
#[test]
fn a_process_is_recorded_as_asked() {
    let pid = std::env::var("TRACESMITH_PID").unwrap().parse().unwrap();
    let mut client = Client::connect().unwrap();
    let attach = Attach::new(pid).with(Record::Syncs).without(Record::Memory).stacks(Stacks::All).budget(0.05);
    let recorded = again(|| client.attach(&attach));
    let row = recorded.rows().next().unwrap();
    assert_eq!(row.get("records"), Cell::Integer(0xf7));
    assert_eq!(row.get("stacks"), Cell::Integer(3));
    assert_eq!(row.get("budget_ppm"), Cell::Integer(50_000));
    assert_eq!(again(|| client.detach(pid)).len(), 1);
    let copies = Attach::new(pid).records([Record::Copies, Record::Calls]).stacks(Stacks::None).no_budget();
    let recorded = again(|| client.attach(&copies));
    let row = recorded.rows().next().unwrap();
    assert_eq!((row.get("records"), row.get("stacks")), (Cell::Integer(0x06), Cell::Integer(1)));
    assert_eq!(row.get("budget_ppm"), Cell::Integer(0));
    again(|| client.detach(pid));
}

#[test]
fn a_silent_server_is_given_up() {
    let path = std::env::temp_dir().join(format!("tracesmith-rust-{}", std::process::id()));
    let _server = UnixListener::bind(&path).unwrap();
    let silent = Client::connect_to(&path, Some(Duration::from_millis(1)));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(silent.unwrap_err().kind, ErrorKind::TimedOut);
}

#[test]
fn a_subscription_has_tables() {
    let mut live = Client::connect().unwrap().subscribe().unwrap();
    live.wait().unwrap();
    live.wait().unwrap();
    assert!(live.processes().unwrap().columns().iter().any(|(name, _)| name == "calls.launches"));
    assert!(live.devices().unwrap().columns().iter().any(|(name, _)| name == "states.running_ns"));
    assert!(live.uses().unwrap().columns().iter().any(|(name, _)| name == "process"));
}
