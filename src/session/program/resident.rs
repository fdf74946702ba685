//! A program's memory, brought in and kept: [`Program::prefault`] and [`Program::lock_memory`].

use super::Program;
use crate::error::{Error, Kind, Result};

impl Program {
    /// Touches each page of the program's memory, so that no later step waits for one: the system gives memory, and
    /// reads the weights of an exported program, page by page when they are first used.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("g");
    /// let y = (g.input("x", [1 << 20], DType::F32) * 2.0).named("y");
    /// let mut p = Session::new().compile(&g.finish([y])?)?;
    /// p.prefault(); // 8 MiB are there, before the first step
    /// p.mark_written("x")?;
    /// p.step()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefault(&mut self) {
        self.arena.prefault();
    }

    /// Keeps the program's memory in memory: the system may not write it to a swap area. Brings in all pages, as
    /// [`Program::prefault`] does. The program's instructions and the stack of its threads are not locked.
    ///
    /// # Errors
    /// The system refuses (kind `Memory`): most systems limit the memory that a process may lock (`ulimit -l`). The
    /// params are shared with other programs: lock them before the first [`Program::share`].
    pub fn lock_memory(&mut self) -> Result<()> {
        self.arena.lock().map_err(|e| {
            let text = format!("{} bytes of a program are not locked in memory: {e}", self.arena.len());
            Error::new(Kind::Memory, text)
        })
    }
}
