//! Conformance of op definitions, built-in ones and the user's: for each definition × case × element type, the same
//! checks, made from the definition alone.
//!
//! Invariant: a check that is not made has a reason. A panic in a definition is a failed check.

mod answer;
mod batch_facet;
mod bless;
pub(super) mod conform_run;
mod derivative_facets;
mod facets;
mod refusals;
mod sample;
mod shape_rules;
pub mod tensor;
mod tensor_draws;
mod variants;

use crate::error::{Error, Kind, Result};
use crate::nodes::OpDef;
use crate::nodes::ir::opdef::definition_fault;
use answer::{Answer, FacetError};
pub use bless::{bless, is_blessing};
use facets::{FACETS, Facet};
use rayon::prelude::*;
use sample::{F64_ONLY, Sample, Tally};
pub use shape_rules::{ShapeAnswer, shape_answers};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The most failed answers that an error quotes.
const QUOTED: usize = 8;

/// The answers to one facet of an op: how many samples hold, which fail, and why others were not asked.
#[derive(Clone, Debug, Default)]
struct Answers {
    hold: usize,
    failed: Vec<String>,
    because: Option<&'static str>,
}

/// What [`conformance`] found. Its text form is a table of ops and facets.
#[derive(Clone, Debug)]
pub struct Conformance {
    ops: Vec<(&'static OpDef, Vec<Answers>)>,
    /// For each op, how many variants of its cases were accepted and refused.
    tallies: Vec<Tally>,
    /// Faults of whole definitions, and cases without a graph.
    broken: Vec<String>,
}

impl Conformance {
    /// Number of answers that hold.
    pub fn answers(&self) -> usize {
        self.ops.iter().flat_map(|op| &op.1).map(|a| a.hold).sum()
    }

    /// Every failed answer: op, case, element type, facet, reason.
    pub fn failed(&self) -> Vec<&str> {
        let answers = self.ops.iter().flat_map(|op| &op.1).flat_map(|a| &a.failed);
        self.broken.iter().chain(answers).map(String::as_str).collect()
    }

    /// The ops that refuse no variant of their cases: neither types of operands nor values of attributes.
    pub fn refuse_nothing(&self) -> Vec<&'static str> {
        let ops = self.ops.iter().zip(&self.tallies);
        ops.filter(|(_, t)| t.refused == 0).map(|(op, _)| op.0.name).collect()
    }

    /// True if some facet of some op was never answered, without a reason.
    pub fn has_gaps(&self) -> bool {
        self.ops.iter().any(|op| op.1.iter().any(|a| a.hold == 0 && a.failed.is_empty() && a.because.is_none()))
    }
}

impl fmt::Display for Conformance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<34}", "op (cases)")?;
        all_facets().try_for_each(|facet| write!(f, "{:>13}", facet.0))?;
        write!(f, "{:>13}{:>13}", "accepted", "refused")?;
        for ((def, answers), tally) in self.ops.iter().zip(&self.tallies) {
            write!(f, "\n{:<34}", format!("{} ({})", def.name, def.cases.len()))?;
            for a in answers {
                let cell = match (a.failed.is_empty(), a.hold) {
                    (false, _) => "NO".to_string(),
                    (true, 0) => format!("- {}", a.because.unwrap_or("?")),
                    (true, _) => "yes".to_string(),
                };
                write!(f, "{cell:>13}")?;
            }
            write!(f, "{:>13}{:>13}", tally.accepted, tally.refused)?;
        }
        write!(f, "\n{} ops, {} answers", self.ops.len(), self.answers())
    }
}

/// Asks every facet of each of `defs`. Leaves are left out.
pub fn conformance(defs: &[&'static OpDef]) -> Conformance {
    let defs: Vec<&'static OpDef> = defs.iter().copied().filter(|d| !d.is_leaf()).collect();
    let found: Vec<OpAnswers> = defs.par_iter().map(|def| conformance_of_op(def, op_name_seed(def.name))).collect();
    let mut all = Conformance { ops: Vec::new(), tallies: Vec::new(), broken: Vec::new() };
    for (def, mut found) in defs.into_iter().zip(found) {
        all.ops.push((def, found.answers));
        all.tallies.push(found.tally);
        all.broken.append(&mut found.broken);
    }
    all
}

/// Runs the conformance suite on op definitions of your own, in a test: text form, kernel against decomposition, f32
/// against f64, threads, in-place forms, both modes of differentiation and second order, on every case and with other
/// values of each attribute. Wrong operands and attributes are refused, or compute what the decomposition computes.
///
/// ```
/// use arenagrad::op::{Batch, Case, Deriv, Domain, OpDef};
/// use arenagrad::tools::testing::conform;
///
/// static CUBE: OpDef = OpDef::new("cube", "y = x³")
///     .infer(|cx| {
///         cx.float(0)?;
///         cx.same_as(0)
///     })
///     .deriv(Deriv::Pointwise(|s, _| Some(s.args[0] * s.args[0] * 3.0)))
///     .batch(Batch::Leading)
///     .decompose(|s| vec![s.args[0] * s.args[0] * s.args[0]])
///     .cost(|cx| 2 * cx.out())
///     .cases(&[Case::new("f[2,3]", "", &[Domain::Real])]);
///
/// let report = conform(&[&CUBE]).unwrap();
/// assert!(report.answers() > 10);
/// static WRONG: OpDef = CUBE.named("wrong").deriv(Deriv::Pointwise(|s, _| Some(s.args[0] * 3.0)));
/// assert!(conform(&[&WRONG]).unwrap_err().message.contains("wrong#0 f64 vjp: d/dx0[0] is"));
/// ```
///
/// # Errors
/// An answer that is wrong: the error names op, case, element type and facet. A definition that breaks a rule of
/// [`check_opdefs`](crate::tools::ir::opdef::check_opdefs), or has no cases.
pub fn conform(defs: &[&'static OpDef]) -> Result<Conformance> {
    let report = conformance(defs);
    let failed = report.failed();
    if failed.is_empty() {
        return Ok(report);
    }
    let more = match failed.len().saturating_sub(QUOTED) {
        0 => String::new(),
        n => format!("\n… and {n} more"),
    };
    let quoted = failed[..failed.len().min(QUOTED)].join("\n");
    Err(Error::new(Kind::Verify, format!("conformance: {} answers are wrong:\n{quoted}{more}", failed.len())))
}

/// The seed of an op's draws, from its name alone (FNV-1a): other ops do not change it.
fn op_name_seed(name: &str) -> u64 {
    name.bytes().fold(0xCBF2_9CE4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3))
}

/// What was found of one definition.
struct OpAnswers {
    answers: Vec<Answers>,
    tally: Tally,
    /// Faults of the whole definition, and cases without a graph.
    broken: Vec<String>,
}

/// The facets of each op.
fn all_facets() -> impl Iterator<Item = (&'static str, Facet)> {
    FACETS.into_iter().chain([(refusals::VARIANTS, refusals::judge_sample as Facet)])
}

/// The answers of one definition, and its faults.
fn conformance_of_op(def: &'static OpDef, seed: u64) -> OpAnswers {
    let mut tally = Tally::default();
    let mut answers: Vec<Answers> = all_facets().map(|_| Answers::default()).collect();
    let mut broken: Vec<String> = definition_fault(def).map(|why| format!("{}: {why}", def.name)).into_iter().collect();
    if def.cases.is_empty() {
        broken.push(format!("{}: an op needs conformance cases", def.name));
    }
    let samples = catch_unwind(AssertUnwindSafe(|| Sample::all(def, seed)));
    let samples = samples.unwrap_or_else(|panic| {
        broken.push(format!("{}: panicked: {}", def.name, conformance_panic_text(&*panic)));
        Vec::new()
    });
    for (name, sample) in samples {
        match sample {
            Ok(sample) => {
                conformance_of_sample(&sample, &mut answers);
                tally.accepted += sample.tally.get().accepted;
                tally.refused += sample.tally.get().refused;
            }
            Err(e) => broken.push(format!("{name}: {e}")),
        }
    }
    OpAnswers { answers, tally, broken }
}

fn conformance_of_sample(s: &Sample, answers: &mut [Answers]) {
    for ((name, facet), a) in all_facets().zip(answers) {
        let answer: Answer = catch_unwind(AssertUnwindSafe(|| facet(s)))
            .unwrap_or_else(|panic| Err(FacetError::Fails(format!("panicked: {}", conformance_panic_text(&*panic)))));
        match answer {
            Ok(()) => a.hold += 1,
            Err(FacetError::NotAsked(why)) if a.because.is_none_or(|old| old == F64_ONLY) => a.because = Some(why),
            Err(FacetError::NotAsked(_)) => {}
            Err(FacetError::Fails(why)) => a.failed.push(format!("{} {name}: {why}", s.name)),
        }
    }
}

/// What a panic said.
fn conformance_panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
