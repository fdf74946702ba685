//! Grouped products: each row of a matrix is multiplied by the matrix of its group, such as a token by the weight of
//! its expert.
//!
//! If each row names its group, the rows are put in the order of their groups by a counting sort, which is stable. If
//! the sizes of the groups are given, the rows are in this order already. Then each group is one product over adjacent
//! rows. The rows of a result of [`product`] are put back in their places. The steps are calls of their own:
//! [`group_rows`] sorts, [`gather_kernel`](crate::index::gather_kernel) moves rows, [`product`] and [`outer`] multiply.
//!
//! Invariant: an element of a product is one chain of fused multiply-adds, over terms or over the rows of a group in
//! their order. So the bits depend neither on the number of threads nor, in [`product`], on the other rows.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`group_rows::group_rows_kernel`] | group of each row: `I[rows]` | order, places: `i32[rows]`, starts: `i32[groups + 1]` | [`group_rows::GroupRows`] |
//! | [`group_rows::group_starts_kernel`] | size of each group: `I[groups]` | starts: `i32[groups + 1]` | [`group_rows::GroupRows`] |
//! | [`product::grouped_product_kernel`] | x: `T[rows, k]`, w: `T[groups, k, n]`, or `T[groups, n, k]` if `transposed`; starts | `T[rows, n]`, scratch | [`product::GroupedProduct`] |
//! | [`outer::grouped_outer_kernel`] | x: `T[rows, k]`, g: `T[rows, n]`, starts | `T[groups, k, n]`, scratch | [`outer::GroupedOuter`] |

pub mod group_rows;
pub mod outer;
pub mod product;
#[cfg(test)]
mod tests;
