//! TPC-H on differential dataflow: differential-peer QUERY DIRECTORY SCHEDULE [--answers]
//!
//! One worker, in one thread. The tables lie in DIRECTORY (see `rows`), and arrive as SCHEDULE says
//! (see `feed`), each step at a logical time of its own; a step's clock runs from when its rows are
//! handed to the inputs until the result is complete at its time. Prints one JSON object: the seconds
//! of the timed steps, their processor time, their rows and resident memory. With --answers the
//! result is collected too, and printed as texts; that run is not one to time.
//!
//! The queries are plans written by hand, after those of differential dataflow's authors
//! (https://github.com/TimelyDataflow/differential-dataflow, tpchlike), with the answers of the SQL.
//! Sums are kept as differences, as theirs are, and what one query reads twice is arranged once.

mod clock;
mod feed;
mod queries;
mod rows;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use feed::Answers;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, directory, schedule, options @ ..] = &arguments[..] else {
        eprintln!("usage: differential-peer QUERY DIRECTORY SCHEDULE [--answers]");
        std::process::exit(2);
    };
    let Some(query) = queries::by_name(name) else {
        eprintln!("there is no query {name}");
        std::process::exit(2);
    };
    let with_answers = options.iter().any(|option| option == "--answers");
    let directory = PathBuf::from(directory);
    let steps = feed::read_schedule(&PathBuf::from(schedule));
    let line = timely::execute_directly(move |worker| {
        let answers: Option<Answers> = with_answers.then(|| Rc::new(RefCell::new(Vec::new())));
        let run = feed::run(worker, query, &directory, steps, answers.clone());
        let [before, loaded, peak] = run.resident_bytes;
        let mut line = format!(
            "{{\"rows\": {}, \"cpu_seconds\": {}, \"base_bytes\": {before}, \
             \"loaded_bytes\": {loaded}, \"peak_bytes\": {peak}, \"seconds\": {:?}",
            run.rows, run.cpu_seconds, run.seconds
        );
        if let Some(answers) = answers {
            line += &format!(", \"answer\": [{}]", answer(&answers).join(", "));
        }
        line + "}"
    });
    println!("{line}");
}

/// The rows that are there in the end, each a JSON list, as often as they are there.
fn answer(answers: &Answers) -> Vec<String> {
    let mut counts: BTreeMap<Vec<String>, isize> = BTreeMap::new();
    for (row, diff) in answers.borrow().iter() {
        *counts.entry(row.clone()).or_default() += diff;
    }
    let mut found = Vec::new();
    for (row, count) in counts {
        assert!(count >= 0, "{row:?} is there {count} times");
        let values: Vec<String> = row.iter().map(|value| format!("{value:?}")).collect();
        found.extend((0..count).map(|_| format!("[{}]", values.join(", "))));
    }
    found
}
