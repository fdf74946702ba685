//! Every op in a branch, in a loop of a length known at run time, in a scan and in a batch, against the op alone:
//! values, and derivatives in both modes and of second order.
//! `cargo test --release --test ops in_regions -- --nocapture` prints the table. A row whose cells are not all compared
//! ends with the reasons.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::error::Kind;
use arenagrad::graph::{Builder, DType, GraphBuf, Loop, Missing, Var};
use arenagrad::tools::fuzz::{EngineStep, LeafValues, RunOptions, run_engine};
use arenagrad::tools::ir::attrs::Attr;
use arenagrad::tools::ir::opdef::{Case, Flags, OpDef};
use arenagrad::tools::ir::text;
use arenagrad::tools::ops::table::OPS;
use arenagrad::tools::testing::add_case_region;
use std::collections::{BTreeMap, BTreeSet};

/// Where an op stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Alone,
    Cond,
    While,
    Scan,
    Vmap,
}

const PLACES: [Place; 4] = [Place::Cond, Place::While, Place::Scan, Place::Vmap];
const MODES: [&str; 4] = ["value", "vjp", "jvp", "hvp"];

/// A conformance case in f64 at `place`: inputs x0, x1 …, outputs y0, y1 … of the types `outs`. The predicate is
/// true, which no pass knows.
fn graph(def: &'static OpDef, case: &Case, place: Place, outs: &[(Vec<usize>, DType)]) -> Result<GraphBuf, String> {
    let g = Builder::new("case");
    let types = g.with(|e| text::parse_types(case.args, DType::F64, e)).unwrap();
    let dims = |i: usize| g.with(|e| e.shapes.dims(types[i].shape));
    let x: Vec<Var<'_>> = (0..types.len()).map(|i| g.input(&format!("x{i}"), dims(i), types[i].dtype)).collect();
    let any = g.input("any", [], DType::Bool);
    let on = any.bitwise_or(any.bitwise_not());
    g.with(|e| add_case_region(e, case, &types));
    let owned = g.with(|e| text::parse_attrs(def.attrs, case.attrs, e)).unwrap();
    let attrs: Vec<Attr<'_>> = owned.iter().map(|a| a.as_attr()).collect();
    let op = || g.custom(def, &x, &attrs).into_iter().collect::<Vec<Var<'_>>>();
    let zeros = || outs.iter().map(|(dims, dtype)| g.full(0.0, dims, *dtype)).collect::<Vec<Var<'_>>>();
    let y = match place {
        Place::Alone => op(),
        Place::Cond => g.cond(on, op, zeros),
        Place::While => g.fori(on.cast(DType::I64), 2, &zeros(), |_, _| op()),
        Place::Vmap => {
            // The second of two members. An op without operands is the same for all.
            let pairs: Vec<Var<'_>> = x.iter().map(|x| x.stack(&[*x], 0)).chain([g.iota(0, [2], DType::I32)]).collect();
            let all = g.vmap(&pairs, |x| g.custom(def, &x[..types.len()], &attrs).into_iter().collect());
            all.iter().map(|y| y.narrow(0, 1, 1).reshape(&y.dims()[1..])).collect()
        }
        Place::Scan => g.scan_with(Loop::default().length(1), &zeros(), &[], |_, _| (op(), Vec::new())).0,
    };
    y.iter().enumerate().for_each(|(i, &y)| g.output(&format!("y{i}"), y));
    g.output("ran", on);
    g.finish([]).map_err(|e| e.to_string())
}

/// A cell of the table.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    /// The op computes the same alone and at the place.
    Same,
    /// There is nothing to compare, for this reason.
    Empty(String),
}

/// The graph of a mode, or why there is no such derivative.
fn in_mode(g: &GraphBuf, mode: &str) -> Result<Result<GraphBuf, String>, String> {
    let v = g.view();
    let float = |dtype: DType| dtype == DType::F64;
    let names = v.leaves().filter(|l| float(v.ty(l.value).dtype)).map(|l| l.name.to_string());
    let wrt: Vec<String> = names.collect();
    let outputs = v.outputs().iter().zip(v.output_names).filter(|y| float(v.ty(*y.0).dtype));
    let ys: Vec<String> = outputs.map(|y| v.str(*y.1).to_string()).collect();
    let (wrt, ys): (Vec<&str>, Vec<&str>) =
        (wrt.iter().map(String::as_str).collect(), ys.iter().map(String::as_str).collect());
    match mode {
        "value" => return Ok(Ok(g.clone())),
        _ if wrt.is_empty() => return Ok(Err("no operand is a float".into())),
        _ if ys.is_empty() => return Ok(Err("no result is a float".into())),
        _ => {}
    }
    let grads: Vec<String> = wrt.iter().map(|x| format!("grad.{x}")).collect();
    let grads: Vec<&str> = grads.iter().map(String::as_str).collect();
    let made = match mode {
        "vjp" => g.vjp(&ys, &wrt, Missing::Zero),
        "jvp" => g.jvp(&ys, &wrt),
        _ => g.vjp(&ys, &wrt, Missing::Zero).and_then(|h| h.jvp(&grads, &wrt)),
    };
    match made {
        Ok(g) => Ok(Ok(g)),
        Err(e) if e.kind == Kind::Derivative => Ok(Err(e.to_string())),
        Err(e) => Err(e.to_string()),
    }
}

/// The op by itself in a mode.
struct Alone {
    /// The types of its results.
    outs: Vec<(Vec<usize>, DType)>,
    /// The values of its leaves and what it computes of them, or why there is no such derivative.
    computed: Result<(LeafValues, Result<EngineStep, String>), String>,
}

impl Alone {
    fn new(def: &'static OpDef, case: &Case, mode: &str) -> Result<Alone, String> {
        let graph = graph(def, case, Place::Alone, &[])?;
        let v = graph.view();
        let types = v.outputs().iter().map(|&y| (v.dims(y).to_vec(), v.ty(y).dtype));
        let outs = types.take(v.outputs().len() - 1).collect();
        let computed = match in_mode(&graph, mode)? {
            Err(why) => Err(why),
            Ok(g) => {
                let leaves = LeafValues::draw_for(&[g.view()], 1).map_err(|e| format!("{e:?}"))?;
                let step = run_engine(g.view(), &leaves, RunOptions::default()).map_err(|e| e.to_string());
                Ok((leaves, step))
            }
        };
        Ok(Alone { outs, computed })
    }
}

/// Whether `inside` computes of these leaves what the op does by itself.
fn compare(leaves: &LeafValues, alone: &Result<EngineStep, String>, inside: &GraphBuf) -> Result<(), String> {
    let have = run_engine(inside.view(), leaves, RunOptions::default()).map_err(|e| e.to_string());
    let (want, have) = match (alone, have) {
        (Ok(want), Ok(have)) => (want, have),
        // An index out of range stops both.
        (Err(_), Err(_)) => return Ok(()),
        (Err(e), _) => return Err(format!("alone: {e}")),
        (_, Err(e)) => return Err(e),
    };
    for (a, b) in want.outputs.iter().zip(&have.outputs) {
        let near = |i: usize| {
            let (x, y) = (a.array.number(i), b.array.number(i));
            x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-11 * x.abs().max(1.0)
        };
        if let Some(i) = (0..a.array.len()).find(|&i| !near(i)) {
            return Err(format!("{}[{i}] is {} and not {}", a.name, b.array.number(i), a.array.number(i)));
        }
    }
    Ok(())
}

/// One cell of the table.
fn cell(def: &'static OpDef, case: &Case, alone: &Alone, place: Place, mode: &str) -> Result<Cell, String> {
    // Nothing fills these types, so they are no carries that start with zeros.
    if let Some(y) = alone.outs.iter().find(|y| matches!(y.1, DType::I16 | DType::U16 | DType::U64 | DType::C64)) {
        return Ok(Cell::Empty(format!("no constant fills {}", y.1)));
    }
    let inside = graph(def, case, place, &alone.outs)?;
    match (&alone.computed, in_mode(&inside, mode)?) {
        (Err(why), _) => Ok(Cell::Empty(why.clone())),
        (Ok(_), Err(why)) => Err(format!("has no derivative here: {why}")),
        (Ok((leaves, step)), Ok(inside)) => compare(leaves, step, &inside).map(|()| Cell::Same),
    }
}

#[test]
fn every_op_is_the_same_in_every_region() {
    let skipped = |def: &OpDef| def.flags.has(Flags::LEAF) || def.flags.has(Flags::EFFECT) || def.cases.is_empty();
    let (mut wrong, mut counts) = (Vec::new(), BTreeMap::<String, usize>::new());
    for def in OPS.iter().filter(|def| !skipped(def)) {
        let (mut row, mut reasons) = (String::new(), BTreeSet::new());
        // Computed once for all places.
        let alone = MODES.map(|mode| Alone::new(def, &def.cases[0], mode));
        for (place, (mode, alone)) in PLACES.iter().flat_map(|p| MODES.iter().zip(&alone).map(move |m| (*p, m))) {
            let alone = alone.as_ref().map_err(String::clone);
            match alone.and_then(|alone| cell(def, &def.cases[0], alone, place, mode)) {
                Ok(Cell::Same) => {
                    *counts.entry("same".into()).or_default() += 1;
                    row += " same ";
                }
                Ok(Cell::Empty(why)) => {
                    assert!(!why.is_empty(), "{} in {place:?}, {mode}: an empty cell without a reason", def.name);
                    *counts.entry(why.clone()).or_default() += 1;
                    row += " -    ";
                    reasons.insert(why);
                }
                Err(e) => {
                    row += " WRONG";
                    wrong.push(format!("{} in {place:?}, {mode}: {e}", def.name));
                }
            }
        }
        let reasons: Vec<String> = reasons.into_iter().collect();
        println!("{:28}{row} {}", def.name, reasons.join("; "));
    }
    let columns = PLACES.iter().flat_map(|p| MODES.iter().map(move |m| format!("{p:?} {m}")));
    println!("columns: {}", columns.collect::<Vec<_>>().join(", "));
    counts.iter().for_each(|(is, n)| println!("{n:6} {is}"));
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    assert!(counts["same"] > 2700, "{counts:?}");
}
