//! Graphs: the builder, text, passes, plans of random graphs, and what the checkers refuse.

#![allow(clippy::unwrap_used, clippy::panic)]

mod batches;
mod calls;
mod carried_sums;
mod columns;
#[path = "../common/mod.rs"]
mod common;
mod contract;
mod deep;
mod derivatives;
mod differential;
mod edges;
mod extend;
mod filetests;
mod fusion;
mod gradients_there;
mod hoist;
mod inner_values;
mod joined_maps;
mod known_branches;
mod lints;
mod mutants;
mod oracle;
mod overlaps;
mod partial_stacks;
mod pass_pairs;
mod pitfalls;
mod places;
mod plan_figures;
mod precisions;
mod props;
mod reduced_maps;
mod rounded;
mod saved;
mod selects;
mod transforms;
mod trimmed;
mod vmap;
mod wrong_loops;
