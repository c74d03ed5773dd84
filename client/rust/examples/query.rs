//! Prints the answer of a query as a table: `query NAME [PID]`, of the daemon; `query NAME F.sbt`, of a recording.

use std::process::ExitCode;

use tracesmith::{Client, Query, Result};

fn table(name: &str, of: Option<&str>) -> Result<()> {
    let mut query = Query::new(name).limit(10);
    let mut client = match of {
        Some(of) => match of.parse() {
            Ok(pid) => {
                query = query.pid(pid);
                Client::connect()?
            }
            Err(_) => Client::open(of)?,
        },
        None => Client::connect()?,
    };
    let answer = client.query(&query)?;
    let names: Vec<_> = answer.columns().into_iter().map(|(name, _)| name).collect();
    println!("{}", names.join("\t"));
    for row in answer.rows() {
        let cells: Vec<_> = row.cells().map(|cell| cell.to_string()).collect();
        println!("{}", cells.join("\t"));
    }
    for loss in answer.losses() {
        if loss.said.is_empty() {
            eprintln!("Missing: {} {}s ({})", loss.count, loss.noun, loss.text);
        } else {
            eprintln!("{}", loss.said);
        }
    }
    if !answer.note().is_empty() {
        eprintln!("{}", answer.note());
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments.is_empty() {
        eprintln!("usage: query NAME [PID|F.sbt]");
        return ExitCode::from(2);
    }
    match table(&arguments[0], arguments.get(1).map(String::as_str)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("query: {}", error);
            ExitCode::FAILURE
        }
    }
}
