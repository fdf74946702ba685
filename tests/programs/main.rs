//! Compiled programs: training steps, plans, precision, traces.

#![allow(clippy::unwrap_used, clippy::panic)]

mod adapters;
mod baseline;
mod buffers;
mod clipping;
#[path = "../common/mod.rs"]
mod common;
mod complex_params;
mod contract;
mod convolutions;
mod examples;
mod exported;
mod files;
mod find_nan;
mod fit;
mod generate;
mod inspect;
mod int8;
mod keep_half;
mod lbfgs;
mod loss_scale;
mod memory_map;
mod methods;
mod networks;
mod optimisers;
mod overlap;
mod parallel;
mod pinning;
mod plans;
mod precision;
mod projections;
mod row_updates;
mod schedules;
mod sharing;
mod sizes;
mod sizes_bad;
mod split;
mod steps;
mod torch_files;
mod torch_hostile;
mod trace;
mod trainer;
mod update_rules;
mod weighed_batches;
