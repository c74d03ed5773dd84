//! An answer: rows of typed cells, and what is missing from them.

use std::borrow::Cow;
use std::ffi::CStr;
use std::fmt;
use std::mem::MaybeUninit;
use std::os::raw::{c_char, c_int};
use std::slice;

use crate::ffi;

/// How to show the numbers of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    Text,
    Integer,
    Real,
    Bytes,
    /// A duration.
    Nanoseconds,
    /// A moment: nanoseconds of CLOCK_MONOTONIC.
    Time,
    Stack,
    BytesPerSecond,
    /// An address: 64 bits without a sign.
    Handle,
    /// Parts per million.
    Share,
    /// One that this crate does not know.
    Other,
}

const UNITS: [Unit; 10] = [
    Unit::Text,
    Unit::Integer,
    Unit::Real,
    Unit::Bytes,
    Unit::Nanoseconds,
    Unit::Time,
    Unit::Stack,
    Unit::BytesPerSecond,
    Unit::Handle,
    Unit::Share,
];

/// A value. Displays as text; a stack as its frames, innermost first.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// It is unknown, or there is none.
    Null,
    Integer(i64),
    Real(f64),
    Text(Cow<'a, str>),
    Blob(&'a [u8]),
    /// The innermost frame first.
    Stack(Vec<Cow<'a, str>>),
}

impl Cell<'_> {
    pub fn integer(&self) -> Option<i64> {
        match self {
            Cell::Integer(value) => Some(*value),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Cell::Text(value) => Some(value),
            _ => None,
        }
    }
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Null => f.pad("-"),
            Cell::Integer(value) => fmt::Display::fmt(value, f),
            Cell::Real(value) => fmt::Display::fmt(value, f),
            Cell::Text(value) => f.pad(value),
            Cell::Blob(value) => value.iter().try_for_each(|byte| write!(f, "{:02x}", byte)),
            Cell::Stack(frames) => f.pad(&frames.join(" < ")),
        }
    }
}

/// What was dropped, sampled or not seen in the window of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub reason: String,
    pub text: String,
    /// What is counted.
    pub noun: String,
    pub count: u64,
    /// Of losses that are periods.
    pub time_ns: u64,
    /// Of these: what was not watched, for people; else empty.
    pub said: String,
}

/// All rows of an answer, in memory.
pub struct Answer {
    answer: *mut ffi::Answer,
}

// It does not change.
unsafe impl Send for Answer {}
unsafe impl Sync for Answer {}

impl Drop for Answer {
    fn drop(&mut self) {
        unsafe { ffi::tracesmith_answer_free(self.answer) }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("rows", &self.len()).field("columns", &self.columns()).finish()
    }
}

/// The library promises a text that is not NULL and lives as long as the answer.
unsafe fn lossy<'a>(text: *const c_char) -> Cow<'a, str> {
    CStr::from_ptr(text).to_string_lossy()
}

/// `pointer` may be NULL if there are none.
unsafe fn elements<'a, T>(pointer: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        &[]
    } else {
        slice::from_raw_parts(pointer, count)
    }
}

impl Answer {
    pub(crate) fn new(answer: *mut ffi::Answer) -> Answer {
        Answer { answer }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        unsafe { ffi::tracesmith_answer_rows(self.answer) }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> + '_ {
        (0..self.len()).map(move |row| Row { answer: self, row })
    }

    /// Names and units, in order.
    pub fn columns(&self) -> Vec<(Cow<'_, str>, Unit)> {
        let count = unsafe { ffi::tracesmith_answer_columns(self.answer) };
        (0..count)
            .map(|column| {
                let mut unit: c_int = 0;
                let name = unsafe { lossy(ffi::tracesmith_answer_column(self.answer, column, &mut unit)) };
                let known = usize::try_from(unit).ok().and_then(|unit| UNITS.get(unit));
                (name, *known.unwrap_or(&Unit::Other))
            })
            .collect()
    }

    /// Null where there is no such row or column.
    pub fn cell(&self, row: usize, column: usize) -> Cell<'_> {
        let mut cell = MaybeUninit::<ffi::Cell>::uninit();
        let cell = unsafe {
            ffi::tracesmith_answer_cell(self.answer, row, column, cell.as_mut_ptr());
            cell.assume_init() // it fills all of it
        };
        unsafe {
            match cell.kind {
                1 => Cell::Integer(cell.integer),
                2 => Cell::Real(cell.real),
                3 => Cell::Text(lossy(cell.text)),
                4 => Cell::Blob(elements(cell.blob.cast(), cell.size)),
                5 => Cell::Stack(elements(cell.frame, cell.size).iter().map(|frame| lossy(*frame)).collect()),
                _ => Cell::Null,
            }
        }
    }

    /// What is missing from the rows.
    pub fn losses(&self) -> Vec<Loss> {
        (0..)
            .map(|index| unsafe { ffi::tracesmith_answer_loss(self.answer, index).as_ref() })
            .map_while(|loss| loss)
            .map(|loss| unsafe {
                Loss {
                    reason: lossy(loss.reason).into_owned(),
                    text: lossy(loss.text).into_owned(),
                    noun: lossy(loss.noun).into_owned(),
                    count: loss.count,
                    time_ns: loss.time_ns,
                    said: lossy(loss.said).into_owned(),
                }
            })
            .collect()
    }

    /// A remark on the answer, for example why it has no rows.
    pub fn note(&self) -> Cow<'_, str> {
        unsafe { lossy(ffi::tracesmith_answer_note(self.answer)) }
    }

    /// The limit has cut off rows.
    pub fn truncated(&self) -> bool {
        unsafe { ffi::tracesmith_answer_truncated(self.answer) != 0 }
    }
}

/// One row of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    answer: &'a Answer,
    row: usize,
}

impl<'a> Row<'a> {
    /// The cell of the column with this name; Null if there is none.
    pub fn get(&self, name: &str) -> Cell<'a> {
        let columns = self.answer.columns();
        let column = columns.iter().position(|(known, _)| known == name);
        column.map_or(Cell::Null, |column| self.answer.cell(self.row, column))
    }

    pub fn cells(&self) -> impl Iterator<Item = Cell<'a>> + 'a {
        let (answer, row) = (self.answer, self.row);
        let count = unsafe { ffi::tracesmith_answer_columns(answer.answer) };
        (0..count).map(move |column| answer.cell(row, column))
    }
}
