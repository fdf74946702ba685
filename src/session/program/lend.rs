//! Steps whose leaves another thread takes while they run: see [`Lender`].

use super::Program;
use super::method::Method;
use crate::error::Result;
use crate::sched::lend::{Lender, LentPart, Taker};
use std::ops::Range;

impl Program {
    /// What takes `bytes` of the arena of each step of `m` on a thread of its own. None if steps of this program are
    /// looked at while they run.
    ///
    /// # Errors
    /// `m` is of another program; the thread cannot be started.
    pub(crate) fn lender(&self, m: Method, bytes: &[Range<usize>]) -> Result<Option<Lender>> {
        let at = self.method_number(m)?;
        if self.methods[at].finder.is_some() {
            return Ok(None);
        }
        self.runner.lender(at, bytes)
    }

    /// What a step of `m` lends of `bytes`. Errors: `m` is of another program.
    pub(crate) fn lent_parts(&self, m: Method, bytes: &[Range<usize>]) -> Result<Vec<LentPart>> {
        let exec = self.runner.exec(self.method_number(m)?);
        Ok(bytes.iter().map(|r| exec.lent_part(r.clone())).collect())
    }

    /// As [`Program::run`] of the method `m` that `lender` is of, while `taker` takes its parts. If the program cannot
    /// lend them, it takes none.
    pub(crate) fn run_lending(&mut self, m: Method, lender: &mut Lender, taker: &mut dyn Taker) -> Result<()> {
        let at = self.method_number(m)?;
        self.before_step(at)?;
        match self.runner.step_lending(&mut self.arena, lender, taker) {
            Some(done) => done.map_err(|stop| self.stopped(at, stop)),
            None => self.step_of(at),
        }
    }
}
