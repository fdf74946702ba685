//! Compiled programs: training steps, plans, precision, traces.

#![allow(clippy::unwrap_used, clippy::panic)]

mod baseline;
#[path = "../common/mod.rs"]
mod common;
mod contract;
mod examples;
mod files;
mod find_nan;
mod inspect;
mod methods;
mod networks;
mod optimisers;
mod plans;
mod precision;
mod projections;
mod steps;
mod trace;
