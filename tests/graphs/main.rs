//! Graphs: the builder, text, passes, plans of random graphs, and what the checkers refuse.

#![allow(clippy::unwrap_used, clippy::panic)]

mod calls;
mod columns;
#[path = "../common/mod.rs"]
mod common;
mod differential;
mod edges;
mod extend;
mod filetests;
mod fusion;
mod hoist;
mod joined_maps;
mod kept_plans;
mod mutants;
mod oracle;
mod overlaps;
mod pitfalls;
mod places;
mod props;
mod saved;
mod transforms;
mod vmap;
mod wrong_loops;
