//! The kind of a buffer's contents.

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BufKind {
    /// A trained value that persists from step to step.
    Param,
    /// Another value that persists from step to step.
    State,
    /// A value that the caller writes.
    Input,
    /// A constant of the graph.
    Constant,
    /// A result that the caller reads.
    Output,
    /// A result that only other instructions read.
    Activation,
    /// A temporary of one group.
    Scratch,
}

impl BufKind {
    /// True if the caller owns the contents between steps.
    pub fn is_leaf(self) -> bool {
        matches!(self, BufKind::Param | BufKind::State | BufKind::Input)
    }

    /// True if the contents exist before the first instruction.
    pub fn is_pinned(self) -> bool {
        self.is_leaf() || self == BufKind::Constant
    }

    /// The name in reports and errors.
    pub fn name(self) -> &'static str {
        match self {
            BufKind::Param => "param",
            BufKind::State => "state",
            BufKind::Input => "input",
            BufKind::Constant => "constant",
            BufKind::Output => "output",
            BufKind::Activation => "activation",
            BufKind::Scratch => "scratch",
        }
    }
}
