//! tracesmith/client.h, as it is.

use std::os::raw::{c_char, c_int, c_void};

#[repr(C)]
pub struct Tracesmith {
    _private: [u8; 0],
}

#[repr(C)]
pub struct Answer {
    _private: [u8; 0],
}

#[repr(C)]
pub struct Query {
    pub size: usize,
    pub name: *const c_char,
    pub user: *const c_char,
    pub matching: *const c_char,
    pub sort: *const c_char,
    pub since_ns: i64,
    pub until_ns: i64,
    pub limit: u64,
    pub min_age_ns: u64,
    pub pid: u32,
    pub stream: u32,
    pub by: u32,
    pub has_device: u32,
    pub device: u32,
}

#[repr(C)]
pub struct Attach {
    pub size: usize,
    pub pid: u32,
    pub budget_ppm: u32,
    pub light: u32,
    pub seccomp: u32,
    pub records: u32,
    pub stacks: u32,
}

#[repr(C)]
pub struct Cell {
    pub kind: c_int,
    pub integer: i64,
    pub real: f64,
    pub text: *const c_char,
    pub blob: *const c_void,
    pub size: usize,
    pub frame: *const *const c_char,
}

#[repr(C)]
pub struct Loss {
    pub reason: *const c_char,
    pub text: *const c_char,
    pub noun: *const c_char,
    pub count: u64,
    pub time_ns: u64,
    pub said: *const c_char,
}

#[link(name = "tracesmith-client")]
extern "C" {
    pub fn tracesmith_new() -> *mut Tracesmith;
    pub fn tracesmith_free(ts: *mut Tracesmith);
    pub fn tracesmith_set_timeout(ts: *mut Tracesmith, timeout_ns: u64);
    pub fn tracesmith_connect(ts: *mut Tracesmith, socket: *const c_char) -> c_int;
    pub fn tracesmith_open(ts: *mut Tracesmith, path: *const c_char, tsctl: *const c_char) -> c_int;
    pub fn tracesmith_message(ts: *const Tracesmith) -> *const c_char;
    pub fn tracesmith_version(ts: *const Tracesmith) -> *const c_char;
    pub fn tracesmith_now_ns(ts: *const Tracesmith) -> u64;
    pub fn tracesmith_wall_offset_ns(ts: *const Tracesmith) -> i64;
    pub fn tracesmith_query(ts: *mut Tracesmith, query: *const Query, ret: *mut *mut Answer) -> c_int;
    pub fn tracesmith_sql(
        ts: *mut Tracesmith,
        statement: *const c_char,
        limit: u64,
        timeout_ns: u64,
        ret: *mut *mut Answer,
    ) -> c_int;
    pub fn tracesmith_status(ts: *mut Tracesmith, ret: *mut *mut Answer) -> c_int;
    pub fn tracesmith_attach(ts: *mut Tracesmith, attach: *const Attach, ret: *mut *mut Answer) -> c_int;
    pub fn tracesmith_detach(ts: *mut Tracesmith, pid: u32, ret: *mut *mut Answer) -> c_int;
    pub fn tracesmith_subscribe(ts: *mut Tracesmith) -> c_int;
    pub fn tracesmith_next(ts: *mut Tracesmith) -> c_int;
    pub fn tracesmith_live(ts: *mut Tracesmith, what: c_int, ret: *mut *mut Answer) -> c_int;
    pub fn tracesmith_fd(ts: *const Tracesmith) -> c_int;
    pub fn tracesmith_answer_free(answer: *mut Answer);
    pub fn tracesmith_answer_rows(answer: *const Answer) -> usize;
    pub fn tracesmith_answer_columns(answer: *const Answer) -> usize;
    pub fn tracesmith_answer_truncated(answer: *const Answer) -> c_int;
    pub fn tracesmith_answer_note(answer: *const Answer) -> *const c_char;
    pub fn tracesmith_answer_column(answer: *const Answer, column: usize, ret_unit: *mut c_int) -> *const c_char;
    pub fn tracesmith_answer_cell(answer: *const Answer, row: usize, column: usize, ret: *mut Cell) -> c_int;
    pub fn tracesmith_answer_loss(answer: *const Answer, index: usize) -> *const Loss;
}
