//! Boolean facts of an op.

/// Boolean facts of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// No fact.
    pub const NONE: Flags = Flags(0);
    /// Equal operands and attributes give equal results. The op may be merged, moved, dropped and computed twice.
    pub const PURE: Flags = Flags(1);
    /// The two operands may be exchanged.
    pub const COMMUTES: Flags = Flags(2);
    /// A leaf: its value comes from outside.
    pub const LEAF: Flags = Flags(4);
    /// Has an effect besides its results. The op is kept, in order.
    pub const EFFECT: Flags = Flags(8);
    /// A block op: allowed in stage `Block` only.
    pub const BLOCK: Flags = Flags(16);
    /// A fused op: not allowed in stage `Core`.
    pub const FUSED: Flags = Flags(32);
    /// Results after the first are statistics without a derivative rule. If one of them is read, preparation for
    /// derivatives replaces the op by its decomposition.
    pub const STATS: Flags = Flags(64);
    /// Copies, permutes or fills elements without arithmetic. Cheap to run again.
    pub const MOVE: Flags = Flags(128);
    /// A slow pointwise op: a power or a transcendental function.
    pub const EXPENSIVE: Flags = Flags(256);
    /// A matrix product, whose [`Precision`](crate::Precision) can be chosen.
    pub const PRODUCT: Flags = Flags(512);
    /// A step function: piecewise constant, so the derivative is zero where it exists.
    pub const STEP: Flags = Flags(1024);
    /// Differentiated as a constant, whatever the function is: `stop_gradient`.
    pub const STOP: Flags = Flags(2048);
    /// A convolution, attention or general product. Like a [`Flags::PRODUCT`], it takes much longer than a sweep over
    /// its operands. A residual sum and the norm of that sum are not fused if such a node stands between them. Most
    /// backward ops do not have this flag.
    pub const HEAVY: Flags = Flags(4096);
    /// The op amplifies rounding errors of its operands: large terms of a sum may cancel, a matrix that is factored may
    /// be ill-conditioned, and a large argument spans many periods. Where values are kept in half precision, the
    /// operands of such an op are not rounded; nor are its results, unless it is a pointwise op.
    pub const EXACT: Flags = Flags(8192);

    /// Integer operands and results are codes: each stands for a real number, and its tangents and cotangents are those
    /// of that number, in `f32`. The derivative is a convention, not a limit of differences.
    pub const QUANT: Flags = Flags(16384);
    /// Moves codes: an integer result is a code where the operand is one. The rule of the derivative moves `f32` then.
    pub const MOVES_CODES: Flags = Flags(32768);
    /// Straight-through: the derivative is, by definition, that of another function, which stands for this one.
    pub const STRAIGHT: Flags = Flags(65536);
    /// Operand 2, if there is one, is a zero point: an integer that is a constant for derivatives, and no code.
    pub const ZERO_POINT: Flags = Flags(131_072);
    /// The result has the bytes of the only operand, in the same order.
    pub const SAME_BYTES: Flags = Flags(262_144);

    /// Every flag with its name.
    pub const ALL: [(&'static str, Flags); 19] = [
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
        ("HEAVY", Flags::HEAVY),
        ("EXACT", Flags::EXACT),
        ("QUANT", Flags::QUANT),
        ("MOVES_CODES", Flags::MOVES_CODES),
        ("STRAIGHT", Flags::STRAIGHT),
        ("ZERO_POINT", Flags::ZERO_POINT),
        ("SAME_BYTES", Flags::SAME_BYTES),
    ];

    /// The union of both sets.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// True if this set contains all of `other`.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}
