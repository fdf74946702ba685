//! Embeddings: rows of a table. Their gradients are sparse: SGD, Adagrad and SparseAdam update the rows that are read.

use crate::nodes::arguments::setters::setters;
use crate::nodes::{Builder, DType, Init, Var};

/// Options of [`embedding_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Embedding {
    /// The dtype of the table and the result.
    pub dtype: DType,
    /// A row that gets no gradient, so that it keeps its start value (in torch that is 0).
    pub padding: Option<usize>,
    /// Start values of the table; `None` is torch's default, standard normal.
    pub weight_init: Option<Init>,
}

impl Default for Embedding {
    /// torch's defaults: `f32`, standard normal, no padding.
    fn default() -> Embedding {
        Embedding { dtype: DType::F32, padding: None, weight_init: None }
    }
}

setters! {
    [] Embedding {
        dtype: DType,
        padding: impl Into<Option<usize>> => padding.into(),
        weight_init: impl Into<Option<Init>> => weight_init.into(),
    }
}

/// Rows of a table: param `name.weight` `[rows, width]`, standard normal, of `dtype`. `indices` are i32 or i64.
///
/// The gradient is sparse where an optimiser can use that: [`Sgd`](crate::optim::Sgd) without momentum,
/// [`Adagrad`](crate::optim::Adagrad) and [`SparseAdam`](crate::optim::SparseAdam) update the rows that a step reads.
#[track_caller]
pub fn embedding<'g>(g: &'g Builder, name: &str, indices: Var<'g>, rows: usize, width: usize, dtype: DType) -> Var<'g> {
    embedding_with(g, name, indices, [rows, width], Embedding::default().dtype(dtype))
}

/// [`embedding`] with options.
#[track_caller]
pub fn embedding_with<'g>(
    g: &'g Builder,
    name: &str,
    indices: Var<'g>,
    [rows, width]: [usize; 2],
    o: Embedding,
) -> Var<'g> {
    g.layer_scope(name, || {
        let init = o.weight_init.unwrap_or(Init::Normal(1.0));
        let table = g.param(&format!("{name}.weight"), [rows, width], o.dtype, init);
        match o.padding {
            Some(row) => table.embedding(indices, Some(row)),
            None => table.gather(indices, 0),
        }
    })
}

/// [`embedding`] whose row `padding` gets no gradient, so that it keeps its start value (in torch that is 0).
#[track_caller]
pub fn padded_embedding<'g>(
    g: &'g Builder,
    name: &str,
    indices: Var<'g>,
    [rows, width]: [usize; 2],
    dtype: DType,
    padding: usize,
) -> Var<'g> {
    embedding_with(g, name, indices, [rows, width], Embedding::default().dtype(dtype).padding(padding))
}
