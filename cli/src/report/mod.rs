//! The charts of `run.html`: loss, evaluations, learning rate, time of a step. The page and the memory map are the
//! library's.
//!
//! Invariant: the functions here return text and write nothing.

pub mod axis;
pub mod chart;
pub mod run_charts;
