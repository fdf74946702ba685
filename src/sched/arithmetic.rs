//! How the nodes of a graph are computed, where that is chosen beside the graph.

use crate::arena::Node;
use crate::arena::ids::Id;
use crate::kernels::conv::Convolutions;
use crate::kernels::gemm::Precision;

/// See the file's head. The default is that of all graphs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arithmetic {
    /// The precision of the products of each node; empty if all have the default.
    pub products: Vec<Precision>,
    /// How all convolutions are computed.
    pub convolutions: Convolutions,
}

impl Arithmetic {
    /// The default.
    pub const DEFAULT: &Arithmetic = &Arithmetic { products: Vec::new(), convolutions: Convolutions::Direct };

    /// The precision of the products of `n`.
    pub fn precision(&self, n: Node) -> Precision {
        self.products.get(n.at()).copied().unwrap_or_default()
    }
}
