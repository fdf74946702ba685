//! How many threads programs are planned for.
//!
//! Invariant: a program is planned for 1 to [`MAX_THREADS`] threads.

use super::Session;
use crate::error::{Error, Kind, Result};

/// Most threads of one program.
pub const MAX_THREADS: usize = 1024;

impl Session {
    /// Runs steps on at most `n` threads, from 1 to [`MAX_THREADS`]; another number is an error when a program is
    /// compiled. Results do not depend on it.
    pub fn threads(mut self, n: usize) -> Session {
        self.threads = n;
        self
    }

    /// Threads that programs are planned for.
    pub(super) fn planned_threads(&self) -> Result<usize> {
        match self.threads {
            1..=MAX_THREADS if self.poison || self.find_nan => Ok(1),
            n @ 1..=MAX_THREADS => Ok(n),
            n => Err(Error::new(Kind::Plan, format!("threads is {n}; it goes from 1 to {MAX_THREADS}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Builder, DType};

    #[test]
    fn other_numbers_of_threads_are_refused() {
        let g = Builder::new("g");
        let y = g.input("x", [4], DType::F32).tanh().named("y");
        let g = g.finish([y]).unwrap();
        for n in [0, MAX_THREADS + 1, usize::MAX] {
            let e = Session::new().threads(n).plan(&g).unwrap_err();
            assert!(e.message.contains(&format!("threads is {n}")), "{e}");
            assert!(Session::new().threads(n).compile(&g).is_err());
            assert!(Session::new().threads(n).budgets(&g).is_err());
        }
        assert_eq!(Session::new().threads(MAX_THREADS).compile(&g).unwrap().threads(), 1);
    }
}
