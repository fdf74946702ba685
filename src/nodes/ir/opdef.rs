//! Op definitions. One constant ([`OpDef`]) defines an op; all other code knows an op by its definition alone.

pub use super::arity::Arity;
use super::attrs::{Attrs, Field, Kind as FieldKind};
pub use super::batch::{Batch, BatchRule, BatchSite};
use super::builder::Var;
pub use super::case::{Case, has_generic_types};
pub use super::check_opdefs::check_opdefs;
pub use super::flags::Flags;
use super::graph::Graph;
use super::infer::Infer;
pub use super::op::Op;
use super::pack::Pack;
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
#[non_exhaustive]
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
#[non_exhaustive]
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
#[non_exhaustive]
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

/// An op definition: all that the engine knows of an op. [`OpDef::new`] begins one, and its methods say the rest. A
/// definition says its derivative: an op without one says why, by [`Deriv::Error`].
///
/// Make the definition of an op of your own a `static`, because the engine identifies a definition by its address.
/// [`Builder::custom`](crate::graph::Builder::custom) adds nodes of it, [`text::parse_with`](super::text::parse_with)
/// reads it, and `tools::testing::conform` tests it. There is no registry.
///
/// ```
/// use arenagrad::op::{Batch, Case, Deriv, Domain, OpDef, attrs};
/// use arenagrad::prelude::*;
///
/// attrs! {
///     /// Attributes of `bump`.
///     pub struct BumpAttrs { sharpness: f64 }
/// }
///
/// static BUMP: OpDef = OpDef::new("bump", "y = exp(−sharpness·x²)")
///     .attrs(BumpAttrs::FIELDS)
///     .infer(|cx| {
///         cx.float(0)?;
///         cx.same_as(0)
///     })
///     .deriv(Deriv::Pointwise(|s, _| Some(s.outs[0] * s.args[0] * (-2.0 * BumpAttrs::of(&s.attrs).sharpness))))
///     .batch(Batch::Leading)
///     .decompose(|s| vec![(s.args[0] * s.args[0] * -BumpAttrs::of(&s.attrs).sharpness).exp()])
///     .cost(|cx| 3 * cx.out())
///     .cases(&[Case::new("f[3,4]", "sharpness=0.5", &[Domain::Real])]);
///
/// # fn main() -> Result<()> {
/// let g = Builder::new("bumps");
/// let x = g.input("x", [2], DType::F64);
/// let y = g.custom(&BUMP, &[x], &BumpAttrs { sharpness: 0.5 }.list())[0];
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
/// # use arenagrad::{op::OpDef, tools::ops::pointwise::math::TANH};
/// fn named(name: String) -> &'static OpDef {
///     Box::leak(Box::new(TANH.named(name.leak())))
/// }
/// assert_eq!(named("tanh.2".to_string()).name, "tanh.2");
/// ```
///
/// A definition without a derivative, or without a kernel and a decomposition, is refused: where it is first used, or
/// by [`check_opdefs`] when it is compiled.
///
/// ```compile_fail
/// # use arenagrad::op::{OpDef, check_opdefs};
/// static BUMP: OpDef = OpDef::new("bump", "y = x").decompose(|s| s.args.to_vec());
/// const _: () = check_opdefs(&[&BUMP]);
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
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
    /// What the engine must know beyond the definition, for instance patterns.
    pub pack: Option<&'static Pack>,
}

impl OpDef {
    /// Says nothing yet. Definitions take from it what they do not say.
    pub(crate) const BLANK: OpDef = OpDef {
        name: "",
        doc: "",
        arity: Arity::Exactly(1),
        attrs: &[],
        flags: Flags::PURE,
        infer: |_| Err("the definition has no shape inference".to_string()),
        deriv: Deriv::Error(""),
        batch: Batch::Members,
        decompose: None,
        lower: Lower::Expand,
        cost: |cx| cx.out(),
        cases: &[],
        pack: None,
    };

    /// A definition with a name and a line that says the formula. Until its methods say otherwise, the op is pure, has
    /// one operand and no attributes, is lowered by its decomposition, runs a batch member by member, and costs one
    /// operation for each element of its results.
    pub const fn new(name: &'static str, doc: &'static str) -> OpDef {
        OpDef { name, doc, ..OpDef::BLANK }
    }

    /// The same definition under another name.
    pub const fn named(self, name: &'static str) -> OpDef {
        OpDef { name, ..self }
    }

    /// Sets the number of operands.
    pub const fn arity(self, arity: Arity) -> OpDef {
        OpDef { arity, ..self }
    }

    /// Sets the schema of the attributes: `FIELDS` of a struct that [`attrs!`](crate::op::attrs) declares.
    pub const fn attrs(self, attrs: &'static [Field]) -> OpDef {
        OpDef { attrs, ..self }
    }

    /// Sets the facts.
    pub const fn flags(self, flags: Flags) -> OpDef {
        OpDef { flags, ..self }
    }

    /// Sets the shape inference.
    pub const fn infer(self, infer: fn(&mut Infer<'_>) -> Result<(), String>) -> OpDef {
        OpDef { infer, ..self }
    }

    /// Sets the derivative.
    pub const fn deriv(self, deriv: Deriv) -> OpDef {
        OpDef { deriv, ..self }
    }

    /// Sets how the op runs on a batch.
    pub const fn batch(self, batch: Batch) -> OpDef {
        OpDef { batch, ..self }
    }

    /// Sets the op in simpler ops.
    pub const fn decompose(self, expand: Expand) -> OpDef {
        OpDef { decompose: Some(expand), ..self }
    }

    /// Sets how the op becomes instructions.
    pub const fn lower(self, lower: Lower) -> OpDef {
        OpDef { lower, ..self }
    }

    /// Sets the number of floating-point operations.
    pub const fn cost(self, cost: Cost) -> OpDef {
        OpDef { cost, ..self }
    }

    /// Sets the conformance cases.
    pub const fn cases(self, cases: &'static [Case]) -> OpDef {
        OpDef { cases, ..self }
    }

    /// Sets what the engine must know beyond the definition.
    pub const fn pack(self, pack: &'static Pack) -> OpDef {
        OpDef { pack: Some(pack), ..self }
    }

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
pub fn planned_regions(g: Graph<'_>, n: Node) -> impl Iterator<Item = Region> + '_ {
    let def = g.def_of(n);
    let planned = matches!(def.lower, Lower::Loop | Lower::Choice);
    let region = move |(i, f): (usize, &Field)| (planned && f.kind == FieldKind::Region).then(|| g.attrs(n).region(i));
    def.attrs.iter().enumerate().filter_map(region)
}

/// What is wrong with a definition by itself, if anything.
pub const fn definition_fault(def: &OpDef) -> Option<&'static str> {
    let unsaid = matches!(def.deriv, Deriv::Error(why) if why.is_empty());
    let stops = def.flags.has(Flags::STEP) || def.flags.has(Flags::STOP);
    if def.name.is_empty() || def.doc.is_empty() {
        Some("an op needs a name and a doc line")
    } else if unsaid {
        Some("an op needs a derivative, or the reason why it has none")
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
