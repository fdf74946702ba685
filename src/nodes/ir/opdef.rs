//! Op definitions. One constant ([`OpDef`]) defines an op; all other code knows an op by its definition alone.

pub use super::arity::Arity;
use super::attrs::{Attrs, Field, Kind as FieldKind};
pub use super::batch::{Batch, BatchRule, BatchSite};
use super::builder::Var;
pub use super::case::{Case, case_has_generic_types};
pub use super::check_opdefs::check_opdefs;
pub use super::flags::Flags;
use super::graph::Graph;
use super::infer::Infer;
pub use super::op::Op;
use super::site::Site;
use crate::arena::{Node, Region};
use crate::kernels::tile::TileOp;
use crate::nodes::ir::lower_cx::LowerFn;

/// ∂out₀/∂argᵢ of a pointwise op, of the result's shape; `None` if it is zero.
pub type Partial = for<'g> fn(&Site<'_, 'g>, usize) -> Option<Var<'g>>;
/// The cotangent of operand `i` of a (multi)linear op, given that of its first result.
pub type Transpose = for<'g> fn(&Site<'_, 'g>, usize, Var<'g>) -> Option<Var<'g>>;
/// Cotangents of all operands, given those of the results. The last argument says which operands need one. `None` is
/// zero.
pub type Vjp = for<'g> fn(&Site<'_, 'g>, &[Option<Var<'g>>], &[bool]) -> Vec<Option<Var<'g>>>;
/// Tangents of all results, given those of the operands. `None` is zero.
pub type Jvp = for<'g> fn(&Site<'_, 'g>, &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>>;
/// The decomposition: the results in simpler ops.
pub type Expand = for<'g> fn(&Site<'_, 'g>) -> Vec<Var<'g>>;

/// How an op is differentiated: the field `deriv` of an op definition.
#[derive(Clone, Copy)]
pub enum Deriv {
    /// The derivative is zero. The conformance suite checks it by finite differences. For an op with float operands,
    /// [`Flags::STEP`] or [`Flags::STOP`] gives the reason.
    Zero,
    /// Elementwise: the JVP is Σ pᵢẋᵢ, the VJP is pᵢ·ȳ.
    Pointwise(Partial),
    /// Linear in all differentiable operands together: the JVP is the op itself.
    Linear(Transpose),
    /// Linear in each differentiable operand alone: the JVP is a sum over operands.
    Multilinear(Transpose),
    /// Differentiate the decomposition.
    ViaDecompose,
    /// A hand-written pair.
    Rules(Jvp, Vjp),
    /// A loop: the derivative is a loop over the derivative of its region.
    Loop,
    /// A choice of two regions: the derivative is a choice of the derivatives of the regions.
    Choice,
    /// A custom function: its regions `vjp` and `jvp` are the rules. A missing one is the transpose of the other;
    /// without both, the function is inlined before it is differentiated.
    OwnRules,
    /// Not differentiable, with the reason.
    Error(&'static str),
}

/// How an op becomes instructions.
#[derive(Clone, Copy)]
pub enum Lower {
    /// No instruction: a leaf, whose bytes exist before the first instruction.
    Leaf,
    /// One step of the tile interpreter; the function gives its immediates.
    Tile(TileOp, fn(&Attrs<'_>) -> [f64; 2]),
    /// Kernel calls, or a view of an operand.
    Kernel(LowerFn),
    /// No kernel: the decomposition is lowered instead.
    Expand,
    /// Runs a region once: inlined before lowering.
    Control,
    /// Runs a region in a loop: one instruction, whose body is planned once.
    Loop,
    /// Runs one of two regions: one instruction, whose bodies are planned apart.
    Choice,
}

/// Number of floating-point operations of a node. The bytes that it moves follow from the types.
pub type Cost = fn(&crate::nodes::ir::cost_cx::CostCx<'_>) -> u64;

/// The range of numbers that an operand of a conformance case is drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Domain {
    /// Uniform in (−1.5, 1.5), at least 0.1 away from 0, where functions may have kinks.
    Real,
    /// In [0.5, 2].
    Positive,
    /// In [2.5, 4].
    Beyond,
    /// In [0.05, 0.95].
    Chance,
    /// In the open interval (−0.9, 0.9).
    Unit,
    /// Distinct reals at least 0.04 apart, so that sorts and maxima have no ties.
    Distinct,
    /// Of the last two axes: 2.5 to 4 on the diagonal, (−0.3, 0.3) elsewhere. Such matrices are well-conditioned, and
    /// their symmetric parts are positive definite.
    Dominant,
    /// Integers 0 … n−1.
    Index(usize),
    /// Integers 1 … n.
    Count(usize),
    /// 0 or 1.
    Bit,
    /// Any 32 bits.
    Bits,
    /// Any 8-bit integer: −128 … 127 for `i8`, 0 … 255 for other types.
    Code,
}

/// An op definition: all that the engine knows of an op. Every field is needed: an op without a derivative says so by
/// [`Deriv::Error`].
///
/// Make the definition of an op of your own a `static`, because the engine identifies a definition by its address.
/// [`Builder::custom`](crate::graph::Builder::custom) adds nodes of it, [`text::parse_with`](super::text::parse_with)
/// reads it, and `tools::testing::conform` tests it. There is no registry.
///
/// ```
/// use arenagrad::prelude::*;
/// use arenagrad::tools::ir::attrs::{Attr, Field, Kind};
/// use arenagrad::tools::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
///
/// static BUMP: OpDef = OpDef {
///     name: "bump",
///     doc: "y = exp(−sharpness·x²)",
///     arity: Arity::Exactly(1),
///     attrs: &[Field::new("sharpness", Kind::F64)],
///     flags: Flags::PURE,
///     infer: |cx| {
///         cx.float(0)?;
///         cx.same_as(0)
///     },
///     deriv: Deriv::Pointwise(|s, _| Some(s.outs[0] * s.args[0] * (-2.0 * s.attrs.f64(0)))),
///     batch: Batch::Leading,
///     decompose: Some(|s| vec![(s.args[0] * s.args[0] * -s.attrs.f64(0)).exp()]),
///     lower: Lower::Expand,
///     cost: |cx| 3 * cx.out(),
///     cases: &[Case { args: "f[3,4]", attrs: "sharpness=0.5", domains: &[Domain::Real] }],
/// };
///
/// # fn main() -> Result<()> {
/// let g = Builder::new("bumps");
/// let x = g.input("x", [2], DType::F64);
/// let y = g.custom(&BUMP, &[x], &[Attr::F64(0.5)])[0];
/// let graph = g.finish([y.sum(..).named("loss")])?;
/// let mut p = Session::new().compile(&grad(&graph, "loss", &GradOptions::wrt(&["x"]))?)?;
/// p.values_mut::<f64>("x")?.copy_from_slice(&[0.0, 1.0]);
/// p.step()?;
/// assert_eq!(p.values::<f64>("grad.x")?, [0.0, -(-0.5f64).exp()]);
/// # Ok(())
/// # }
/// ```
///
/// A definition may also be made at run time, for instance one for each function of a list. It must be leaked, so it
/// lives until the process ends: make it once, not once for each graph.
///
/// ```
/// # use arenagrad::tools::{ir::opdef::OpDef, ops::pointwise::math::TANH};
/// fn named(name: String) -> &'static OpDef {
///     Box::leak(Box::new(OpDef { name: name.leak(), ..TANH }))
/// }
/// assert_eq!(named("tanh.2".to_string()).name, "tanh.2");
/// ```
///
/// Without `deriv` a definition does not build:
///
/// ```compile_fail
/// # use arenagrad::tools::ir::opdef::{Arity, Batch, Flags, Lower, OpDef};
/// static BUMP: OpDef = OpDef {
///     name: "bump",
///     doc: "y = x",
///     arity: Arity::Exactly(1),
///     attrs: &[],
///     flags: Flags::PURE,
///     infer: |cx| cx.same_as(0),
///     batch: Batch::Leading,
///     decompose: Some(|s| s.args.to_vec()),
///     lower: Lower::Expand,
///     cost: |_| 0,
///     cases: &[],
/// };
/// ```
#[derive(Clone, Copy)]
pub struct OpDef {
    /// Name in the text form, unique.
    pub name: &'static str,
    /// One line: the formula.
    pub doc: &'static str,
    /// Number of operands.
    pub arity: Arity,
    /// Attribute schema.
    pub attrs: &'static [Field],
    /// Facts.
    pub flags: Flags,
    /// Shape inference: the types of the results, or an error message.
    pub infer: fn(&mut Infer<'_>) -> Result<(), String>,
    /// The derivative.
    pub deriv: Deriv,
    /// How it runs on a batch.
    pub batch: Batch,
    /// The op in simpler ops.
    pub decompose: Option<Expand>,
    /// How the op becomes instructions.
    pub lower: Lower,
    /// Floating-point operations.
    pub cost: Cost,
    /// Conformance cases.
    pub cases: &'static [Case],
}

impl OpDef {
    /// True if the op may be merged, moved and dropped.
    pub const fn is_pure(&self) -> bool {
        self.flags.has(Flags::PURE)
    }

    /// True for a leaf.
    pub const fn is_leaf(&self) -> bool {
        self.flags.has(Flags::LEAF)
    }

    /// True if a node runs its region once. An op without a decomposition is then replaced by the region's body; its
    /// attributes begin with those of a call.
    pub const fn is_inlined(&self) -> bool {
        matches!(self.lower, Lower::Control) || self.flags.has(Flags::FUSED)
    }

    /// True if an attribute may name a region.
    pub fn names_region(&self) -> bool {
        self.attrs.iter().any(|f| f.kind == FieldKind::Region)
    }

    /// True if the op is one step of the tile interpreter, element by element.
    pub const fn is_pointwise(&self) -> bool {
        matches!(self.lower, Lower::Tile(..))
    }
}

impl std::fmt::Debug for OpDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The regions of node `n` that are planned as bodies of one instruction: those of a loop or of a choice.
pub fn opdef_regions(g: Graph<'_>, n: Node) -> impl Iterator<Item = Region> + '_ {
    let def = g.def_of(n);
    let planned = matches!(def.lower, Lower::Loop | Lower::Choice);
    let region = move |(i, f): (usize, &Field)| (planned && f.kind == FieldKind::Region).then(|| g.attrs(n).region(i));
    def.attrs.iter().enumerate().filter_map(region)
}

/// What is wrong with a definition by itself, if anything.
pub const fn opdef_fault(def: &OpDef) -> Option<&'static str> {
    let stops = def.flags.has(Flags::STEP) || def.flags.has(Flags::STOP);
    if def.name.is_empty() || def.doc.is_empty() {
        Some("an op needs a name and a doc line")
    } else if !def.is_pure() && def.flags.has(Flags::MOVE) {
        Some("an op that only moves elements is pure")
    } else if stops && !matches!(def.deriv, Deriv::Zero) {
        Some("an op that is a step function, or that stops gradients, has the derivative zero")
    } else if def.flags.has(Flags::EXPENSIVE) && !def.is_pointwise() {
        Some("only a point-wise op is marked expensive")
    } else if def.decompose.is_none() && matches!(def.lower, Lower::Expand) {
        Some("an op needs a kernel or a decomposition")
    } else if def.decompose.is_none() && matches!(def.deriv, Deriv::ViaDecompose) {
        Some("an op that is differentiated through its decomposition needs one")
    } else if matches!(def.batch, Batch::ViaDecompose | Batch::RuleIf(..))
        && def.decompose.is_none()
        && !def.is_inlined()
    {
        Some("an op that is batched through its decomposition needs one")
    } else {
        None
    }
}
