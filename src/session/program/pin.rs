//! Where the threads of a program run, and how long they wait: [`Program::pin`] and [`Program::spin`].

use super::Program;
use crate::error::Result;
use std::time::Duration;

impl Program {
    /// Puts each thread of the program on a core of its own: the thread that runs steps on the first of `cores`, the
    /// others on the next ones. Cores have the numbers of the system, from 0. There may be more of them than threads.
    ///
    /// The thread that runs steps moves when it runs its next step, whichever thread that is, and stays there; threads
    /// that it starts later begin on its core. Programs of [`Program::share`] are not put on cores: each is for another
    /// thread, so choose for each.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("double");
    /// let y = (g.input("x", [4], DType::F32) * 2.0).named("y");
    /// let mut p = Session::new().compile(&g.finish([y])?)?;
    /// if let Err(e) = p.pin([0]) {
    ///     eprintln!("{e}"); // on a system that cannot do this, for instance
    /// }
    /// p.values_mut::<f32>("x")?.fill(1.0);
    /// p.step()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There are fewer cores than threads; a core is given twice (kind `Plan`). There is no such core, or the process
    /// may not use it; the system refuses, as all but Linux do (kind `Io`). A step fails if the system refuses by then.
    pub fn pin(&mut self, cores: impl IntoIterator<Item = usize>) -> Result<()> {
        let cores: Vec<usize> = cores.into_iter().collect();
        self.runner.pin(&cores)
    }

    /// How long the program's threads, the caller's excepted, look for the next step before they sleep. A step that
    /// begins in that time begins at once; waking a thread takes some tens of microseconds. A thread that looks for a
    /// step keeps its core busy: choose this where the program has cores of its own, and zero where steps are rare and
    /// others need the cores. `Duration::MAX` never sleeps.
    ///
    /// By default threads look for one or two tenths of a millisecond, then yield to others a few hundred times, and
    /// sleep. A program on one thread has no thread that waits.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// use std::time::Duration;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("double");
    /// let y = (g.input("x", [4], DType::F32) * 2.0).named("y");
    /// let mut p = Session::new().threads(2).compile(&g.finish([y])?)?;
    /// p.spin(Duration::from_millis(2)); // steps come each millisecond
    /// # Ok(())
    /// # }
    /// ```
    pub fn spin(&mut self, time: Duration) {
        self.runner.spin(time);
    }
}
