//! Unrolling: a loop becomes its iterations, one after another.

use crate::arena::ids::Id;
use crate::error::Kind;
use crate::nodes::Var;
use crate::nodes::ops::control::scan::{Exit, Scan};
use crate::passes::inline::{InlineCalls, write_region_in_place};
use crate::passes::rebuild::RebuildVisit;

/// The most nodes that unrolling one loop may write.
const MAX_UNROLLED: usize = 1 << 20;

/// The values `new` of an iteration if it runs, else `old`. `runs` is `bool[]`.
fn select_if_runs<'g>(runs: Option<Var<'g>>, new: Var<'g>, old: impl FnOnce() -> Var<'g>) -> Var<'g> {
    match runs {
        Some(runs) => runs.broadcast(&new.dims()[..]).select(new, old()),
        None => new,
    }
}

/// Writes the iterations of the loop `v` one after another, with those `calls` in it written out. The results of the
/// loop. What may end early is written under `select`, for values only.
pub(super) fn write_iterations<'g>(v: &RebuildVisit<'_, 'g>, calls: InlineCalls) -> Vec<Var<'g>> {
    let s = Scan::of(&v.src.attrs(v.node));
    let nodes = s.length.saturating_mul(v.src.region_nodes(s.body).len());
    if nodes > MAX_UNROLLED {
        let none = v.g.fail(Kind::Verify, format!("scan: unrolled, it is {nodes} nodes; {MAX_UNROLLED} is the limit"));
        return vec![none; v.src.outs_of(v.node).len()];
    }
    let mut carries = v.args[..s.carries].to_vec();
    let mut slices: Vec<Vec<Var<'g>>> = vec![Vec::new(); v.src.outs_of(v.node).len() - s.carries];
    for n in 0..s.length {
        if v.g.error().is_some() {
            break;
        }
        let i = if s.reverse { s.length - 1 - n } else { n };
        let slice = |x: &Var<'g>| {
            let dims = x.dims();
            let (mut from, mut to) = (vec![0; dims.len()], dims.to_vec());
            (from[0], to[0]) = (i, i + 1);
            x.slice(&from, &to, &vec![1; dims.len()]).reshape(&dims[1..])
        };
        let runs = s.exit.map(|exit| match exit {
            Exit::Flag => carries[0],
            Exit::Count => v.args[s.carries].greater(i as f64),
        });
        let mut args = carries.clone();
        args.extend_from_slice(&v.args[s.carries..s.xs()]);
        args.extend(v.args[s.xs()..].iter().map(slice));
        let yields = write_region_in_place(v, s.body, &args, calls);
        let next = yields[..s.carries].iter().zip(&carries);
        carries = next.map(|(&new, &old)| select_if_runs(runs, new, || old)).collect();
        for (stack, &y) in slices.iter_mut().zip(&yields[s.carries..]) {
            let y = select_if_runs(runs, y, || y.full_like(0.0));
            stack.push(y.reshape([&[1], &y.dims()[..]].concat()));
        }
    }
    let stacked = slices.into_iter().zip(v.src.outs_of(v.node).skip(s.carries)).map(|(mut stack, out)| {
        if s.reverse {
            stack.reverse();
        }
        match stack.split_first() {
            Some((first, rest)) => first.concat(rest, 0),
            None => v.g.full(0.0, v.src.dims(out), v.src.dtype[out.at()]),
        }
    });
    carries.into_iter().chain(stacked).collect()
}
