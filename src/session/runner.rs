//! Runs the steps of a program, on the caller's thread or on a team.
//!
//! Only [`Program`](super::Program) uses it.

use super::tracer::Tracer;
use crate::arena::tensor::TensorArena;
use crate::clock::Instant;
use crate::error::Result;
use crate::sched::affinity;
use crate::sched::exec::{Exec, Stop, ThreadState};
use crate::sched::lend::{Lender, Taker};
use crate::sched::nonfinite::{NonfiniteFindings, WatchedCall};
use crate::sched::team::Team;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// What runs the methods of a program: the caller's thread or a team.
pub struct Runner {
    /// Of each method.
    execs: Vec<Arc<Exec>>,
    threads: Threads,
    /// The core on which the caller's thread runs steps.
    core: Option<usize>,
}

/// Where steps run.
enum Threads {
    /// On the caller's thread.
    Solo(ThreadState),
    /// On the caller's thread, which fills dead bytes and checks red zones.
    Poisoned(ThreadState),
    /// On several threads.
    Team(Team),
}

impl Runner {
    /// What runs `execs`. If `poisoned`, it is one thread that fills dead bytes and checks red zones.
    pub fn new(execs: Vec<Exec>, poisoned: bool) -> Result<Runner> {
        let mut runner = Runner::on_this_thread(execs, poisoned);
        let most = runner.threads();
        if !poisoned && most > 1 {
            runner.threads = Threads::Team(Team::new(most)?);
        }
        Ok(runner)
    }

    /// What runs `execs` on the caller's thread, until [`Runner::lend_team`].
    pub fn on_this_thread(execs: Vec<Exec>, poisoned: bool) -> Runner {
        let (state, execs) = (ThreadState::default(), execs.into_iter().map(Arc::new).collect());
        let threads = if poisoned { Threads::Poisoned(state) } else { Threads::Solo(state) };
        Runner { execs, threads, core: None }
    }

    /// What runs method `method`.
    pub fn exec(&self, method: usize) -> &Exec {
        &self.execs[method]
    }

    /// Most threads that a method has tapes for.
    pub fn threads(&self) -> usize {
        self.execs.iter().map(|e| e.threads()).max().unwrap_or(1)
    }

    /// What runs the same methods for another program, on `threads` threads of its own.
    pub fn again(&self, threads: usize) -> Result<Runner> {
        let threads = match threads {
            0 | 1 => Threads::Solo(ThreadState::default()),
            n => Threads::Team(Team::new(n)?),
        };
        Ok(Runner { execs: self.execs.clone(), threads, core: None })
    }

    /// Steps run on `cores`: the caller's thread on the first, each thread of a team on one of the others.
    pub fn pin(&mut self, cores: &[usize]) -> Result<()> {
        affinity::check_cores(cores, self.threads())?;
        if let Threads::Team(team) = &self.threads {
            team.pin(cores)?;
        }
        self.core = cores.first().copied();
        Ok(())
    }

    /// Threads of a team look for the next step for `time` before they sleep.
    pub fn spin(&mut self, time: Duration) {
        if let Threads::Team(team) = &self.threads {
            team.spin(time);
        }
    }

    /// Puts the caller's thread where steps run.
    #[inline]
    pub fn settle(&self) -> Result<()> {
        self.core.map_or(Ok(()), affinity::stay_on)
    }

    /// Whether steps of method `method` write any of the bytes `r` of the arena.
    pub fn writes(&self, method: usize, r: Range<usize>) -> bool {
        self.execs[method].writes(&r)
    }

    /// Steps run on `team`, which has as many threads as the tapes need.
    pub fn lend_team(&mut self, team: Team) {
        if matches!(self.threads, Threads::Solo(_)) {
            self.threads = Threads::Team(team);
        }
    }

    /// The team, if there is one. Steps run on the caller's thread until the next [`Runner::lend_team`].
    pub fn take_team(&mut self) -> Option<Team> {
        match std::mem::replace(&mut self.threads, Threads::Solo(ThreadState::default())) {
            Threads::Team(team) => Some(team),
            other => {
                self.threads = other;
                None
            }
        }
    }

    /// Replaces what runs the only method.
    pub fn replace_exec(&mut self, exec: Exec) {
        self.execs = vec![Arc::new(exec)];
    }

    /// Runs a step of method `method`.
    pub fn step(&mut self, method: usize, arena: &mut TensorArena) -> Result<(), Stop> {
        let exec = &self.execs[method];
        match &mut self.threads {
            Threads::Solo(state) => exec.step(arena, state),
            Threads::Poisoned(state) => exec.step_poisoned(arena, state),
            Threads::Team(team) => team.step(exec, arena),
        }
    }

    /// What takes `bytes` of each step of `method` on a thread of its own; none if steps are poisoned.
    ///
    /// # Errors
    /// Those of [`Lender::new`].
    pub fn lender(&self, method: usize, bytes: &[Range<usize>]) -> Result<Option<Lender>> {
        match self.threads {
            Threads::Poisoned(_) => Ok(None),
            _ => Lender::new(&self.execs[method], bytes).map(Some),
        }
    }

    /// Runs a step of the method that `lender` is of, whose parts `taker` takes meanwhile. `None` if there is none:
    /// then nothing ran.
    pub fn step_lending(
        &mut self,
        arena: &mut TensorArena,
        lender: &mut Lender,
        taker: &mut dyn Taker,
    ) -> Option<Result<(), Stop>> {
        self.execs.iter().find(|exec| lender.is_of(exec))?;
        match &mut self.threads {
            Threads::Poisoned(_) => None,
            Threads::Solo(state) => Some(lender.step(arena, taker, |lending| lending.step_alone(state))),
            Threads::Team(team) => Some(lender.step(arena, taker, |lending| team.step_lending(lending))),
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
        let exec = &self.execs[method];
        match &mut self.threads {
            Threads::Solo(state) | Threads::Poisoned(state) => exec.step_watched(arena, state, calls, found),
            Threads::Team(team) => team.step(exec, arena),
        }
    }

    /// The iteration of the innermost loop around the instruction of `method` at timestamp `time`.
    pub fn iteration(&self, method: usize, time: usize) -> Option<usize> {
        self.execs[method].iteration(time)
    }

    /// Runs a step of method `method` and writes down in `t` what happens.
    pub fn step_traced(&mut self, method: usize, arena: &mut TensorArena, t: &mut Tracer) -> Result<(), Stop> {
        let start = Instant::now();
        t.tracks.iter_mut().for_each(|track| track.begin(start));
        let exec = &self.execs[method];
        let done = match (&mut self.threads, &mut t.tracks[..]) {
            (Threads::Solo(state), [track, ..]) => exec.step_traced(arena, state, track),
            (Threads::Team(team), tracks) => team.step_traced(exec, arena, tracks),
            // What poisons looks at all bytes around each instruction: its times would mean nothing.
            _ => self.step(method, arena),
        };
        t.nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        done
    }
}
