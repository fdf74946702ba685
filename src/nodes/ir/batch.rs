//! How an op runs on a batch: on many operands of one type at once. See the pass [`vmap`](crate::passes::vmap).

use super::attrs::Attrs;
use super::builder::Var;
use super::site::Site;

/// A node as its batch rule sees it.
#[non_exhaustive]
pub struct BatchSite<'x, 'g> {
    /// The node. A batched operand has one more axis, the first one, which counts the members of the batch.
    pub site: Site<'x, 'g>,
    /// For each operand, whether it is batched. The others are the same for all members.
    pub batched: &'x [bool],
    /// The number of members.
    pub size: usize,
}

/// The results of a node for all members, each with the batch's axis first. `None` leaves the node to a loop.
pub type BatchRule = for<'g> fn(&BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>>;

/// How an op runs on a batch: the field `batch` of an op definition.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Batch {
    /// The op takes one more leading axis on all operands and gives it to all results, with the same attributes.
    Leading,
    /// A hand-written rule.
    Rule(BatchRule),
    /// A hand-written rule if the attributes fit, else the decomposition is batched.
    RuleIf(fn(&Attrs<'_>) -> bool, BatchRule),
    /// Batch the decomposition, or the body of a region that runs once.
    ViaDecompose,
    /// The op draws random numbers; the rule draws different ones for each member. A batched key is left to a loop.
    Draws(BatchRule),
    /// The op runs regions: these are batched.
    Regions,
    /// One member after another, in a loop.
    Members,
}

impl Batch {
    /// True if a node with these attributes is batched through its decomposition.
    pub fn is_via_decompose(&self, attrs: &Attrs<'_>) -> bool {
        match self {
            Batch::ViaDecompose => true,
            Batch::RuleIf(fits, _) => !fits(attrs),
            _ => false,
        }
    }
}
