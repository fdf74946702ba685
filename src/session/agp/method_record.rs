//! What was chosen for a method, as a record: its placements, its tapes, the precision of its products, and what
//! reports tell.

use super::fields::{Done, Fields, Record};
use crate::kernels::abi::DEPTH;
use crate::kernels::conv::Convolutions;
use crate::kernels::gemm::Precision;
use crate::passes::keep_half::Keep;
use crate::sched::placement::Placement;
use crate::sched::tape::{Entry, Tapes};
use crate::session::MAX_THREADS;
use crate::session::compiled_graph::Decisions;

/// See the file's head.
#[derive(Clone, Default)]
pub struct MethodRecord {
    /// The name of the method.
    pub name: String,
    pub decisions: Decisions,
}

impl Record for MethodRecord {
    fn fields(&mut self, f: &mut dyn Fields) -> Done {
        f.text(&mut self.name)?;
        let d = &mut self.decisions;
        f.count(&mut d.threads)?;
        if !(1..=MAX_THREADS).contains(&d.threads) {
            return Err(format!("{} threads; there are 1 to {MAX_THREADS}", d.threads));
        }
        let mut placements = d.placements.len();
        f.count(&mut placements)?;
        for i in 0..placements {
            if i == d.placements.len() {
                d.placements.push(Placement::default());
            }
            placement_fields(f, &mut d.placements[i])?;
        }
        tape_fields(f, &mut d.tapes, 0)?;
        precision_fields(f, &mut d.arithmetic.products)?;
        let mut convolutions = d.arithmetic.convolutions as u64;
        f.long(&mut convolutions)?;
        let known = Convolutions::ALL.iter().find(|c| c.0 as u64 == convolutions);
        d.arithmetic.convolutions =
            known.ok_or_else(|| format!("{convolutions} is no way of computing convolutions"))?.0;
        f.text(&mut d.recomputed.what)?;
        f.count(&mut d.recomputed.nodes)?;
        f.long(&mut d.recomputed.flops)?;
        let mut keep = d.kept.keep as u64;
        f.long(&mut keep)?;
        let known = Keep::ALL.iter().find(|k| k.0 as u64 == keep);
        d.kept.keep = known.ok_or_else(|| format!("{keep} is no type in which values are kept"))?.0;
        f.count(&mut d.kept.values)?;
        f.long(&mut d.kept.bytes)
    }
}

fn placement_fields(f: &mut dyn Fields, p: &mut Placement) -> Done {
    let mut head = vec![p.code, p.candidate, p.end];
    f.words(&mut head)?;
    [p.code, p.candidate, p.end] = *head.first_chunk().filter(|_| head.len() == 3).ok_or("a plan has another head")?;
    f.words(&mut p.groups)?;
    f.words(&mut p.lines)?;
    f.long(&mut p.order_bound)
}

fn precision_fields(f: &mut dyn Fields, all: &mut Vec<Precision>) -> Done {
    let mut numbers = all.iter().map(|&p| p as u8).collect();
    f.bytes(&mut numbers)?;
    let known = |&n: &u8| Precision::ALL.get(n as usize).map(|p| p.0);
    *all = numbers.iter().map(known).collect::<Option<_>>().ok_or("a product has an unknown precision")?;
    Ok(())
}

/// The tapes of a graph, or of a body `depth` loops deep.
fn tape_fields(f: &mut dyn Fields, tapes: &mut Tapes, depth: usize) -> Done {
    if depth > DEPTH {
        return Err(format!("tapes are nested more than {DEPTH} deep"));
    }
    let (at, entries, inner) = tapes.columns();
    let (mut at, mut inner) = (at.to_vec(), inner.to_vec());
    let mut instr = entries.iter().map(|e| e.instr).collect();
    let mut barrier = entries.iter().map(|e| u8::from(e.barrier)).collect();
    let mut from = entries.iter().map(|e| e.from as u64).collect();
    let mut to = entries.iter().map(|e| e.to as u64).collect();
    f.words(&mut at)?;
    f.words(&mut instr)?;
    f.bytes(&mut barrier)?;
    f.longs(&mut from)?;
    f.longs(&mut to)?;
    if [barrier.len(), from.len(), to.len()] != [instr.len(); 3] || barrier.iter().any(|&b| b > 1) {
        return Err("the columns of a tape differ in length".into());
    }
    let units = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let entry = |i: usize| Entry { instr: instr[i], barrier: barrier[i] != 0, from: units(from[i]), to: units(to[i]) };
    let entries = (0..instr.len()).map(entry).collect();
    let mut bodies = inner.len();
    f.count(&mut bodies)?;
    for i in 0..bodies {
        if i == inner.len() {
            inner.push(Tapes::default());
        }
        tape_fields(f, &mut inner[i], depth + 1)?;
    }
    *tapes = Tapes::from_columns(at, entries, inner)?;
    Ok(())
}
