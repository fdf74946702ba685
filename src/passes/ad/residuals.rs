//! What loops keep for their derivatives.
//!
//! A derivative of a loop reads values of each iteration: those that the body's own derivative reads. They become
//! stacked results of the loop. Which they are is found out by differentiating the body once, on a scratch copy in
//! which every value of the body is an argument. What costs nothing to make again (a move, or arithmetic on what is
//! there) is not kept. Invariant: every carry is, so that all else can be made again; what later turns out to be read
//! by nothing is dropped again by [`mod@crate::passes::scan_dce`].

use super::grad::Backward;
use super::loops::{AdContext, ValueMap};
use super::prepare::active;
use crate::arena::{Node, Region, Side, Value, Window, ids::Id};
use crate::error::Result;
use crate::nodes::ir::opdef::{Flags, Lower};
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Op, Var};
use crate::passes::rebuild::{Copier, finish, rebuild_buf, written};

/// `g`, whose loops on the paths from `wrt` to `results` stack what their derivatives read. Inner loops first: what
/// they stack is what the derivatives of those around them read.
pub fn save(g: Graph<'_>, wrt: &[&str], results: &[&str]) -> Result<GraphBuf> {
    let mut buf = rebuild_buf(g, &mut |_| None)?;
    let deepest = depths(g).as_slice().iter().copied().max().unwrap_or(0);
    for depth in 1..=deepest {
        buf = save_at(buf.view(), &active(buf.view(), wrt, results), depth)?;
    }
    Ok(buf)
}

/// For each region, 1 and the depth of the deepest loop in it; 0 for those that no loop runs.
fn depths(g: Graph<'_>) -> Side<Region, usize> {
    let mut inside = Side::<Region, usize>::filled(g.regions(), 0);
    let mut depth = Side::<Region, usize>::filled(g.regions(), 0);
    for r in (0..g.regions()).map(Region::new) {
        for n in g.region_nodes(r).filter(|&n| matches!(g.def_of(n).lower, Lower::Loop)) {
            let body = Scan::of(&g.attrs(n)).body;
            depth[body] = 1 + inside[body];
            inside[r] = inside[r].max(depth[body]);
        }
    }
    depth
}

/// [`save`] for the loops of one depth.
fn save_at(g: Graph<'_>, active: &Side<Node, bool>, depth: usize) -> Result<GraphBuf> {
    let depths = depths(g);
    let mut more = Side::<Region, Vec<Value>>::filled(g.regions(), Vec::new());
    let paper = Builder::rewriting(Emit::like(&g));
    let mut copy = Copier::new(g, &paper);
    copy.run(&mut |_| None);
    for n in (0..g.nodes()).map(Node::new).filter(|&n| active[n] && matches!(g.def_of(n).lower, Lower::Loop)) {
        let s = Scan::of(&g.attrs(n));
        if depths[s.body] == depth && more[s.body].is_empty() {
            let read = reads(g, s.body, &paper, &copy.regions);
            more[s.body] = kept(g, &s, &read);
        }
    }
    written("save", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b).yielding(more);
        c.run(&mut |_| None);
        c.signature();
        drop(c);
        finish(b, bump)
    })
}

/// Which values of region `r` its derivative by all arguments reads, found on `paper`. None where the body has no
/// derivative: then it may still not be asked for.
fn reads(g: Graph<'_>, r: Region, paper: &Builder, regions: &[Region]) -> Window<Value, bool> {
    let mut read = Window::filled(g.region_values(r), false);
    paper.with(|e| e.open_region(""));
    let mut local = Window::filled(g.region_values(r), paper.var(Value::NONE));
    let values: Vec<Value> = g.region_values(r).map(Value).collect();
    for &v in &values {
        local[v] = paper.var(paper.with(|e| e.region_arg(g.ty(v))));
    }
    let float = |v: &Value| g.dtype[v.at()].is_differentiable();
    let seeds: Vec<(Value, Var<'_>)> = g
        .region_yields(r)
        .iter()
        .filter(|y| float(y))
        .map(|&y| (y, paper.var(paper.with(|e| e.region_arg(g.ty(y))))))
        .collect();
    let roots: Vec<Value> = g.region_args(r).filter(float).collect();
    let scene = AdContext { src: g, region: r, g: paper, map: ValueMap::Part(&local), regions };
    let mut back = Backward::new(scene, &roots);
    seeds.iter().for_each(|&(y, ct)| back.add(y, ct));
    let walked = back.walk();
    let mut todo: Vec<Value> = roots.iter().filter_map(|&a| back.cotangent(a)).map(|ct| ct.v).collect();
    paper.with(|e| {
        let mut seen = vec![false; e.values()];
        while let Some(v) = todo.pop().filter(|_| walked.is_ok()) {
            if v == Value::NONE || std::mem::replace(&mut seen[v.at()], true) {
                continue;
            }
            match values.get(v.at()) {
                Some(&of) => read[of] = true,
                None => todo.extend(e.def(v).into_iter().flat_map(|d| d.1)),
            }
        }
        e.close_region(&[]);
        // What the paper's derivative could not do is said when the real one is asked for it.
        e.take_error();
    });
    read
}

/// What the loop `s` stacks so that the values `read` can be had: its carries, and of the others those that take work.
fn kept(g: Graph<'_>, s: &Scan, read: &Window<Value, bool>) -> Vec<Value> {
    let stacked = &g.region_yields(s.body)[s.carries..];
    let mut keep: Vec<Value> = g.region_args(s.body).take(s.carries).filter(|a| !stacked.contains(a)).collect();
    // At hand: arguments, what is stacked, and what moves or simple arithmetic make of those.
    let mut have = Window::filled(g.region_values(s.body), false);
    // To be had: what is read, and what moves make into that.
    let mut need = read.clone();
    for n in g.region_nodes(s.body).rev() {
        if g.def_of(n).flags.has(Flags::MOVE) && g.outs_of(n).any(|v| need[v]) {
            g.args_of(n).iter().for_each(|&a| need[a] = true);
        }
    }
    for n in g.region_nodes(s.body) {
        let def = g.def_of(n);
        let moves = def.flags.has(Flags::MOVE);
        let simple = moves || def.is_pointwise() && !def.flags.has(Flags::EXPENSIVE);
        let again = g.op[n.at()] == Op::ARG || simple && g.args_of(n).iter().all(|&a| have[a]);
        for v in g.outs_of(n) {
            have[v] = again || stacked.contains(&v);
            if need[v] && !have[v] && !moves {
                keep.push(v);
                have[v] = true;
            }
        }
    }
    keep
}
