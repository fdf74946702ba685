//! Nothing: the benches are the targets `gemm` and `compile` of this package.
