//! Who runs the steps of a program: the caller's thread, or a team.
//!
//! Only [`Program`](super::Program) uses it.

use super::tracer::Tracer;
use crate::arena::tensor::TensorArena;
use crate::error::Result;
use crate::sched::exec::{Exec, Stop, ThreadState};
use crate::sched::nonfinite::{NonfiniteFindings, WatchedCall};
use crate::sched::team::Team;
use std::time::Instant;

/// See the file's head.
pub enum Runner {
    /// One thread.
    Solo(Exec, ThreadState),
    /// One thread that fills dead bytes.
    Poisoned(Exec, ThreadState),
    /// Several threads.
    Team(Team),
}

impl Runner {
    /// What runs `exec`. If `poisoned`, it is one thread that fills dead bytes and checks red zones.
    pub fn new(exec: Exec, poisoned: bool) -> Result<Runner> {
        Ok(match (poisoned, exec.threads()) {
            (true, _) => Runner::Poisoned(exec, ThreadState::default()),
            (false, 1) => Runner::Solo(exec, ThreadState::default()),
            (false, _) => Runner::Team(Team::new(exec)?),
        })
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        match self {
            Runner::Solo(..) | Runner::Poisoned(..) => 1,
            Runner::Team(team) => team.threads(),
        }
    }

    /// Runs a step.
    pub fn step(&mut self, arena: &mut TensorArena) -> Result<(), Stop> {
        match self {
            Runner::Solo(exec, state) => exec.step(arena, state),
            Runner::Poisoned(exec, state) => exec.step_poisoned(arena, state),
            Runner::Team(team) => team.step(arena),
        }
    }

    /// Runs a step and tells in `found` which instruction made a NaN or an infinity; `calls` says what to scan. Only
    /// for programs on one thread.
    pub fn step_watched(
        &mut self,
        arena: &mut TensorArena,
        calls: &[WatchedCall],
        found: &mut NonfiniteFindings,
    ) -> Result<(), Stop> {
        match self {
            Runner::Solo(exec, state) | Runner::Poisoned(exec, state) => exec.step_watched(arena, state, calls, found),
            Runner::Team(team) => team.step(arena),
        }
    }

    /// The iteration of the innermost loop around the instruction at timestamp `time`.
    pub fn iteration(&self, time: usize) -> Option<usize> {
        match self {
            Runner::Solo(exec, _) | Runner::Poisoned(exec, _) => exec.iteration(time),
            Runner::Team(_) => None,
        }
    }

    /// Runs a step and writes down in `t` what happens.
    pub fn step_traced(&mut self, arena: &mut TensorArena, t: &mut Tracer) -> Result<(), Stop> {
        let start = Instant::now();
        t.tracks.iter_mut().for_each(|track| track.begin(start));
        let done = match (&mut *self, &mut t.tracks[..]) {
            (Runner::Solo(exec, state), [track, ..]) => exec.step_traced(arena, state, track),
            (Runner::Team(team), tracks) => team.step_traced(arena, tracks),
            // What poisons looks at all bytes around each instruction: its times would mean nothing.
            _ => self.step(arena),
        };
        t.nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        done
    }
}
