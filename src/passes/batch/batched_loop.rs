//! Ops that run regions, for all members: the regions are written again for all of them.
//!
//! Whether an operand, a yield or an argument of a region is batched must be known before the region is written.
//! [`find_batched_values`] decides this, on the safe side: a value that need not be batched may be repeated for the
//! members.

use super::batched_region::{BatchContext, BatchMember, find_batched_values, write_region_for_members};
use crate::arena::{Node, Region, Value, Window, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ops::common::batch_site::swap_axis_runs;
use crate::nodes::ops::control::cond::IfAttrs;
use crate::nodes::ops::control::custom_fn::CustomFnAttrs;
use crate::nodes::ops::control::scan::{Scan, ScanAttrs};
use crate::nodes::{Op, Ty, Var};

/// Writes region `r` for all members, with arguments that are batched as `batched` says. `close` gives the yields of
/// the new region, from those of the old one.
fn write_member_body<'g>(
    context: BatchContext<'_, '_, 'g>,
    r: Region,
    batched: &[bool],
    close: impl FnOnce(&[BatchMember<'g>]) -> Vec<Var<'g>>,
) -> Result<Region> {
    let BatchContext { src, g, size, .. } = context;
    g.with(|e| e.open_region(src.str(src.region_names[r.at()])));
    let arg = |(v, &batched): (Value, &bool)| {
        let dims = src.dims(v);
        let lead: &[usize] = if batched { &[size] } else { &[] };
        let shape = g.shape(&[lead, &dims[..]].concat()).unwrap_or(src.ty(v).shape);
        let var = g.var(g.with(|e| e.region_arg(Ty { dtype: src.dtype[v.at()], shape })));
        (v, BatchMember { var, batched })
    };
    let args: Vec<(Value, BatchMember<'g>)> = src.region_args(r).zip(batched).map(arg).collect();
    let written = write_region_for_members(context, r, &args);
    let yields = written.map(|values| {
        let yields: Vec<BatchMember<'g>> = src.region_yields(r).iter().map(|&y| values[y]).collect();
        close(&yields)
    });
    let ids: Vec<Value> = yields.iter().flatten().map(|y| y.v).collect();
    let region = g.with(|e| e.close_region(&ids));
    yields.map(|_| region)
}

/// For each yield of region `r`, whether it may differ between members.
fn find_varying_yields(context: BatchContext<'_, '_, '_>, r: Region, args: &[bool]) -> Vec<bool> {
    let values = find_varying_values(context, r, args);
    context.src.region_yields(r).iter().map(|&y| values[y]).collect()
}

/// For each value of region `r`, whether it may differ between members, if the arguments do as `args` says.
fn find_varying_values(context: BatchContext<'_, '_, '_>, r: Region, args: &[bool]) -> Window<Value, bool> {
    let roots = context.src.region_args(r).zip(args).filter(|(_, b)| **b).map(|(v, _)| v);
    find_batched_values(context.src, r, &roots.collect::<Vec<_>>(), context.draws)
}

/// The results of the loop `n`. A carry is batched if its start or a value that it becomes is. `None` if what ends the
/// loop differs between members: then each runs its own iterations.
pub(super) fn batch_scan<'g>(
    context: BatchContext<'_, '_, 'g>,
    n: Node,
    args: &[BatchMember<'g>],
) -> Result<Option<Vec<BatchMember<'g>>>> {
    let BatchContext { src, g, size, draws, .. } = context;
    let scan = Scan::of(&src.attrs(n));
    let mut batched: Vec<bool> = args.iter().map(|a| a.batched).collect();
    loop {
        let differ = find_varying_yields(context, scan.body, &batched);
        match (0..scan.carries).find(|&i| differ[i] && !batched[i]) {
            Some(i) => batched[i] = true,
            None => break,
        }
    }
    if scan.exit_operand().is_some_and(|i| batched[i]) {
        let text = "vmap: the number of iterations differs between members, and the loop draws random numbers; choose \
                    Randomness::Same";
        return match draws[scan.body] {
            true => Err(Error::new(Kind::Verify, text).at(src.location(n))),
            false => Ok(None),
        };
    }
    // Slices of one iteration, for all members: the axis of the iterations stands before that of the batch.
    let operand = |(i, a): (usize, &BatchMember<'g>)| match i < scan.xs() {
        true => a.as_batched(batched[i], size),
        false if a.batched => swap_axis_runs(a.var, 0, 1, 1),
        false => a.var,
    };
    let operands: Vec<Var<'g>> = args.iter().enumerate().map(operand).collect();
    let mut outs = Vec::new();
    let body = write_member_body(context, scan.body, &batched, |yields| {
        let all = yields.iter().enumerate();
        outs = all.clone().map(|(i, y)| if i < scan.carries { batched[i] } else { y.batched }).collect();
        all.map(|(i, y)| y.as_batched(outs[i], size)).collect()
    })?;
    g.with(|e| e.set_loc(src.loc[n.at()]));
    let attrs = ScanAttrs { body, ..ScanAttrs::of(&src.attrs(n)) };
    let result = |(i, (var, &batched)): (usize, (Var<'g>, &bool))| match i >= scan.carries && batched {
        true => BatchMember { var: swap_axis_runs(var, 0, 1, 1), batched },
        false => BatchMember { var, batched },
    };
    let results: Vec<Var<'g>> = g.emit(Op::SCAN, &operands, &attrs.list()).into();
    Ok(Some(results.into_iter().zip(&outs).enumerate().map(result).collect()))
}

/// The results of the choice `n`. `None` if the predicate differs between members: then each runs its own branch.
pub(super) fn batch_choice<'g>(
    context: BatchContext<'_, '_, 'g>,
    n: Node,
    args: &[BatchMember<'g>],
) -> Result<Option<Vec<BatchMember<'g>>>> {
    let BatchContext { src, g, size, draws, .. } = context;
    let IfAttrs { then, otherwise } = IfAttrs::of(&src.attrs(n));
    let branches = [then, otherwise];
    if args[0].batched && context.selects {
        return select_branches(context, branches, args).map(Some);
    }
    if args[0].batched {
        let text =
            "vmap: the predicate differs between members, and a branch draws random numbers; choose Randomness::Same";
        return match branches.iter().any(|&r| draws[r]) {
            true => Err(Error::new(Kind::Verify, text).at(src.location(n))),
            false => Ok(None),
        };
    }
    let batched: Vec<bool> = args[1..].iter().map(|a| a.batched).collect();
    let [a, b] = branches.map(|r| find_varying_yields(context, r, &batched));
    let outs: Vec<bool> = a.into_iter().zip(b).map(|(a, b)| a || b).collect();
    let close = |yields: &[BatchMember<'g>]| yields.iter().zip(&outs).map(|(y, &b)| y.as_batched(b, size)).collect();
    let then = write_member_body(context, then, &batched, close)?;
    let otherwise = write_member_body(context, otherwise, &batched, close)?;
    g.with(|e| e.set_loc(src.loc[n.at()]));
    let operands: Vec<Var<'g>> = args.iter().map(|a| a.var).collect();
    let results: Vec<Var<'g>> = g.emit(Op::IF, &operands, &IfAttrs { then, otherwise }.list()).into();
    Ok(Some(results.into_iter().zip(outs).map(|(var, batched)| BatchMember { var, batched }).collect()))
}

/// The results of a choice of `branches` whose predicate, the first of `args`, differs between members: those of both
/// branches for all members, and of these the ones that each member's predicate picks.
fn select_branches<'g>(
    context: BatchContext<'_, '_, 'g>,
    branches: [Region; 2],
    args: &[BatchMember<'g>],
) -> Result<Vec<BatchMember<'g>>> {
    let BatchContext { src, size, .. } = context;
    let yields = |r: Region| -> Result<Vec<Var<'g>>> {
        let known: Vec<(Value, BatchMember<'g>)> = src.region_args(r).zip(args[1..].iter().copied()).collect();
        let values = write_region_for_members(context, r, &known)?;
        Ok(src.region_yields(r).iter().map(|&y| values[y].for_all(size)).collect())
    };
    let [then, otherwise] = [yields(branches[0])?, yields(branches[1])?];
    let pick = |(a, b): (Var<'g>, Var<'g>)| {
        let ones = vec![1; a.rank() - 1];
        let var = args[0].var.reshape([&[size], &ones[..]].concat()).select(a, b);
        BatchMember { var, batched: true }
    };
    Ok(then.into_iter().zip(otherwise).map(pick).collect())
}

/// The results of the custom function `n`, all batched. Its rules are written for all members too: the cotangent of an
/// argument that all members share is the sum of theirs.
pub(super) fn batch_custom_fn<'g>(
    context: BatchContext<'_, '_, 'g>,
    n: Node,
    args: &[BatchMember<'g>],
) -> Result<Vec<BatchMember<'g>>> {
    let BatchContext { src, g, size, .. } = context;
    let attrs = CustomFnAttrs::of(&src.attrs(n));
    let batched: Vec<bool> = args.iter().map(|a| a.batched).collect();
    let float = |v: Value| src.dtype[v.at()].is_differentiable();
    let own = args.len() - attrs.captures.max(0) as usize;
    let primals = || src.args_of(n)[..own].iter().zip(&batched).filter(|(v, _)| float(**v)).map(|(_, &b)| b);
    let outs = src.outs_of(n).len();
    let of = src.outs_of(n).filter(|&v| float(v)).count();
    let all = |yields: &[BatchMember<'g>]| yields.iter().map(|y| y.for_all(size)).collect::<Vec<_>>();
    let body = write_member_body(context, attrs.body, &batched, all)?;
    let rule = |r: Option<Region>, seeds: &[bool], close: &dyn Fn(&[BatchMember<'g>]) -> Vec<Var<'g>>| {
        let inputs = [&batched[..], &vec![true; outs], seeds].concat();
        r.map(|r| write_member_body(context, r, &inputs, close)).transpose()
    };
    let by: Vec<bool> = primals().collect();
    let summed = |yields: &[BatchMember<'g>]| {
        let one = |(y, &batched): (&BatchMember<'g>, &bool)| match batched {
            true => y.for_all(size),
            false => y.for_all(size).sum(0),
        };
        yields.iter().zip(&by).map(one).collect()
    };
    let vjp = rule(attrs.vjp, &vec![true; of], &summed)?;
    let jvp = rule(attrs.jvp, &by, &all)?;
    g.with(|e| e.set_loc(src.loc[n.at()]));
    let operands: Vec<Var<'g>> = args.iter().map(|a| a.var).collect();
    let attrs = CustomFnAttrs { body, vjp, jvp, ..attrs };
    let results: Vec<Var<'g>> = g.emit(Op::CUSTOM_FN, &operands, &attrs.list()).into();
    Ok(results.into_iter().map(|var| BatchMember { var, batched: true }).collect())
}
