//! Packs: what the engine must know of a family of ops beyond its definitions.

use super::graph::Graph;
use super::opdef::OpDef;
use super::pattern::Pattern;
use crate::arena::Node;
use crate::kernels::cost_model::CostClass;
use std::any::Any;

/// What the engine must know of a family of ops beyond its definitions. A definition names its pack
/// ([`OpDef::pack`]), so every graph whose op table has the op knows the pack.
///
/// A pattern runs after ops without a kernel have been decomposed, so the op that it writes has one.
///
/// ```
/// use arenagrad::op::{
///     Args, Arity, Buf, Call, Case, Deriv, Domain, Found, Lower, Match, Op, OpDef, Pack, Pattern, Roots,
/// };
/// use arenagrad::prelude::*;
///
/// static AXPB: OpDef = OpDef::new("axpb", "y = a·x + b, in one sweep")
///     .arity(Arity::Exactly(3))
///     .infer(|cx| cx.same_as(0))
///     .deriv(Deriv::ViaDecompose)
///     .decompose(|s| vec![s.args[0] * s.args[1] + s.args[2]])
///     .lower(Lower::Kernel(|cx| {
///         cx.call(Call::new(axpb, [], 1).reads_args(3).writes(Buf::Out(0), cx.arg_dims(0).numel()));
///         Ok(())
///     }))
///     .cases(&[Case::new("f64[5] f64[5] f64[5]", "", &[Domain::Real])])
///     .pack(&PACK);
///
/// fn axpb(args: &mut Args<'_>) {
///     let (a, x, b) = (args.read::<f64>(0), args.read::<f64>(1), args.read::<f64>(2));
///     args.write::<f64>(0).iter_mut().enumerate().for_each(|(i, y)| *y = a[i] * x[i] + b[i]);
/// }
///
/// static PACK: Pack = Pack::new("axpb").ops(&[&AXPB]).patterns(&[Pattern::new(
///     "axpb",
///     Roots::Picked(|op| op == Op::ADD),
///     |f, n| match f.args(n) {
///         &[product, b] if f.is(product, Op::MUL).is_some() && f.alone(product) => {
///             let mul = f.node(product);
///             let operands = vec![f.args(mul)[0], f.args(mul)[1], b];
///             Found::Fired(Match::one(f.g.out(n), operands, vec![mul], |g, a| g.custom(&AXPB, a, &[])[0]))
///         }
///         _ => Found::No,
///     },
/// )]);
///
/// # fn main() -> Result<()> {
/// let g = Builder::new("line");
/// g.pack(&PACK);
/// let [a, x, b] = ["a", "x", "b"].map(|name| g.input(name, [2], DType::F64));
/// let graph = g.finish([(a * x + b).named("y")])?;
/// let fusions = arenagrad::tools::passes::report_pipeline(&graph)?;
/// assert_eq!(fusions[0].rule, "axpb");
/// let mut p = Session::new().compile(&graph)?;
/// p.values_mut::<f64>("a")?.fill(3.0);
/// p.values_mut::<f64>("x")?.fill(2.0);
/// p.values_mut::<f64>("b")?.fill(1.0);
/// p.step()?;
/// assert_eq!(p.values::<f64>("y")?, [7.0, 7.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Pack {
    /// The name.
    pub name: &'static str,
    /// Ops that [`Builder::pack`](crate::graph::Builder::pack) adds to the table of a graph.
    pub ops: &'static [&'static OpDef],
    /// Rules that put nodes into the pack's ops before they are lowered.
    pub patterns: &'static [Pattern],
    /// Rules that put nodes into ops that have derivatives, before derivatives are taken. Nodes that something else
    /// reads stay.
    pub before_ad: &'static [Pattern],
    /// The classes of cost that its kernels have beside the engine's own, by name.
    pub costs: &'static [(&'static str, CostClass)],
    /// What the fuzzing kit's oracle knows of the ops: an `OracleOps` of `tools::fuzz`, which only tests build.
    pub oracle: Option<&'static (dyn Any + Send + Sync)>,
    /// The operand of a node that holds a matrix in an encoding, if the node reads one.
    pub encoded: fn(&Graph<'_>, Node) -> Option<EncodedOperand>,
}

/// An operand whose bytes are a matrix in an encoding, such as blocks of quantised weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EncodedOperand {
    /// Its place among the operands.
    pub operand: usize,
    /// The name of the encoding.
    pub encoding: &'static str,
    /// Rows of the matrix.
    pub rows: usize,
    /// Columns of the matrix.
    pub columns: usize,
}

impl EncodedOperand {
    /// An operand that holds a matrix of `rows` and `columns`.
    pub const fn new(operand: usize, encoding: &'static str, rows: usize, columns: usize) -> EncodedOperand {
        EncodedOperand { operand, encoding, rows, columns }
    }
}

impl Pack {
    /// A pack without anything.
    pub const fn new(name: &'static str) -> Pack {
        Pack { name, ops: &[], patterns: &[], before_ad: &[], costs: &[], oracle: None, encoded: |_, _| None }
    }

    /// Sets the ops that a graph may use without a node of them: those that patterns write.
    pub const fn ops(self, ops: &'static [&'static OpDef]) -> Pack {
        Pack { ops, ..self }
    }

    /// Sets the rules that run before lowering.
    pub const fn patterns(self, patterns: &'static [Pattern]) -> Pack {
        Pack { patterns, ..self }
    }

    /// Sets the rules that run before derivatives are taken.
    pub const fn before_ad(self, patterns: &'static [Pattern]) -> Pack {
        Pack { before_ad: patterns, ..self }
    }

    /// Sets the classes of cost.
    pub const fn costs(self, costs: &'static [(&'static str, CostClass)]) -> Pack {
        Pack { costs, ..self }
    }

    /// Sets what the oracle knows: a static `OracleOps` of `tools::fuzz`.
    pub const fn oracle(self, oracle: &'static (dyn Any + Send + Sync)) -> Pack {
        Pack { oracle: Some(oracle), ..self }
    }

    /// Sets the function that tells which operand of a node is a matrix in an encoding.
    pub const fn encoded(self, encoded: fn(&Graph<'_>, Node) -> Option<EncodedOperand>) -> Pack {
        Pack { encoded, ..self }
    }
}

/// The packs of an op table, each once.
pub fn packs_of(ops: &[&'static OpDef]) -> Vec<&'static Pack> {
    let mut packs: Vec<&'static Pack> = Vec::new();
    for pack in ops.iter().filter_map(|def| def.pack) {
        if !packs.iter().any(|p| std::ptr::eq(*p, pack)) {
            packs.push(pack);
        }
    }
    packs
}
