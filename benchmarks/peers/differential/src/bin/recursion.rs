//! Recursion on differential dataflow: recursion QUERY CHANGES NODES ROOTS [ANSWER]
//!
//! One worker, in one thread. CHANGES has five i32, little-endian, for each change of an edge, by
//! step: the step, 1 or -1, from, to, length. The nodes are the numbers below NODES, the roots those
//! below ROOTS. A step's clock runs from when its changes are handed to the input until the result is
//! complete at its time. Prints one JSON object: the seconds of the steps, and those on the
//! processor. With ANSWER the rows in the end are written to that file, two i32 each.
//!
//! The dataflows are those of differential dataflow's authors: `iterate` with `distinct` or with the
//! least, and `propagate_at` for components. The two program analyses are Graspan's: edges of a
//! length below DEREFERENCES are assignments, the others dereferences.

#[path = "../clock.rs"]
mod clock;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use differential_dataflow::algorithms::graphs::propagate::propagate_at;
use differential_dataflow::operators::iterate::{Iterate, Variable};
use differential_dataflow::{AsCollection, VecCollection};
use timely::dataflow::operators::ToStream;
use timely::dataflow::{InputHandleVec, ProbeHandle, Scope};
use timely::order::Product;

use clock::cpu_seconds;

/// The least length of an edge that is a dereference, for `points`.
const DEREFERENCES: i32 = 60;

type Edge = (u32, (u32, i32));
type Pairs<'s> = VecCollection<'s, usize, (u32, i32)>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [query, changes, nodes, roots, answer @ ..] = &arguments[..] else {
        eprintln!("usage: recursion QUERY CHANGES NODES ROOTS [ANSWER]");
        std::process::exit(2);
    };
    let query = query.clone();
    let nodes: u32 = nodes.parse().expect("NODES is a number");
    let roots: u32 = roots.parse().expect("ROOTS is a number");
    let mut steps = read(changes);
    let answer = answer.first().cloned();
    timely::execute_directly(move |worker| {
        let rows = Rc::new(RefCell::new(BTreeMap::<(u32, i32), isize>::new()));
        let found = answer.is_some().then(|| rows.clone());
        let mut probe = ProbeHandle::new();
        let mut input = worker.dataflow::<usize, _, _>(|scope| {
            let mut input: InputHandleVec<usize, (Edge, usize, isize)> = InputHandleVec::new();
            let edges = input.to_stream(scope).as_collection();
            let result = result(&query, scope, edges, nodes, roots).probe_with(&mut probe);
            if let Some(rows) = found {
                result.inspect(move |(row, _, diff)| {
                    *rows.borrow_mut().entry(*row).or_default() += diff;
                });
            }
            input
        });
        let (mut seconds, mut cpu) = (Vec::new(), Vec::new());
        for (time, step) in steps.iter_mut().enumerate() {
            let (started, cpu_started) = (Instant::now(), cpu_seconds());
            input.send_batch(step);
            input.advance_to(time + 1);
            worker.step_while(|| probe.less_than(&(time + 1)));
            seconds.push(started.elapsed().as_secs_f64());
            cpu.push(cpu_seconds() - cpu_started);
        }
        if let Some(path) = answer {
            let mut bytes = Vec::new();
            for ((a, b), count) in rows.borrow().iter().filter(|(_, count)| **count != 0) {
                assert_eq!(*count, 1, "({a}, {b}) is there {count} times");
                bytes.extend(a.to_le_bytes());
                bytes.extend(b.to_le_bytes());
            }
            std::fs::write(path, bytes).expect("the answer can be written");
        }
        println!("{{\"seconds\": {seconds:?}, \"cpu_seconds\": {cpu:?}}}");
    });
}

fn result<'s>(
    query: &str,
    scope: Scope<'s, usize>,
    edges: VecCollection<'s, usize, Edge>,
    nodes: u32,
    roots: u32,
) -> Pairs<'s> {
    let plain = edges.clone().map(|(a, (b, _))| (a, b));
    match query {
        "reach" => {
            let starts = all(scope, roots);
            let plain = plain.arrange_by_key();
            starts
                .clone()
                .iterate(|scope, inner| {
                    let (edges, starts) = (plain.enter(scope), starts.enter(scope));
                    inner
                        .map(|n| (n, ()))
                        .join_core(edges, |_, _, b| Some(*b))
                        .concat(starts)
                        .distinct()
                })
                .map(|n| (n, 0))
        }
        "components" => {
            let both = plain.clone().map(|(a, b)| (b, a)).concat(plain);
            let labels = all(scope, nodes).map(|n| (n, n));
            propagate_at(both, labels, |label| *label as u64).map(|(n, label)| (n, label as i32))
        }
        "sssp" => {
            let starts = all(scope, roots).map(|n| (n, 0i32));
            let edges = edges.arrange_by_key();
            starts.clone().iterate(|scope, inner| {
                let (edges, starts) = (edges.enter(scope), starts.enter(scope));
                inner
                    .join_core(edges, |_, far, (b, length)| Some((*b, far + length)))
                    .concat(starts)
                    .reduce(|_, input, output| output.push((*input[0].0, 1)))
            })
        }
        "tc" => {
            let by_start = plain.clone().arrange_by_key();
            plain
                .clone()
                .iterate(|scope, inner| {
                    let (edges, plain) = (by_start.enter(scope), plain.enter(scope));
                    inner
                        .map(|(x, y)| (y, x))
                        .join_core(edges, |_, x, z| Some((*x, *z)))
                        .concat(plain)
                        .distinct()
                })
                .map(|(x, y)| (x, y as i32))
        }
        "sg" => {
            let by_parent = plain.arrange_by_key();
            let siblings = by_parent
                .clone()
                .join_core(by_parent.clone(), |_, x, y| (x != y).then_some((*x, *y)));
            siblings
                .clone()
                .iterate(|scope, inner| {
                    let (edges, siblings) = (by_parent.enter(scope), siblings.enter(scope));
                    inner
                        .join_core(edges.clone(), |_, y, x| Some((*y, *x)))
                        .join_core(edges, |_, x, y| Some((*x, *y)))
                        .concat(siblings)
                        .distinct()
                })
                .map(|(x, y)| (x, y as i32))
        }
        "nulls" => {
            let starts = all(scope, roots).map(|n| (n, n as i32));
            let plain = plain.arrange_by_key();
            starts
                .clone()
                .iterate(|scope, inner| {
                    let (edges, starts) = (plain.enter(scope), starts.enter(scope));
                    inner
                        .join_core(edges, |_, root, b| Some((*b, *root)))
                        .concat(starts)
                        .distinct()
                })
                .map(|(n, root)| (root as u32, n as i32))
        }
        "points" => points(scope, edges, nodes),
        _ => panic!("there is no query {query}"),
    }
}

/// Pairs of variables that may have the same value: those that one flows to, over assignments and
/// over what may be the same place in memory, or that two such places flow to.
fn points<'s>(
    scope: Scope<'s, usize>,
    edges: VecCollection<'s, usize, Edge>,
    nodes: u32,
) -> Pairs<'s> {
    let assigned = edges.clone().filter(|(_, (_, length))| *length < DEREFERENCES);
    let followed = edges.filter(|(_, (_, length))| *length >= DEREFERENCES);
    let assigned = assigned.map(|(a, (b, _))| (a, b)).arrange_by_key();
    let followed = followed.map(|(a, (b, _))| (a, b)).arrange_by_key();
    let own = all(scope, nodes).map(|n| (n, n));
    scope.iterative::<usize, _, _>(|inner| {
        let step = Product::new(Default::default(), 1);
        let (flows_bind, flows) = Variable::new(inner, step);
        let (aliases_bind, aliases) = Variable::new(inner, step);
        let (assigned, followed) = (assigned.enter(inner), followed.enter(inner));
        let by_end = flows.clone().map(|(x, y): (u32, u32)| (y, x)).arrange_by_key();
        let by_start = flows.arrange_by_key();
        let aliases = aliases.arrange_by_key();
        let direct = by_end.clone().join_core(assigned.clone(), |_, x, b| Some((*x, *b)));
        let through = by_end
            .join_core(aliases.clone(), |_, x, q: &u32| Some((*q, *x)))
            .arrange_by_key()
            .join_core(assigned, |_, x, b| Some((*x, *b)));
        flows_bind.set(own.enter(inner).concat(direct).concat(through).distinct());
        let same = by_start.clone().join_core(by_start.clone(), |_, x, y| Some((*x, *y)));
        let apart = by_start
            .clone()
            .join_core(aliases, |_, x, q| Some((*q, *x)))
            .arrange_by_key()
            .join_core(by_start, |_, x, y| Some((*x, *y)));
        let values = same.concat(apart).distinct();
        let places = values
            .clone()
            .arrange_by_key()
            .join_core(followed.clone(), |_, y, p| Some((*y, *p)))
            .arrange_by_key()
            .join_core(followed, |_, p, q| Some((*p, *q)))
            .distinct();
        aliases_bind.set(places);
        values.leave(scope)
    })
    .map(|(x, y)| (x, y as i32))
}

/// The numbers below `end`.
fn all(scope: Scope<'_, usize>, end: u32) -> VecCollection<'_, usize, u32> {
    (0..end).map(|n| (n, 0, 1)).to_stream(scope).as_collection()
}

/// The changes by step.
fn read(path: &str) -> Vec<Vec<(Edge, usize, isize)>> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut steps: Vec<Vec<_>> = Vec::new();
    for row in bytes.chunks_exact(20) {
        let word = |i: usize| i32::from_le_bytes(row[4 * i..4 * i + 4].try_into().unwrap());
        let step = word(0) as usize;
        steps.resize_with(steps.len().max(step + 1), Vec::new);
        let edge = (word(2) as u32, (word(3) as u32, word(4)));
        steps[step].push((edge, step, word(1) as isize));
    }
    steps
}
