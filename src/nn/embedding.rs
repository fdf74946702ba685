//! Embeddings: rows of a table.

use crate::nodes::{Builder, DType, Init, Var};

/// Rows of a table: param `name.weight` `[rows, width]`, standard normal. `indices` are i32 or i64.
#[track_caller]
pub fn embedding<'g>(g: &'g Builder, name: &str, indices: Var<'g>, rows: usize, width: usize, dtype: DType) -> Var<'g> {
    g.param(&format!("{name}.weight"), [rows, width], dtype, Init::Normal(1.0)).gather(indices, 0)
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
    g.param(&format!("{name}.weight"), [rows, width], dtype, Init::Normal(1.0)).embedding(indices, Some(padding))
}
