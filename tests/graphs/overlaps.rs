//! What the kernels of a plan touch, byte by byte, those of loops at every iteration. This knows nothing of labels or
//! proofs, and shares no line with the checker.

use arenagrad::tools::sched::instructions::Operand;
use arenagrad::tools::sched::plan::Plan;
use arenagrad::tools::sched::planned_body::{Outer, PlannedBody};
use std::ops::Range;

/// From the addresses of one level to bytes of the arena.
type Place<'a> = dyn Fn(&Range<usize>) -> Option<Range<usize>> + 'a;

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}

/// Whether every kernel call of a step stays in the arena, reads bytes that were written, and writes none that it reads
/// or writes as another operand, unless its instruction declares that it works in place; and whether outputs and leaves
/// hold something in the end.
pub fn sound(p: &Plan) -> bool {
    let mut known = vec![false; p.bytes];
    for b in (0..p.code.bytes.len()).filter(|&b| p.code.kind[b].is_pinned()) {
        let Some(bytes) = known.get_mut(p.offset[b]..p.offset[b] + p.code.bytes[b]) else { return false };
        bytes.fill(true);
    }
    let inside = |r: &Range<usize>| (r.end <= p.bytes).then(|| r.clone());
    let ran = run(p, &inside, &mut known).is_some();
    ran && p.code.outputs.iter().all(|o| addresses(p, o).all(|at| known[at]))
}

fn addresses(p: &Plan, o: &Operand) -> Range<usize> {
    let start = p.offset[o.buf as usize] + o.off;
    start..start + o.bytes()
}

fn run(p: &Plan, place: &Place<'_>, known: &mut [bool]) -> Option<()> {
    for i in 0..p.code.len() {
        let at = |o: &Operand| place(&addresses(p, o));
        let reads: Vec<_> = p.code.reads_of(i).iter().map(at).collect::<Option<_>>()?;
        let writes: Vec<_> = p.code.writes_of(i).iter().map(at).collect::<Option<_>>()?;
        let inplace = &p.inplace[p.code.read_range(i)];
        for l in p.code.bodies_of(i) {
            let over = |w: usize| inplace.iter().any(|&with| usize::from(with) == w);
            (0..writes.len()).filter(|&w| !over(w)).for_each(|w| known[writes[w].clone()].fill(false));
            (0..l.length).try_for_each(|n| iteration(l, n, (&reads, &writes), known))?;
            continue;
        }
        let met = |w: usize, r: &Range<usize>| overlap(&writes[w], r);
        let twice = (0..writes.len()).any(|w| (0..w).any(|v| met(w, &writes[v])));
        let read = |k: usize| (0..writes.len()).any(|w| usize::from(inplace[k]) != w && met(w, &reads[k]));
        if twice || (0..reads.len()).any(read) || reads.iter().any(|r| known[r.clone()].contains(&false)) {
            return None;
        }
        writes.into_iter().for_each(|w| known[w].fill(true));
    }
    Some(())
}

fn iteration(
    l: &PlannedBody,
    n: usize,
    (reads, writes): (&[Range<usize>], &[Range<usize>]),
    known: &mut [bool],
) -> Option<()> {
    let arena = known.len();
    let at = if l.reverse { l.length - 1 - n } else { n };
    let (size, home) = (l.plan.bytes.checked_sub(l.base)?, writes.last().cloned().unwrap_or(0..0));
    if size > 0 {
        known.get_mut(home.start..home.start + size)?.fill(false);
    }
    let place = |r: &Range<usize>| {
        let e = l.externs.iter().find(|e| {
            let own = l.extern_range(e);
            own.start <= r.start && r.end <= own.end && !own.is_empty()
        });
        let to = match e {
            _ if r.is_empty() => 0..0,
            Some(e) => {
                let operand = match e.outer {
                    Outer::Read(k) => reads.get(k)?,
                    Outer::Write(k) => writes.get(k)?,
                };
                let own = l.extern_range(e);
                let start = operand.start + if e.sliced { at * own.len() } else { 0 } + (r.start - own.start);
                if start + r.len() > operand.end {
                    return None;
                }
                start..start + r.len()
            }
            None if r.start < l.base || r.end - l.base > home.len() => return None,
            None => home.start + (r.start - l.base)..home.start + (r.end - l.base),
        };
        (to.end <= arena).then_some(to)
    };
    run(&l.plan, &place, known)
}
