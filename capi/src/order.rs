//! Functions for a training loop: the rate of a step, the order of examples.

#![allow(unsafe_code, unsafe_op_in_unsafe_fn)]

use crate::border::{self, Out, call};
use crate::fault::Fault;
use crate::kinds::ag_status;
use arenagrad::train::permutation;
use arenagrad_tables::text as tables;
use std::ffi::c_char;

/// The learning rate of step `step`, from 0, of a run of `steps` steps whose base or peak rate is `lr`. `schedule` is
/// TOML with the keys of the table [schedule] of a run's configuration: "kind = 'one-cycle'".
///
/// Errors: AG_SYNTAX with the line of `schedule`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_schedule_rate(
    schedule: *const c_char,
    lr: f64,
    steps: u64,
    step: u64,
    rate: *mut f64,
) -> ag_status {
    call("ag_schedule_rate", || {
        let out = Out::new("rate", rate)?;
        let schedule = tables::schedule(border::text("schedule", schedule)?, lr, steps)?;
        out.put(schedule.lr(step));
        Ok(())
    })
}

/// Fills `order` with a permutation of 0, 1, … n − 1, a function of `seed`, `epoch` and `n`: the order of examples in
/// an epoch, as the program `arenagrad train` takes them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ag_permutation(seed: u64, epoch: u64, order: *mut u32, n: usize) -> ag_status {
    call("ag_permutation", || {
        if u32::try_from(n).is_err() {
            return Err(Fault::usage(format!("n is {n}; it goes to {}", u32::MAX)));
        }
        permutation(seed, epoch, border::slice_mut("order", order, n)?);
        Ok(())
    })
}
