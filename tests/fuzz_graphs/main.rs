//! Drawn graphs, their mutants, and what the reducer leaves of them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod examples;
mod generate;
mod mutate;
mod reduce;
