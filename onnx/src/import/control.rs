//! Ops that are not a rule of one node: shapes, constants, branches and loops.

use super::cx::Cx;
use super::reader::{Reader, Scope};
use super::subgraph::{Failed, Subgraph};
use super::value::{Held, Val};
use crate::error::{Result, model};
use crate::proto::ValueInfoProto;
use crate::proto::type_proto::Value as Type;
use crate::tensor::{Tensor, count};
use arenagrad::graph::{DType, Loop, Var};

/// The most iterations of a loop that is written out.
const MOST_UNROLLED: i64 = 1 << 10;

impl<'g> Reader<'_, 'g> {
    /// The results of an op that reads more than its operands, or less; `None` for all others.
    pub fn structure<'c>(&'c self, cx: &'c Cx<'c, 'g>, _: &'c Scope<'c, 'g>) -> Result<Option<Vec<Val<'g>>>> {
        if !matches!(cx.node.domain(), "" | "ai.onnx") {
            return Ok(None);
        }
        Ok(Some(match cx.node.op_type() {
            "Constant" => vec![Val::known(constant(cx, self)?)],
            "Shape" => vec![Val::known(shape(cx)?)],
            "Size" => vec![Val::known(Tensor::of_ints(&[count(&cx.dims(0)?) as i64], vec![]))],
            "Identity" => vec![cx.val(0)?.clone()],
            "If" => choose(cx)?,
            "Loop" => repeat(cx)?,
            "Scan" => scan(cx)?,
            _ => return super::sequences::structure(cx),
        }))
    }
}

/// The value of a constant.
fn constant(cx: &Cx<'_, '_>, reader: &Reader<'_, '_>) -> Result<Tensor> {
    let Some(a) = cx.node.attribute.first() else { return cx.wrong("a constant without a value") };
    let floats = |all: &[f32], dims| Tensor::new(DType::F32, dims, all.iter().flat_map(|x| x.to_le_bytes()).collect());
    match a.name() {
        "value" => match &a.t {
            Some(t) => Tensor::from_proto(t, reader.folder).or_else(|e| cx.refuse(e.to_string())),
            None => cx.wrong("a constant without a value"),
        },
        "value_int" => Ok(Tensor::of_ints(&[a.i()], vec![])),
        "value_ints" => Ok(Tensor::of_ints(&a.ints, vec![a.ints.len()])),
        "value_float" => floats(&[a.f()], vec![]),
        "value_floats" => floats(&a.floats, vec![a.floats.len()]),
        other => cx.refuse(format!("constants of kind {other} are not supported")),
    }
}

/// The sizes of axes `start..end`.
fn shape(cx: &Cx<'_, '_>) -> Result<Tensor> {
    let dims: Vec<i64> = cx.dims(0)?.iter().map(|&d| d as i64).collect();
    let rank = dims.len() as i64;
    let place = |name, default| {
        let at = cx.int(name, default);
        (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize
    };
    let (start, end) = (place("start", 0), place("end", rank));
    let part = &dims[start..end.max(start)];
    Ok(Tensor::of_ints(part, vec![part.len()]))
}

/// The bool that `val` is, if it is known.
fn known_bool(val: &Val<'_>) -> Option<bool> {
    match &val.held {
        Held::Known(t) => t.bytes.first().map(|b| *b != 0),
        _ => None,
    }
}

fn choose<'g>(cx: &Cx<'_, 'g>) -> Result<Vec<Val<'g>>> {
    let (then, otherwise) = (Subgraph::of(cx, "then_branch")?, Subgraph::of(cx, "else_branch")?);
    if let Some(yes) = known_bool(cx.val(0)?) {
        return if yes { then.run(Vec::new()) } else { otherwise.run(Vec::new()) };
    }
    let tensor = |o: &ValueInfoProto| match o.r#type.as_ref().and_then(|t| t.value.as_ref()) {
        None | Some(Type::TensorType(_)) => true,
        Some(_) => false,
    };
    if !then.graph.output.iter().chain(&otherwise.graph.output).all(tensor) {
        // Sequences exist while a model is read: the branch must be known.
        cx.known(0)?;
    }
    let failed = Failed::default();
    let pred = cx.x(0)?.reshape([]);
    let branch = |s: &Subgraph<'_, 'g>| s.run_live(cx, Vec::new(), &failed);
    let outs = cx.g.cond(pred, || branch(&then), || branch(&otherwise));
    finish(failed, outs)
}

/// The results of a region, or the error inside of it.
fn finish<'g>(failed: Failed, outs: Vec<Var<'g>>) -> Result<Vec<Val<'g>>> {
    match failed.into_inner() {
        Some(e) => Err(e),
        None => Ok(outs.into_iter().map(Val::live).collect()),
    }
}

fn all_operands<'g>(cx: &Cx<'_, 'g>, from: usize) -> Result<Vec<Val<'g>>> {
    (from..cx.args.len()).map(|i| cx.val(i).cloned()).collect()
}

fn truth<'g>(yes: bool) -> Val<'g> {
    Val::known(Tensor { dtype: DType::Bool, dims: vec![], bytes: vec![yes.into()] })
}

/// `Loop`: written out if it is known when it ends, else a loop of the graph without stacked results.
fn repeat<'g>(cx: &Cx<'_, 'g>) -> Result<Vec<Val<'g>>> {
    let body = Subgraph::of(cx, "body")?;
    let trips = if cx.has(0) { Some(cx.integer(0)?) } else { None };
    let mut carries = all_operands(cx, 2)?;
    let stacked = body.graph.output.len().saturating_sub(carries.len() + 1);
    let mut go_on = if cx.has(1) { cx.val(1)?.clone() } else { truth(true) };
    let mut rows: Vec<Vec<Val<'g>>> = vec![Vec::new(); stacked];
    for i in 0.. {
        if trips.is_some_and(|n| i >= n) || known_bool(&go_on) == Some(false) {
            break;
        }
        if known_bool(&go_on).is_none() {
            if i == 0 && stacked > 0 {
                cx.known(1)?;
            }
            if stacked > 0 {
                return cx.refuse("a loop with stacked results whose end depends on data is not supported");
            }
            return repeat_live(cx, &body, trips, carries, go_on, i);
        }
        if i == MOST_UNROLLED {
            return cx.refuse(format!("a loop of more than {MOST_UNROLLED} iterations is not supported"));
        }
        let number = Val::known(Tensor::of_ints(&[i], vec![]));
        let mut outs = body.run([number, go_on].into_iter().chain(carries).collect())?;
        if outs.is_empty() {
            return cx.wrong("the body has no outputs");
        }
        go_on = outs.remove(0);
        carries = outs.drain(..outs.len() - stacked).collect();
        rows.iter_mut().zip(outs).for_each(|(all, row)| all.push(row));
    }
    let stack = |all: Vec<Val<'g>>| {
        let vars = all.iter().map(|v| cx.var(v, false)).collect::<Result<Vec<_>>>()?;
        match vars.split_first() {
            Some((first, rest)) => Ok(Val::live(first.stack(rest, 0))),
            None => cx.refuse("stacked results of a loop without iterations are not supported"),
        }
    };
    let rows = rows.into_iter().map(stack).collect::<Result<Vec<_>>>()?;
    Ok(carries.into_iter().chain(rows).collect())
}

/// A loop that ends when a value says so, from iteration `first` on.
fn repeat_live<'g>(
    cx: &Cx<'_, 'g>,
    body: &Subgraph<'_, 'g>,
    trips: Option<i64>,
    carries: Vec<Val<'g>>,
    go_on: Val<'g>,
    first: i64,
) -> Result<Vec<Val<'g>>> {
    let failed = Failed::default();
    let mut start = vec![cx.var(&go_on, false)?.reshape([]), cx.g.full(first as f64, [], DType::I64)];
    for v in &carries {
        start.push(cx.var(v, false)?);
    }
    let mut how = Loop::default();
    how.length = trips.map(|n| (n - first).max(0) as usize);
    let on = |c: &[Var<'g>]| match trips {
        Some(n) => c[0].logical_and(c[1].less(n as f64)),
        None => c[0],
    };
    let (mut last, _) = cx.g.while_loop_with(how, &start, on, |c| {
        let args = [c[1], c[0]].into_iter().chain(c[2..].iter().copied()).map(Val::live).collect();
        let mut outs = body.run_live(cx, args, &failed);
        if outs.is_empty() {
            return Vec::new();
        }
        let on = outs.remove(0).reshape([]);
        [on, c[1] + 1.0].into_iter().chain(outs).collect()
    });
    if last.len() < 2 {
        return finish(failed, Vec::new());
    }
    last.drain(..2);
    finish(failed, last)
}

/// The entries of a list of the node, or as many `default`s as it should have.
fn per_value(cx: &Cx<'_, '_>, name: &str, n: usize) -> Result<Vec<i64>> {
    match cx.list(name) {
        None => Ok(vec![0; n]),
        Some(all) if all.len() == n => Ok(all),
        Some(all) => cx.wrong(format!("{name} has {} entries for {n} values", all.len())),
    }
}

/// `Scan`: a loop of the graph. Version 8 has a batch in front of everything: one loop for each member.
fn scan<'g>(cx: &Cx<'_, 'g>) -> Result<Vec<Val<'g>>> {
    let first = usize::from(cx.opset < 9);
    let n = cx.int("num_scan_inputs", 0).max(0) as usize;
    let all: Vec<Var<'g>> = (first..cx.args.len()).map(|i| cx.stored(i)).collect::<Result<_>>()?;
    if n > all.len() {
        return cx.wrong(format!("num_scan_inputs is {n}, and there are {} operands", all.len()));
    }
    let (carries, xs) = all.split_at(all.len() - n);
    if first == 0 {
        return Ok(scan_one(cx, carries, xs)?.into_iter().map(Val::live).collect());
    }
    if cx.has(0) {
        return cx.refuse("lengths of sequences are not supported");
    }
    let Some(&batch) = all.first().and_then(|v| v.dims().first().copied()).as_ref() else {
        return cx.wrong("the operands have no batch axis");
    };
    if batch as i64 > MOST_UNROLLED {
        return cx.refuse(format!("a batch of more than {MOST_UNROLLED} is not supported"));
    }
    let mut members: Vec<Vec<Var<'g>>> = Vec::new();
    for b in 0..batch {
        let member = |v: &Var<'g>| v.narrow(0, b, 1).squeeze(0);
        let (c, x): (Vec<_>, Vec<_>) = (carries.iter().map(member).collect(), xs.iter().map(member).collect());
        members.push(scan_one(cx, &c, &x)?);
    }
    let Some(width) = members.first().map(Vec::len) else { return cx.refuse("an empty batch is not supported") };
    let stack = |i: usize| {
        let rest: Vec<Var<'g>> = members[1..].iter().map(|m| m[i]).collect();
        Val::live(members[0][i].stack(&rest, 0))
    };
    Ok((0..width).map(stack).collect())
}

fn scan_one<'g>(cx: &Cx<'_, 'g>, carries: &[Var<'g>], xs: &[Var<'g>]) -> Result<Vec<Var<'g>>> {
    let body = Subgraph::of(cx, "body")?;
    let stacked = body.graph.output.len().saturating_sub(carries.len());
    let (axes, reverse) =
        (per_value(cx, "scan_input_axes", xs.len())?, per_value(cx, "scan_input_directions", xs.len())?);
    let (to, back) = (per_value(cx, "scan_output_axes", stacked)?, per_value(cx, "scan_output_directions", stacked)?);
    let turned = |((x, axis), reverse): ((&Var<'g>, i64), i64)| {
        let x = if axis == 0 { *x } else { x.movedim(&[axis], &[0]) };
        if reverse == 0 { x } else { x.flip(0) }
    };
    let xs: Vec<Var<'g>> = xs.iter().zip(axes).zip(reverse).map(turned).collect();
    let failed = Failed::default();
    let (last, rows) = cx.g.scan(carries, &xs, |c, x| {
        let args = c.iter().chain(x).copied().map(Val::live).collect();
        let mut outs = body.run_live(cx, args, &failed);
        let rows = outs.split_off(carries.len().min(outs.len()));
        (outs, rows)
    });
    if let Some(e) = failed.into_inner() {
        return Err(e);
    }
    if rows.len() != stacked {
        return model("the body of a scan has too few outputs");
    }
    let placed = |((y, axis), reverse): ((Var<'g>, i64), i64)| {
        let y = if reverse == 0 { y } else { y.flip(0) };
        if axis == 0 { y } else { y.movedim(&[0], &[axis]) }
    };
    Ok(last.into_iter().chain(rows.into_iter().zip(to).zip(back).map(placed)).collect())
}
