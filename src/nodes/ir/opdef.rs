//! Op definitions: one constant (`OpDef`) an op. Everything that the engine does with an op follows from it.

use super::attrs::{Attrs, Field};
use super::builder::{Builder, Var};
use super::infer::Infer;
use crate::kernels::tile::TileOp;
use crate::nodes::ir::call::LowerFn;

/// An op: an index into the graph's op table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Op(pub u16);

/// How many operands an op takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly this many.
    Exactly(usize),
    /// From `.0` to `.1`.
    Between(usize, usize),
    /// At least this many.
    AtLeast(usize),
}

impl Arity {
    /// Whether `n` operands are right.
    pub const fn allows(self, n: usize) -> bool {
        match self {
            Arity::Exactly(k) => n == k,
            Arity::Between(a, b) => n >= a && n <= b,
            Arity::AtLeast(k) => n >= k,
        }
    }
}

impl std::fmt::Display for Arity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Arity::Exactly(k) => write!(f, "{k}"),
            Arity::Between(a, b) => write!(f, "{a} to {b}"),
            Arity::AtLeast(k) => write!(f, "at least {k}"),
        }
    }
}

/// Yes-or-no facts of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// No fact.
    pub const NONE: Flags = Flags(0);
    /// Equal operands and attributes give equal results: may be merged, moved, dropped and computed twice.
    pub const PURE: Flags = Flags(1);
    /// The two operands may be exchanged.
    pub const COMMUTES: Flags = Flags(2);
    /// A leaf: its value comes from outside.
    pub const LEAF: Flags = Flags(4);
    /// Has an effect beside its results: kept, in order.
    pub const EFFECT: Flags = Flags(8);
    /// May stand in the blocks that a user builds, before they are expanded.
    pub const BLOCK: Flags = Flags(16);
    /// May occur only after the fusion pass.
    pub const FUSED: Flags = Flags(32);
    /// Results other than the first are statistics that have no derivative rule of their own: where they are used,
    /// preparation replaces the op by its decomposition.
    pub const STATS: Flags = Flags(64);
    /// Moves or makes elements and computes nothing: to make them again costs no arithmetic.
    pub const MOVE: Flags = Flags(128);
    /// Element by element, but slow: a power or a transcendental function.
    pub const EXPENSIVE: Flags = Flags(256);
    /// A matrix product, whose precision can be chosen.
    pub const PRODUCT: Flags = Flags(512);
    /// A step function: piecewise constant, so the derivative is zero where it exists.
    pub const STEP: Flags = Flags(1024);
    /// Differentiated as a constant, whatever the function is: `stop_gradient`.
    pub const STOP: Flags = Flags(2048);

    /// Every flag with its name.
    pub const ALL: [(&'static str, Flags); 12] = [
        ("PURE", Flags::PURE),
        ("COMMUTES", Flags::COMMUTES),
        ("LEAF", Flags::LEAF),
        ("EFFECT", Flags::EFFECT),
        ("BLOCK", Flags::BLOCK),
        ("FUSED", Flags::FUSED),
        ("STATS", Flags::STATS),
        ("MOVE", Flags::MOVE),
        ("EXPENSIVE", Flags::EXPENSIVE),
        ("PRODUCT", Flags::PRODUCT),
        ("STEP", Flags::STEP),
        ("STOP", Flags::STOP),
    ];

    /// Both sets.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other` is in this set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A node as rules see it: what it is in the graph that is read, and its operands in the graph that is written.
pub struct Site<'x, 'g> {
    /// The writer.
    pub g: &'g Builder,
    /// The op.
    pub op: Op,
    /// Its attributes. Shapes and strings have the writer's ids.
    pub attrs: Attrs<'x>,
    /// Its operands, as values of the graph that is written.
    pub args: &'x [Var<'g>],
    /// Its results there; empty for a decomposition, which makes them.
    pub outs: &'x [Var<'g>],
}

impl<'g> Site<'_, 'g> {
    /// The op again, with other operands: all results.
    pub fn rebuild_with(&self, args: &[Var<'g>]) -> Vec<Var<'g>> {
        let owned: Vec<_> = self.attrs.iter().map(|(_, a)| a).collect();
        let attrs: Vec<_> = owned.iter().map(|a| a.borrow()).collect();
        self.g.emit(self.op, args, &attrs).into()
    }
}

/// ∂out₀/∂argᵢ of a point-wise op, as a value of the result's shape; `None` where it is zero.
pub type Partial = for<'g> fn(&Site<'_, 'g>, usize) -> Option<Var<'g>>;
/// The cotangent of operand `i` of a (multi)linear op, given that of its first result.
pub type Transpose = for<'g> fn(&Site<'_, 'g>, usize, Var<'g>) -> Option<Var<'g>>;
/// Cotangents of all operands, given those of the results; `want` says which are asked for.
pub type Vjp = for<'g> fn(&Site<'_, 'g>, &[Option<Var<'g>>], &[bool]) -> Vec<Option<Var<'g>>>;
/// Tangents of all results, given those of the operands.
pub type Jvp = for<'g> fn(&Site<'_, 'g>, &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>>;
/// The op in simpler ops: one value per result.
pub type Expand = for<'g> fn(&Site<'_, 'g>) -> Vec<Var<'g>>;

/// The derivative of an op, as a fact.
#[derive(Clone, Copy)]
pub enum Deriv {
    /// The derivative is zero. The conformance suite checks it by differences; an op with float operands is marked
    /// [`Flags::STEP`] or [`Flags::STOP`] as the reason.
    Zero,
    /// JVP Σ pᵢẋᵢ, VJP pᵢ·ȳ.
    Pointwise(Partial),
    /// Linear in all differentiable operands together: the JVP is the op itself.
    Linear(Transpose),
    /// Linear in each differentiable operand alone: the JVP is a sum over operands.
    Multilinear(Transpose),
    /// Differentiate the decomposition.
    ViaDecompose,
    /// A hand-written pair.
    Rules(Jvp, Vjp),
    /// Runs a region again and again: the passes differentiate the region and build the loop of the derivative.
    Loop,
    /// Not differentiable, and why.
    Error(&'static str),
}

/// How an op becomes instructions.
#[derive(Clone, Copy)]
pub enum Lower {
    /// A leaf: its bytes are there before the first instruction.
    Leaf,
    /// One step of the tile interpreter, with its immediates.
    Tile(TileOp, fn(&Attrs<'_>) -> [f64; 2]),
    /// Kernel calls, or an alias of an operand.
    Kernel(LowerFn),
    /// No kernel: the decomposition stands in.
    Expand,
    /// Runs a region: inlined before lowering.
    Control,
    /// Runs a region again and again: one instruction, whose body is planned once.
    Loop,
}

/// Floating-point operations of a node, given element counts of operands and results; bytes follow from the types.
pub type Cost = fn(&crate::nodes::ir::call::CostCx<'_>) -> u64;

/// Which numbers an operand of a conformance case is drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Domain {
    /// Normal around 0, away from kinks at 0 by at least 0.1.
    Real,
    /// From 0.5 to 2.
    Positive,
    /// Strictly inside (−0.9, 0.9).
    Unit,
    /// Distinct reals at least 0.05 apart, so that orders and maxima have no ties.
    Distinct,
    /// Integers 0 … n−1.
    Index(usize),
    /// Integers 1 … n.
    Count(usize),
    /// 0 or 1.
    Bit,
    /// Any 32 bits.
    Bits,
}

/// One conformance case: operand types, attributes, and where the operands' numbers come from.
///
/// `args` is written like the text form with `f` for "each of f32 and f64": `"f[3,4] f[4]"`; attributes as in the text
/// form: `"ta=false tb=true"`. Domains beyond the list repeat its last.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Operand types.
    pub args: &'static str,
    /// Attributes.
    pub attrs: &'static str,
    /// Domains of the operands.
    pub domains: &'static [Domain],
}

/// One op.
pub struct OpDef {
    /// Text mnemonic, unique.
    pub name: &'static str,
    /// One line: the formula.
    pub doc: &'static str,
    /// Number of operands.
    pub arity: Arity,
    /// Attribute schema.
    pub attrs: &'static [Field],
    /// Facts.
    pub flags: Flags,
    /// Types of the results, or why there are none.
    pub infer: fn(&mut Infer<'_>) -> Result<(), String>,
    /// The derivative.
    pub deriv: Deriv,
    /// The same thing in simpler ops.
    pub decompose: Option<Expand>,
    /// Instructions.
    pub lower: Lower,
    /// Floating-point operations.
    pub cost: Cost,
    /// Conformance cases.
    pub cases: &'static [Case],
}

impl OpDef {
    /// Whether the op may be merged, moved and dropped.
    pub const fn is_pure(&self) -> bool {
        self.flags.has(Flags::PURE)
    }

    /// Whether the op is a leaf.
    pub const fn is_leaf(&self) -> bool {
        self.flags.has(Flags::LEAF)
    }

    /// Whether the op works element by element.
    pub const fn is_pointwise(&self) -> bool {
        matches!(self.lower, Lower::Tile(..))
    }
}

impl std::fmt::Debug for OpDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Checks the op definitions while compiling: one that breaks an invariant does not build.
#[allow(clippy::panic)] // A const panic is a compile error.
pub const fn check_definitions(ops: &[&OpDef]) {
    assert!(ops.len() < u16::MAX as usize);
    let mut i = 0;
    while i < ops.len() {
        let r = ops[i];
        assert!(!r.name.is_empty() && !r.doc.is_empty(), "an op needs a name and a doc line");
        assert!(r.is_leaf() || !r.cases.is_empty(), "an op needs conformance cases");
        assert!(r.is_pure() || !r.flags.has(Flags::MOVE), "an op that only moves elements is pure");
        assert!(
            matches!(r.deriv, Deriv::Zero) || !(r.flags.has(Flags::STEP) || r.flags.has(Flags::STOP)),
            "an op that is a step function, or that stops gradients, has the derivative zero"
        );
        assert!(r.is_pointwise() || !r.flags.has(Flags::EXPENSIVE), "only a point-wise op is marked expensive");
        assert!(r.decompose.is_some() || !matches!(r.lower, Lower::Expand), "an op needs a kernel or a decomposition");
        assert!(
            r.decompose.is_some() || !matches!(r.deriv, Deriv::ViaDecompose),
            "an op that is differentiated through its decomposition needs one"
        );
        let mut j = 0;
        while j < i {
            assert!(!same(ops[j].name, r.name), "two ops have one name");
            j += 1;
        }
        i += 1;
    }
}
