//! Cores and waiting times, as Python says them.

use crate::error::refuse;
use arenagrad::error::Kind;
use pyo3::prelude::*;
use std::time::Duration;

/// The numbers of cores in a list.
pub fn cores_of(cores: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let text = || format!("pin is {cores}; it is a list of numbers of cores, from 0");
    cores.extract().map_err(|_| refuse(Kind::Plan, text()))
}

/// How long threads look for a step.
pub fn spin_time(seconds: f64) -> PyResult<Duration> {
    if seconds == f64::INFINITY {
        return Ok(Duration::MAX);
    }
    let text = |_| refuse(Kind::Plan, format!("spin is {seconds}; it is a number of seconds, 0 or more"));
    Duration::try_from_secs_f64(seconds).map_err(text)
}
