//! Compiled programs: training steps, plans, precision, traces.

#![allow(clippy::unwrap_used, clippy::panic)]

mod baseline;
#[path = "../common/mod.rs"]
mod common;
mod contract;
mod examples;
mod files;
mod methods;
mod networks;
mod optimisers;
mod plans;
mod precision;
mod steps;
mod trace;
