//! Builders and writers of new graphs. `ir` knows no op but the leaves, so these hand it the
//! [table](super::ops::table).

use crate::arena::shapes::Shapes;
use crate::arena::strings::Strings;
use crate::nodes::ir::builder::Builder;
use crate::nodes::ir::emit::Emit;
use crate::nodes::ir::sizes::Sizes;
use crate::nodes::ops::table::OPS;

impl Emit {
    /// An empty graph called `name`.
    pub fn new(name: &str) -> Emit {
        Emit::with_tables(OPS.to_vec(), Strings::default(), Shapes::default(), Vec::new(), name)
    }
}

impl Builder {
    /// A builder of a graph called `name`.
    pub fn new(name: &str) -> Builder {
        Builder::tracking(Emit::new(name))
    }

    /// A builder of a graph called `name`, whose [symbols](Builder::symbol) have these sizes. Two sizes for one symbol,
    /// and a size above [`MAX_SIZE`](crate::tools::ir::sizes::MAX_SIZE), are an error of the graph.
    pub fn with_sizes(name: &str, sizes: &[(&str, usize)]) -> Builder {
        match Sizes::new(sizes) {
            Ok(sizes) => Builder::tracking_sizes(Emit::new(name), sizes),
            Err(e) => {
                let g = Builder::new(name);
                g.with(|emit| emit.fail(e));
                g
            }
        }
    }

    /// As [`Builder::with_sizes`], for sizes that are known to be sound.
    pub(crate) fn at_sizes(name: &str, sizes: Sizes) -> Builder {
        Builder::tracking_sizes(Emit::new(name), sizes)
    }
}
