//! What arrives when, and the clock: steps over tables that were parsed and cut beforehand.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use differential_dataflow::{AsCollection, Data, VecCollection};
use timely::dataflow::{InputHandleVec, ProbeHandle, Scope};
use timely::worker::Worker;

use crate::clock::cpu_seconds;
use crate::rows::{Reader, Table};

pub const TABLES: usize = 8;

pub type Collection<'s, D, R = isize> = VecCollection<'s, usize, D, R>;

/// One transaction: how many of each table's next rows it inserts.
#[derive(Clone, Copy)]
pub struct Step {
    pub is_timed: bool,
    pub counts: [usize; TABLES],
}

/// A schedule's file is i32, little-endian: 1 if the step is timed or 0, then a count for each table.
pub fn read_schedule(path: &Path) -> Vec<Step> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let words: Vec<i32> = bytes
        .chunks_exact(4)
        .map(|b| i32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    words
        .chunks_exact(1 + TABLES)
        .map(|step| Step {
            is_timed: step[0] != 0,
            counts: std::array::from_fn(|table| step[1 + table] as usize),
        })
        .collect()
}

/// An input of one table and the rows that it is still to send.
trait Source {
    fn send(&mut self);
    fn advance_to(&mut self, time: usize);
}

struct Feed<R: Table> {
    handle: InputHandleVec<usize, (R, usize, isize)>,
    batches: VecDeque<Vec<(R, usize, isize)>>,
}

impl<R: Table> Source for Feed<R> {
    fn send(&mut self) {
        let mut batch = self.batches.pop_front().unwrap();
        if !batch.is_empty() {
            self.handle.send_batch(&mut batch);
        }
    }

    fn advance_to(&mut self, time: usize) {
        self.handle.advance_to(time);
    }
}

/// Rows of the result as texts, with their changes of multiplicity.
pub type Answers = Rc<RefCell<Vec<(Vec<String>, isize)>>>;

/// What a query is made in: its inputs, as it asks for them, and its output.
pub struct Context<'s> {
    scope: Scope<'s, usize>,
    directory: PathBuf,
    steps: Rc<Vec<Step>>,
    sources: Vec<Box<dyn Source>>,
    probe: ProbeHandle<usize>,
    answers: Option<Answers>,
}

impl<'s> Context<'s> {
    /// The table as a collection; its rows are read and cut into steps now. To be asked for once.
    pub fn table<R: Table>(&mut self) -> Collection<'s, R> {
        let path = self.directory.join(format!("{}.rows", R::NAME));
        let mut rows = R::read(&mut Reader::open(&path)).into_iter();
        let batches = self.steps.iter().enumerate().map(|(time, step)| {
            rows.by_ref()
                .take(step.counts[R::PLACE])
                .map(|row| (row, time, 1))
                .collect()
        });
        let batches: VecDeque<Vec<_>> = batches.collect();
        let mut handle = InputHandleVec::new();
        let collection = handle.to_stream(self.scope).as_collection();
        self.sources.push(Box::new(Feed { handle, batches }));
        collection
    }

    /// What the query results in, once for each query. `texts` makes a row of the answer.
    pub fn output<D: Data>(
        &mut self,
        result: Collection<'s, D>,
        texts: impl Fn(&D) -> Vec<String> + 'static,
    ) {
        let result = result.probe_with(&self.probe);
        if let Some(answers) = self.answers.clone() {
            result.inspect(move |(row, _, diff)| answers.borrow_mut().push((texts(row), *diff)));
        }
    }
}

/// What a run took; of the steps, those that are timed.
pub struct Run {
    pub seconds: Vec<f64>,
    pub cpu_seconds: f64,
    pub rows: usize,
    /// Resident memory: before the tables were read, when they lay ready, and at most after that.
    pub resident_bytes: [usize; 3],
}

/// Make the query's dataflow, then take all steps, each a logical time of its own.
pub fn run(
    worker: &mut Worker,
    query: fn(&mut Context),
    directory: &Path,
    steps: Vec<Step>,
    answers: Option<Answers>,
) -> Run {
    let steps = Rc::new(steps);
    let before = resident("VmRSS");
    let (mut sources, probe) = worker.dataflow::<usize, _, _>(|scope| {
        let mut context = Context {
            scope,
            directory: directory.to_path_buf(),
            steps: steps.clone(),
            sources: Vec::new(),
            probe: ProbeHandle::new(),
            answers,
        };
        query(&mut context);
        (context.sources, context.probe)
    });
    // Peaks count from here: reading the files took more.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let loaded = resident("VmRSS");
    let mut run = Run {
        seconds: Vec::new(),
        cpu_seconds: 0.0,
        rows: 0,
        resident_bytes: [0; 3],
    };
    for (time, step) in steps.iter().enumerate() {
        let cpu = cpu_seconds();
        let started = Instant::now();
        for source in &mut sources {
            source.send();
        }
        for source in &mut sources {
            source.advance_to(time + 1);
        }
        worker.step_while(|| probe.less_than(&(time + 1)));
        if step.is_timed {
            run.seconds.push(started.elapsed().as_secs_f64());
            run.cpu_seconds += cpu_seconds() - cpu;
            run.rows += step.counts.iter().sum::<usize>();
        }
    }
    run.resident_bytes = [before, loaded, resident("VmHWM")];
    run
}

/// A line of /proc/self/status, in bytes; 0 where there is none.
fn resident(name: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}
