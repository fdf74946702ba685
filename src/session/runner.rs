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

/// What runs the methods of a program; see the file's head.
pub enum Runner {
    /// One thread.
    Solo(Vec<Exec>, ThreadState),
    /// One thread that fills dead bytes.
    Poisoned(Vec<Exec>, ThreadState),
    /// Several threads.
    Team(Team),
}

impl Runner {
    /// What runs `execs`. If `poisoned`, it is one thread that fills dead bytes and checks red zones.
    pub fn new(execs: Vec<Exec>, poisoned: bool) -> Result<Runner> {
        let alone = execs.iter().all(|e| e.threads() == 1);
        Ok(match (poisoned, alone) {
            (true, _) => Runner::Poisoned(execs, ThreadState::default()),
            (false, true) => Runner::Solo(execs, ThreadState::default()),
            (false, false) => Runner::Team(Team::of(execs)?),
        })
    }

    /// Runs a step of method `method`.
    pub fn step(&mut self, method: usize, arena: &mut TensorArena) -> Result<(), Stop> {
        match self {
            Runner::Solo(execs, state) => execs[method].step(arena, state),
            Runner::Poisoned(execs, state) => execs[method].step_poisoned(arena, state),
            Runner::Team(team) => team.step_of(method, arena),
        }
    }

    /// Runs a step of method `method` and tells in `found` which instruction made a NaN or an infinity; `calls` says
    /// what to scan. Only for programs on one thread.
    pub fn step_watched(
        &mut self,
        method: usize,
        arena: &mut TensorArena,
        calls: &[WatchedCall],
        found: &mut NonfiniteFindings,
    ) -> Result<(), Stop> {
        match self {
            Runner::Solo(execs, state) | Runner::Poisoned(execs, state) => {
                execs[method].step_watched(arena, state, calls, found)
            }
            Runner::Team(team) => team.step_of(method, arena),
        }
    }

    /// The iteration of the innermost loop around the instruction of `method` at timestamp `time`.
    pub fn iteration(&self, method: usize, time: usize) -> Option<usize> {
        match self {
            Runner::Solo(execs, _) | Runner::Poisoned(execs, _) => execs[method].iteration(time),
            Runner::Team(_) => None,
        }
    }

    /// Runs a step of method `method` and writes down in `t` what happens.
    pub fn step_traced(&mut self, method: usize, arena: &mut TensorArena, t: &mut Tracer) -> Result<(), Stop> {
        let start = Instant::now();
        t.tracks.iter_mut().for_each(|track| track.begin(start));
        let done = match (&mut *self, &mut t.tracks[..]) {
            (Runner::Solo(execs, state), [track, ..]) => execs[method].step_traced(arena, state, track),
            (Runner::Team(team), tracks) => team.step_traced(method, arena, tracks),
            // What poisons looks at all bytes around each instruction: its times would mean nothing.
            _ => self.step(method, arena),
        };
        t.nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        done
    }
}
