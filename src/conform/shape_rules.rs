//! Asks an op's shape inference about each conformance case and each variant of it. An answer is the result types, or
//! an error.

use super::op_name_seed;
use super::sample::{Sample, SampleSource, build_node_graph};
use super::tensor_draws::TensorDraws;
use super::variants;
use crate::arena::ids::Id;
use crate::error::Result;
use crate::nodes::{DType, GraphBuf, OpDef};

/// A question to a shape rule, and its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapeAnswer {
    /// Operand types and attributes, in the text form of a case.
    pub given: String,
    /// The types of the results, or why there are none.
    pub answer: std::result::Result<String, String>,
}

/// The answers to the cases of `def` in `f64` and to their variants: other numbers, types, shapes and orders of the
/// operands, other and wrong values of each attribute. They are the same in each run.
///
/// # Errors
/// A case whose graph cannot be built.
pub fn shape_answers(def: &'static OpDef) -> Result<Vec<ShapeAnswer>> {
    let mut all = Vec::new();
    for (_, sample) in Sample::all(def, op_name_seed(def.name)) {
        let s = sample?;
        // Shape inference asks for the kind of a float, and seldom for its size.
        if s.float == DType::F32 {
            continue;
        }
        all.push(shape_answer(&s, &s.given));
        let mut draw = TensorDraws(op_name_seed(&s.name));
        all.extend(variants::vary_case(&s, &mut draw).iter().map(|v| shape_answer(&s, &v.given)));
    }
    Ok(all)
}

fn shape_answer(s: &Sample, given: &SampleSource) -> ShapeAnswer {
    let built = build_node_graph(s.def, given, s.float, false);
    let answer = built.map(|g| shape_result_types(&g)).map_err(|e| e.message);
    ShapeAnswer { given: format!("({}) {}", given.args, given.attrs), answer }
}

fn shape_result_types(g: &GraphBuf) -> String {
    let v = g.view();
    let types = v.outputs().iter().map(|&o| format!("{}{:?}", v.dtype[o.at()], &v.dims(o)[..]));
    types.collect::<Vec<_>>().join(" ")
}
