//! Samples: a conformance case of an op in one element type, as a graph with operands.

use super::conform_run::{PLAIN, try_run_once};
use super::tensor::Tensor;
use super::tensor_draws::TensorDraws;
use crate::arena::{Value, ids::Id};
use crate::error::Result;
use crate::nodes::case_regions::add_case_region;
use crate::nodes::ir::attrs::Attr;
use crate::nodes::ir::opdef::{Case, Deriv, Domain, Flags, Lower};
use crate::nodes::ir::text;
use crate::nodes::{Builder, DType, GraphBuf, OpDef, Var};
use crate::passes::ad::codes::Codes;
use std::cell::{Cell, OnceCell};

/// Operands and attributes of a node, in the text form of a [`Case`]: those of a case, or a variant of them.
#[derive(Clone, Debug)]
pub(super) struct SampleSource {
    pub(super) args: String,
    pub(super) attrs: String,
    /// The case. A region that the attributes name is made for its operands.
    pub(super) case: &'static Case,
}

impl SampleSource {
    pub(super) fn of(case: &'static Case) -> SampleSource {
        SampleSource { args: case.args.to_string(), attrs: case.attrs.to_string(), case }
    }
}

/// One case of an op in one element type, or a variant of one: its graph and its operands.
pub(super) struct Sample {
    /// Op, case and element type: `softmax#0 f64`.
    pub(super) name: String,
    pub(super) def: &'static OpDef,
    pub(super) given: SampleSource,
    pub(super) float: DType,
    pub(super) graph: GraphBuf,
    pub(super) operands: Vec<Tensor>,
    /// What the graph computes, once a facet has asked.
    computed: OnceCell<Vec<Tensor>>,
    /// Variants that were accepted, and that were refused.
    pub(super) tally: Cell<Tally>,
}

/// How many variants of cases shape inference accepted and refused. Other numbers of operands do not count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) accepted: usize,
    pub(super) refused: usize,
}

/// The reason for a sample in f32: the same sample in f64 is asked.
pub(super) const F64_ONLY: &str = "f64 only";

impl Sample {
    /// The samples of each case of `def`, or why its graph cannot be built. `seed` decides the operands.
    pub(super) fn all(def: &'static OpDef, seed: u64) -> Vec<(String, Result<Sample>)> {
        let mut all = Vec::new();
        for (k, case) in def.cases.iter().enumerate() {
            for &float in case.floats(&[DType::F64]) {
                let name = format!("{}#{k} {float}", def.name);
                let draw = &mut TensorDraws(seed.wrapping_add(k as u64));
                let sample = Sample::build(name.clone(), def, SampleSource::of(case), float, draw);
                all.push((name, sample));
            }
        }
        all
    }

    /// A sample of `given`, with operands from `draw`.
    pub(super) fn build(
        name: String,
        def: &'static OpDef,
        given: SampleSource,
        float: DType,
        draw: &mut TensorDraws,
    ) -> Result<Sample> {
        let graph = build_node_graph(def, &given, float, false)?;
        let operands = draw_operands(&graph, given.case, draw);
        Ok(Sample { name, def, given, float, graph, operands, computed: OnceCell::new(), tally: Cell::default() })
    }

    /// What the graph computes of the operands on one thread, through all passes. It is computed once for all facets.
    pub(super) fn results(&self) -> Result<&[Tensor]> {
        if let Some(results) = self.computed.get() {
            return Ok(results);
        }
        let results = try_run_once(&self.graph, &self.operands, PLAIN)?;
        Ok(self.computed.get_or_init(|| results))
    }

    /// This sample with its first result alone, if the others are statistics. An op whose statistics are read is
    /// decomposed before it is differentiated; so only this one asks for its own derivative rules.
    pub(super) fn without_statistics(&self) -> Option<Result<Sample>> {
        self.def.flags.has(Flags::STATS).then(|| {
            let graph = build_with_results(self.def, &self.given, self.float, false, 1)?;
            let (name, given) = (format!("{}, first result", self.name), self.given.clone());
            let operands = self.operands.clone();
            Ok(Sample { name, given, graph, operands, computed: OnceCell::new(), tally: Cell::default(), ..*self })
        })
    }

    /// Names of the float operands and results, or the reason why no derivative is asked for.
    pub(super) fn differentiable(&self) -> Result<(Vec<String>, Vec<String>), &'static str> {
        let (v, codes) = (self.graph.view(), Codes::of(self.graph.view()));
        // The float type of the sample, the complex type of it, or a code.
        let is_asked = |x: Value| v.dtype[x.at()].part() == self.float || codes.is_code(x);
        let wrt: Vec<String> = v.leaves().filter(|l| is_asked(l.value)).map(|l| l.name.to_string()).collect();
        let names = v.outputs().iter().zip(v.output_names);
        let outs: Vec<String> = names.filter(|(o, _)| is_asked(**o)).map(|(_, &n)| v.str(n).to_string()).collect();
        match self.def.deriv {
            Deriv::Zero => Err("zero"),
            Deriv::Error(_) if !self.is_written_out() => Err("refused"),
            _ if wrt.is_empty() => Err("integers"),
            _ if outs.is_empty() => Err("integers"),
            _ if self.float == DType::F32 => Err(F64_ONLY),
            _ => Ok((wrt, outs)),
        }
    }

    /// Whether the op's body is written out before derivatives see it.
    fn is_written_out(&self) -> bool {
        matches!(self.def.lower, Lower::Control) || self.def.flags.has(Flags::FUSED)
    }

    /// Whether the values of the sample's derivatives are rounded to `f32`, as those of codes are.
    pub(super) fn has_codes(&self) -> bool {
        self.def.flags.has(Flags::QUANT)
    }
}

/// The graph of one node: inputs x0, x1 …, outputs y0, y1 …. With `behind`, each operand is first computed from an
/// input (negated twice), so that it dies at the op and may be overwritten.
pub(super) fn build_node_graph(
    def: &'static OpDef,
    given: &SampleSource,
    float: DType,
    behind: bool,
) -> Result<GraphBuf> {
    build_with_results(def, given, float, behind, usize::MAX)
}

/// The same with the first `results` results as outputs.
fn build_with_results(
    def: &'static OpDef,
    given: &SampleSource,
    float: DType,
    behind: bool,
    results: usize,
) -> Result<GraphBuf> {
    let g = Builder::new("case");
    let parse = |args: &str| g.with(|e| text::parse_types(args, float, e)).map_err(|e| e.context(def.name));
    let (types, of_case) = (parse(&given.args)?, parse(given.case.args)?);
    let x: Vec<Var<'_>> = types
        .iter()
        .enumerate()
        .map(|(i, ty)| {
            let dims = g.with(|e| e.shapes.dims(ty.shape));
            let x = g.input(&format!("x{i}"), dims, ty.dtype);
            match behind && ty.dtype.part().is_float() {
                true => -(-x),
                false => x,
            }
        })
        .collect();
    g.with(|e| add_case_region(e, given.case, &of_case));
    let owned = g.with(|e| text::parse_attrs(def.attrs, &given.attrs, e)).map_err(|e| e.context(def.name))?;
    let attrs: Vec<Attr<'_>> = owned.iter().map(|a| a.as_attr()).collect();
    for (i, y) in g.custom(def, &x, &attrs).into_iter().enumerate().take(results) {
        g.output(&format!("y{i}"), y);
    }
    g.finish([])
}

pub(super) fn draw_operands(g: &GraphBuf, case: &Case, draw: &mut TensorDraws) -> Vec<Tensor> {
    let v = g.view();
    let domain = |i: usize| case.domains.get(i).or(case.domains.last()).copied().unwrap_or(Domain::Real);
    v.leaves().enumerate().map(|(i, l)| draw.tensor(v.dtype[l.value.at()], &v.dims(l.value), domain(i))).collect()
}
