//! What a function of the oracle for a family of ops gets and gives.

use super::account::InterpreterAccount;
use super::array::Array;
use super::stop::Stop;
use crate::nodes::{Attrs, DType, Op};

/// What the oracle knows of a family: the names of its ops, and the function that computes their results.
pub struct OracleOps {
    /// The names.
    pub names: &'static [&'static str],
    /// The results of a node, in order.
    pub run: fn(&mut OracleNode<'_>) -> Result<Vec<Array>, Stop>,
}

/// A node as the oracle's functions see it.
pub struct OracleNode<'n> {
    /// The op.
    pub op: Op,
    /// The attributes.
    pub attrs: Attrs<'n>,
    /// The operands.
    pub args: Vec<&'n Array>,
    /// The element type of each result.
    pub dtypes: Vec<DType>,
    /// The shape of each result.
    pub dims: Vec<Vec<usize>>,
    pub(super) account: &'n mut InterpreterAccount,
}

impl OracleNode<'_> {
    /// Counts `work` elements that are read or written. Call it before the work.
    ///
    /// # Errors
    /// The interpretation takes too long: [`Stop::TooLarge`].
    pub fn spend(&mut self, work: u64) -> Result<(), Stop> {
        self.account.spend(work)
    }

    /// Says that the step may fail, as an index or a divisor is unknown.
    pub fn may_fault(&mut self) -> &mut bool {
        &mut self.account.may_fault
    }
}
