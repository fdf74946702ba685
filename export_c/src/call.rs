//! An instruction of the plan, as the writers of its C read it.

use crate::c_text::{c_type, moved_type};
use arenagrad::graph::DType;
use arenagrad::tools::sched::checker::Checked;
use arenagrad::tools::sched::instructions::Operand;

/// What an instruction becomes.
pub struct Statement {
    /// C, without indentation. A check is an expression that is 0 if an index is bad.
    pub text: String,
    /// Whether it is a check.
    pub check: bool,
}

impl Statement {
    /// Statements that cannot fail.
    pub fn plain(text: String) -> Statement {
        Statement { text, check: false }
    }

    /// A call that returns 0 for a bad index.
    pub fn check(text: String) -> Statement {
        Statement { text, check: true }
    }
}

/// An instruction.
pub struct Call<'a> {
    plan: &'a Checked,
    /// Its number.
    pub at: usize,
    /// The element type of its node's first result.
    result: Option<DType>,
}

impl<'a> Call<'a> {
    /// Instruction `at` of `plan`, whose node's first result has elements of type `result`.
    pub fn new(plan: &'a Checked, at: usize, result: Option<DType>) -> Call<'a> {
        Call { plan, at, result }
    }

    /// Parameter words.
    pub fn words(&self) -> &'a [u64] {
        self.plan.code.params_of(self.at)
    }

    /// Operands that it reads.
    pub fn reads(&self) -> &'a [Operand] {
        self.plan.code.reads_of(self.at)
    }

    /// Operands that it writes.
    pub fn writes(&self) -> &'a [Operand] {
        self.plan.code.writes_of(self.at)
    }

    /// Read `i`, as a pointer to elements of type `dtype`.
    pub fn read(&self, i: usize, dtype: DType) -> Result<String, String> {
        let o = self.reads().get(i).ok_or_else(|| format!("the instruction has no operand {i}"))?;
        self.pointer(o, c_type(dtype)?.tag)
    }

    /// Write `i`, as a pointer to elements of type `dtype`.
    pub fn write(&self, i: usize, dtype: DType) -> Result<String, String> {
        let o = self.writes().get(i).ok_or_else(|| format!("the instruction has no result {i}"))?;
        self.pointer(o, c_type(dtype)?.tag)
    }

    /// The type as which the instruction moves elements.
    pub fn moved(&self) -> Result<DType, String> {
        moved_type(self.result, self.writes().first().map_or(0, |o| o.size))
    }

    /// A pointer to an operand.
    fn pointer(&self, o: &Operand, tag: &str) -> Result<String, String> {
        Ok(pointer(self.plan.offset[o.buf as usize] + o.off, tag))
    }
}

/// A pointer to the element at byte `at` of the arena.
pub fn pointer(at: usize, tag: &str) -> String {
    format!("AG_{}({at})", tag.to_uppercase())
}
