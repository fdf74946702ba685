//! An empty library. The benches are the targets of this package.
