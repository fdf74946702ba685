//! Nothing: the benches are the targets of this package.
