//! Nothing: the benches are the targets `gemm`, `compile` and `scan` of this package.
