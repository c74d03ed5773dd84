//! Asks TraceSmith's daemon what the GPU processes of a host do, or a recording what they did.
//!
//! ```no_run
//! use std::time::Duration;
//! use tracesmith::{Client, Query};
//!
//! let mut client = Client::connect()?;
//! let kernels = client.query(&Query::new("kernels").since(Duration::from_secs(10)))?;
//! for row in kernels.rows() {
//!     println!("{} {}", row.get("name"), row.get("total_ns"));
//! }
//! # Ok::<(), tracesmith::Error>(())
//! ```
//!
//! Sizes are bytes, times nanoseconds of CLOCK_MONOTONIC on the daemon's host, shares parts per million. Names come from
//! other programs; where they are no UTF-8 they have U+FFFD.

mod answer;
mod ffi;

pub use answer::{Answer, Cell, Loss, Row, Unit};

use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::os::raw::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::io::{AsRawFd, RawFd};
use std::path::Path;
use std::ptr;
use std::time::Duration;

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// None of the others.
    Failed,
    NoMemory,
    /// None listens on the socket.
    NoDaemon,
    /// The user may not do this.
    Denied,
    /// It ended, also if it is no daemon's: connect again.
    ConnectionLost,
    /// Likewise: nothing came for as long as was set.
    TimedOut,
    /// It cannot be answered as it is.
    BadRequest,
    /// No such query, process, user or file.
    NotFound,
    /// It takes too long, or is too much.
    Limit,
    /// The daemon, or the recording, cannot do it now.
    Unavailable,
    Cancelled,
    /// The process does not use CUDA, yet.
    NoCuda,
}

/// Displays as one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

impl ErrorKind {
    fn of(error: c_int) -> ErrorKind {
        match error {
            -2 => ErrorKind::NoMemory,
            -3 => ErrorKind::NoDaemon,
            -4 => ErrorKind::Denied,
            -5 => ErrorKind::ConnectionLost,
            -6 => ErrorKind::TimedOut,
            -7 => ErrorKind::BadRequest,
            -8 => ErrorKind::NotFound,
            -9 => ErrorKind::Limit,
            -10 => ErrorKind::Unavailable,
            -11 => ErrorKind::Cancelled,
            -12 => ErrorKind::NoCuda,
            _ => ErrorKind::Failed,
        }
    }
}

fn c_string(text: impl AsRef<[u8]>) -> Result<CString> {
    CString::new(text.as_ref())
        .map_err(|_| Error { kind: ErrorKind::BadRequest, message: "A text must not contain a NUL".to_string() })
}

fn pointer(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// What rows are about: one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Stack = 1,
    Stream = 2,
    Line = 3,
    Function = 4,
    Module = 5,
    Op = 6,
}

/// One of the daemon's queries: see tsctl(1) for their names and which options they take.
#[derive(Clone, Debug, Default)]
pub struct Query {
    name: String,
    user: Option<String>,
    matching: Option<String>,
    sort: Option<String>,
    since_ns: i64,
    until_ns: i64,
    limit: u64,
    min_age_ns: u64,
    pid: u32,
    stream: u32,
    by: u32,
    device: Option<u32>,
}

impl Query {
    pub fn new(name: impl Into<String>) -> Query {
        Query { name: name.into(), ..Query::default() }
    }

    /// Only this process.
    pub fn pid(mut self, pid: u32) -> Query {
        self.pid = pid;
        self
    }

    /// Only processes of this user: a name or a uid.
    pub fn user(mut self, user: impl Into<String>) -> Query {
        self.user = Some(user.into());
        self
    }

    /// Only rows whose name matches: `*` any text, `A|B` either.
    pub fn matching(mut self, pattern: impl Into<String>) -> Query {
        self.matching = Some(pattern.into());
        self
    }

    /// By a column; `-COLUMN`: largest first, `+COLUMN`: smallest first.
    pub fn sort(mut self, column: impl Into<String>) -> Query {
        self.sort = Some(column.into());
        self
    }

    /// From this long ago on.
    pub fn since(mut self, ago: Duration) -> Query {
        self.since_ns = -nanoseconds(ago).clamp(1, i64::MAX as u64).try_into().unwrap_or(i64::MAX);
        self
    }

    /// Up to this long ago.
    pub fn until(mut self, ago: Duration) -> Query {
        self.until_ns = -nanoseconds(ago).clamp(1, i64::MAX as u64).try_into().unwrap_or(i64::MAX);
        self
    }

    /// Between these times of CLOCK_MONOTONIC.
    pub fn window_ns(mut self, since_ns: u64, until_ns: u64) -> Query {
        self.since_ns = since_ns.max(1).try_into().unwrap_or(i64::MAX);
        self.until_ns = until_ns.max(1).try_into().unwrap_or(i64::MAX);
        self
    }

    /// At most this many rows; 0: the default.
    pub fn limit(mut self, rows: u64) -> Query {
        self.limit = rows;
        self
    }

    /// Only allocations at least this old.
    pub fn min_age(mut self, age: Duration) -> Query {
        self.min_age_ns = nanoseconds(age).max(1);
        self
    }

    /// Only this stream: its `id` in the query `streams`.
    pub fn stream(mut self, id: u32) -> Query {
        self.stream = id;
        self
    }

    /// Only this device.
    pub fn device(mut self, device: u32) -> Query {
        self.device = Some(device);
        self
    }

    pub fn by(mut self, by: By) -> Query {
        self.by = by as u32;
        self
    }
}

/// What can be recorded of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    Kernels = 0x01,
    /// And sets.
    Copies = 0x02,
    /// The driver calls that submit work: without them it has no call.
    Calls = 0x04,
    /// Allocations, frees and pools.
    Memory = 0x08,
    Syncs = 0x10,
    Nvtx = 0x20,
    /// CUPTI's own.
    Overhead = 0x40,
    /// Each part of a graph; otherwise whole graphs.
    Nodes = 0x80,
}

const RECORDS_USUAL: u32 = 0xef;

/// Which launches have call stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stacks {
    None = 1,
    Sampled = 2,
    All = 3,
}

/// How to record a running process exactly. What is not set is as the daemon's settings have it.
#[derive(Clone, Debug)]
pub struct Attach {
    pid: u32,
    records: Option<u32>,
    stacks: u32,
    budget_ppm: u32,
    light: bool,
    seccomp: bool,
}

impl Attach {
    pub fn new(pid: u32) -> Attach {
        Attach { pid, records: None, stacks: 0, budget_ppm: 0, light: false, seccomp: false }
    }

    /// Only these.
    pub fn records(mut self, records: impl IntoIterator<Item = Record>) -> Attach {
        self.records = Some(records.into_iter().fold(0, |all, record| all | record as u32));
        self
    }

    /// Also these; without `records()`: beside the usual ones.
    pub fn with(mut self, record: Record) -> Attach {
        self.records = Some(self.records.unwrap_or(RECORDS_USUAL) | record as u32);
        self
    }

    /// Not these.
    pub fn without(mut self, record: Record) -> Attach {
        self.records = Some(self.records.unwrap_or(RECORDS_USUAL) & !(record as u32));
        self
    }

    pub fn stacks(mut self, stacks: Stacks) -> Attach {
        self.stacks = stacks as u32;
        self
    }

    /// The share of its speed that it may pay, below 1: 0.03.
    pub fn budget(mut self, share: f64) -> Attach {
        self.budget_ppm = (share * 1e6).round().clamp(1.0, f64::from(u32::MAX - 1)) as u32;
        self
    }

    /// It may pay whatever recording costs.
    pub fn no_budget(mut self) -> Attach {
        self.budget_ppm = u32::MAX;
        self
    }

    /// Only calls, counted from inside.
    pub fn light(mut self) -> Attach {
        self.light = true;
        self
    }

    /// Even if a seccomp filter may kill it.
    pub fn seccomp(mut self) -> Attach {
        self.seccomp = true;
        self
    }
}

/// A connection to the daemon, or an open recording. Requests take it as mutable: there is one at a time.
pub struct Client {
    ts: *mut ffi::Tracesmith,
}

// The library has no state that is bound to a thread.
unsafe impl Send for Client {}

impl Drop for Client {
    fn drop(&mut self) {
        unsafe { ffi::tracesmith_free(self.ts) }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("version", &self.version()).finish()
    }
}

impl AsRawFd for Client {
    fn as_raw_fd(&self) -> RawFd {
        unsafe { ffi::tracesmith_fd(self.ts) }
    }
}

impl Client {
    fn new() -> Result<Client> {
        let ts = unsafe { ffi::tracesmith_new() };
        if ts.is_null() {
            return Err(Error { kind: ErrorKind::NoMemory, message: "Not enough memory".to_string() });
        }
        Ok(Client { ts })
    }

    fn done(&self, status: c_int) -> Result<()> {
        if status >= 0 {
            return Ok(());
        }
        let message = unsafe { CStr::from_ptr(ffi::tracesmith_message(self.ts)) };
        Err(Error { kind: ErrorKind::of(status), message: message.to_string_lossy().into_owned() })
    }

    /// Runs a request that gives an answer.
    fn ask(&mut self, request: impl FnOnce(*mut ffi::Tracesmith, *mut *mut ffi::Answer) -> c_int) -> Result<Answer> {
        let mut answer = ptr::null_mut();
        let status = request(self.ts, &mut answer);
        self.done(status)?;
        Ok(Answer::new(answer))
    }

    /// To the daemon's usual socket, or the one that TRACESMITH_SOCKET names.
    pub fn connect() -> Result<Client> {
        let client = Client::new()?;
        client.done(unsafe { ffi::tracesmith_connect(client.ts, ptr::null()) })?;
        Ok(client)
    }

    /// `timeout`: how long a call may take until it gives up.
    pub fn connect_to(socket: impl AsRef<Path>, timeout: Option<Duration>) -> Result<Client> {
        let client = Client::new()?;
        let path = c_string(socket.as_ref().as_os_str().as_bytes())?;
        client.set_timeout(timeout);
        client.done(unsafe { ffi::tracesmith_connect(client.ts, path.as_ptr()) })?;
        Ok(client)
    }

    /// A recording (.sbt), which answers the same queries. `tsctl` reads it: the one in the PATH, unless it is named by
    /// TRACESMITH_TSCTL.
    pub fn open(recording: impl AsRef<OsStr>) -> Result<Client> {
        let client = Client::new()?;
        let path = c_string(recording.as_ref().as_bytes())?;
        client.done(unsafe { ffi::tracesmith_open(client.ts, path.as_ptr(), ptr::null()) })?;
        Ok(client)
    }

    pub fn set_timeout(&self, timeout: Option<Duration>) {
        unsafe { ffi::tracesmith_set_timeout(self.ts, timeout.map_or(0, |timeout| nanoseconds(timeout).max(1))) }
    }

    /// The daemon's version.
    pub fn version(&self) -> String {
        unsafe { CStr::from_ptr(ffi::tracesmith_version(self.ts)) }.to_string_lossy().into_owned()
    }

    /// CLOCK_MONOTONIC of the daemon, now; the end of a recording.
    pub fn now_ns(&self) -> u64 {
        unsafe { ffi::tracesmith_now_ns(self.ts) }
    }

    /// Add it to a time to get CLOCK_REALTIME.
    pub fn wall_offset_ns(&self) -> i64 {
        unsafe { ffi::tracesmith_wall_offset_ns(self.ts) }
    }

    pub fn query(&mut self, query: &Query) -> Result<Answer> {
        let optional = |text: &Option<String>| text.as_ref().map(c_string).transpose();
        let name = c_string(&query.name)?;
        let (user, matching, sort) = (optional(&query.user)?, optional(&query.matching)?, optional(&query.sort)?);
        let wanted = ffi::Query {
            size: std::mem::size_of::<ffi::Query>(),
            name: name.as_ptr(),
            user: pointer(&user),
            matching: pointer(&matching),
            sort: pointer(&sort),
            since_ns: query.since_ns,
            until_ns: query.until_ns,
            limit: query.limit,
            min_age_ns: query.min_age_ns,
            pid: query.pid,
            stream: query.stream,
            by: query.by,
            has_device: query.device.is_some().into(),
            device: query.device.unwrap_or(0),
        };
        self.ask(|ts, ret| unsafe { ffi::tracesmith_query(ts, &wanted, ret) })
    }

    /// One SELECT statement, within the daemon's own limits.
    pub fn sql(&mut self, statement: &str) -> Result<Answer> {
        let statement = c_string(statement)?;
        self.ask(|ts, ret| unsafe { ffi::tracesmith_sql(ts, statement.as_ptr(), 0, 0, ret) })
    }

    /// What the daemon says of itself.
    pub fn status(&mut self) -> Result<Answer> {
        self.ask(|ts, ret| unsafe { ffi::tracesmith_status(ts, ret) })
    }

    /// Records a running process exactly, until it ends or detach(). One row: how long it was paused, and more.
    pub fn attach(&mut self, attach: &Attach) -> Result<Answer> {
        if attach.records == Some(0) {
            let message = "There is nothing left to record".to_string();
            return Err(Error { kind: ErrorKind::BadRequest, message });
        }
        let wanted = ffi::Attach {
            size: std::mem::size_of::<ffi::Attach>(),
            pid: attach.pid,
            budget_ppm: attach.budget_ppm,
            light: attach.light.into(),
            seccomp: attach.seccomp.into(),
            records: attach.records.unwrap_or(0),
            stacks: attach.stacks,
        };
        self.ask(|ts, ret| unsafe { ffi::tracesmith_attach(ts, &wanted, ret) })
    }

    pub fn detach(&mut self, pid: u32) -> Result<Answer> {
        self.ask(|ts, ret| unsafe { ffi::tracesmith_detach(ts, pid, ret) })
    }

    /// From now on it only follows what devices and processes do.
    pub fn subscribe(self) -> Result<Subscription> {
        self.done(unsafe { ffi::tracesmith_subscribe(self.ts) })?;
        Ok(Subscription { client: self })
    }
}

/// What devices and processes do, each second. Whoever reads too late misses messages.
#[derive(Debug)]
pub struct Subscription {
    client: Client,
}

impl AsRawFd for Subscription {
    fn as_raw_fd(&self) -> RawFd {
        self.client.as_raw_fd()
    }
}

impl Subscription {
    /// Waits for the next message. The tables are as it says until the one after it.
    pub fn wait(&mut self) -> Result<()> {
        let status = unsafe { ffi::tracesmith_next(self.client.ts) };
        self.client.done(status)
    }

    pub fn devices(&mut self) -> Result<Answer> {
        self.client.ask(|ts, ret| unsafe { ffi::tracesmith_live(ts, 0, ret) })
    }

    pub fn processes(&mut self) -> Result<Answer> {
        self.client.ask(|ts, ret| unsafe { ffi::tracesmith_live(ts, 1, ret) })
    }

    /// Of devices by processes.
    pub fn uses(&mut self) -> Result<Answer> {
        self.client.ask(|ts, ret| unsafe { ffi::tracesmith_live(ts, 2, ret) })
    }
}
