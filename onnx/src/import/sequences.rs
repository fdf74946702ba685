//! Sequences and optional values. They exist while a model is read only: a graph has tensors.

use super::cx::Cx;
use super::subgraph::Subgraph;
use super::value::{Held, Val};
use crate::error::Result;
use crate::tensor::Tensor;
use arenagrad::graph::{DType, Var};

/// The most tensors of a sequence that is split from one.
const MOST_PARTS: usize = 1 << 10;

/// The results of an op of sequences or optional values; `None` for all others.
pub fn structure<'g>(cx: &Cx<'_, 'g>) -> Result<Option<Vec<Val<'g>>>> {
    Ok(Some(vec![match cx.node.op_type() {
        "SequenceEmpty" => Val::list(Vec::new()),
        "SequenceConstruct" => Val::list((0..cx.args.len()).map(|i| cx.val(i).cloned()).collect::<Result<_>>()?),
        "SequenceLength" => Val::known(Tensor::of_ints(&[list(cx, 0)?.len() as i64], vec![])),
        "SequenceAt" => {
            let all = list(cx, 0)?;
            all[place(cx, 1, all.len(), false)?].clone()
        }
        "SequenceInsert" => {
            let mut all = list(cx, 0)?;
            let at = if cx.has(2) { place(cx, 2, all.len(), true)? } else { all.len() };
            all.insert(at, cx.val(1)?.clone());
            Val::list(all)
        }
        "SequenceErase" => {
            let mut all = list(cx, 0)?;
            let at = if cx.has(1) { place(cx, 1, all.len(), false)? } else { all.len().saturating_sub(1) };
            if all.is_empty() {
                return cx.wrong("the sequence is empty");
            }
            all.remove(at);
            Val::list(all)
        }
        "SplitToSequence" => Val::list(split(cx)?.into_iter().map(Val::live).collect()),
        "ConcatFromSequence" => Val::live(concat(cx)?),
        "SequenceMap" => return map(cx).map(Some),
        "Optional" if cx.has(0) => cx.val(0)?.clone(),
        "Optional" => Val { dtype: DType::F32, held: Held::Absent },
        "OptionalHasElement" => {
            let there = cx.has(0) && !matches!(cx.val(0)?.held, Held::Absent);
            Val::known(Tensor { dtype: DType::Bool, dims: vec![], bytes: vec![there.into()] })
        }
        "OptionalGetElement" => match cx.val(0)? {
            Val { held: Held::Absent, .. } => return cx.wrong("the optional value is absent"),
            there => there.clone(),
        },
        _ => return Ok(None),
    }]))
}

fn list<'g>(cx: &Cx<'_, 'g>, i: usize) -> Result<Vec<Val<'g>>> {
    match &cx.val(i)?.held {
        Held::List(all) => Ok(all.clone()),
        _ => cx.wrong(format!("operand {i} is no sequence")),
    }
}

/// The position that operand `i` is, in a sequence of `n`; with `end`, `n` is one.
fn place(cx: &Cx<'_, '_>, i: usize, n: usize, end: bool) -> Result<usize> {
    let at = cx.integer(i)?;
    let from_start = if at < 0 { at.saturating_add(n as i64) } else { at };
    match usize::try_from(from_start) {
        Ok(at) if at < n || end && at == n => Ok(at),
        _ => cx.wrong(format!("position {at} is outside of a sequence of {n}")),
    }
}

fn split<'g>(cx: &Cx<'_, 'g>) -> Result<Vec<Var<'g>>> {
    let (x, axis) = (cx.stored(0)?, cx.int("axis", 0));
    let n = x.dims()[cx.axis(axis, x.rank())?];
    let keep = cx.flag("keepdims", true) || cx.has(1);
    let sizes = match cx.has(1) {
        false => vec![1; n.min(MOST_PARTS + 1)],
        true if cx.dims(1)?.is_empty() => {
            let size = cx.integer(1)?.max(1) as usize;
            (0..n.div_ceil(size).min(MOST_PARTS + 1)).map(|i| size.min(n - i * size)).collect()
        }
        true => cx.ints(1)?.iter().map(|&s| s.max(0) as usize).collect(),
    };
    if sizes.len() > MOST_PARTS {
        return cx.refuse(format!("a sequence of more than {MOST_PARTS} tensors is not supported"));
    }
    let parts = x.split(&sizes, axis);
    Ok(if keep { parts } else { parts.into_iter().map(|p| p.squeeze(axis)).collect() })
}

fn concat<'g>(cx: &Cx<'_, 'g>) -> Result<Var<'g>> {
    let all = list(cx, 0)?.iter().map(|v| cx.var(v, false)).collect::<Result<Vec<_>>>()?;
    let Some((first, rest)) = all.split_first() else { return cx.wrong("the sequence is empty") };
    let axis = cx.int("axis", 0);
    Ok(if cx.flag("new_axis", false) { first.stack(rest, axis) } else { first.concat(rest, axis) })
}

/// The body on each element of the sequences; tensors go to each of them.
fn map<'g>(cx: &Cx<'_, 'g>) -> Result<Vec<Val<'g>>> {
    let body = Subgraph::of(cx, "body")?;
    let n = list(cx, 0)?.len();
    let mut outs: Vec<Vec<Val<'g>>> = vec![Vec::new(); body.graph.output.len()];
    for k in 0..n {
        let arg = |i: usize| match &cx.val(i)?.held {
            Held::List(all) => all.get(k).cloned().map_or_else(|| cx.wrong("the sequences differ in length"), Ok),
            _ => cx.val(i).cloned(),
        };
        let args = (0..cx.args.len()).map(arg).collect::<Result<Vec<_>>>()?;
        outs.iter_mut().zip(body.run(args)?).for_each(|(all, v)| all.push(v));
    }
    Ok(outs.into_iter().map(Val::list).collect())
}
