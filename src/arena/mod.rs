//! Memory: ids, side tables and interners for graph columns, and the one block that a program's tensors live in.

pub mod tensor;
