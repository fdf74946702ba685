//! Programs that run at the same time on one set of params: [`Program::share`] and [`Program::publish`].

use super::Program;
use super::part::MethodData;
use crate::arena::front::Front;
use crate::arena::tensor::{LINE, TensorArena};
use crate::error::{Error, Kind, Result};
use crate::session::bindings::Role;
use crate::session::published::{Follower, Published, Sharing};
use crate::session::{METHOD, start_values};
use std::ops::Range;
use std::sync::Arc;

impl Program {
    /// A program that reads the params of this one, for another thread: it has its own inputs, activations, outputs and
    /// states, and the params are there once, however many programs read them. It has all methods and handles of this
    /// program, and runs those methods that train no param; its params cannot be written.
    ///
    /// If no method of this program trains, this program reads the shared params, too, and nothing is copied (but once
    /// for a program that was compiled, by the first call). If one does, the first call copies the params, and this
    /// program goes on training its own; [`Program::publish`] hands them over.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("act");
    /// let p = nn::linear(&g, "fc", g.input("x", [1, 3], DType::F32), 2).named("p");
    /// let mut net = Session::new().compile(&g.finish([p])?)?;
    /// net.init(0)?;
    /// let (x, p) = (net.input::<f32>("x")?, net.output::<f32>("p")?);
    /// std::thread::scope(|threads| {
    ///     for i in 0..4 {
    ///         let mut actor = net.share().expect("a program that trains nothing");
    ///         threads.spawn(move || {
    ///             actor[x].fill(i as f32);
    ///             actor.step().expect("a step");
    ///             assert_eq!(actor[p].len(), 2);
    ///         });
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// All methods train params; the program is a size of a sized program, or was compiled to be traced or to look for
    /// NaN, or is itself one that this function made (kind `Data`). There is no memory.
    pub fn share(&mut self) -> Result<Program> {
        let of = match &self.sharing {
            Some(Sharing::Publishes(of)) => Arc::clone(of),
            Some(Sharing::Follows(_)) => return Err(refused("it reads the params of another: share that one")),
            None => self.begin_sharing()?,
        };
        let acts = self.acting();
        let mut follower = Follower::new(&of, (0..self.methods.len()).map(|m| acts.contains(&m)).collect());
        let arena =
            TensorArena::behind(follower.params(), self.arena.len()).ok_or_else(|| no_memory(self.arena.len()))?;
        let (mut arena, mut fresh) = (arena, self.fresh.clone());
        let threads = acts.iter().map(|&m| self.methods[m].report.threads).max().unwrap_or(1);
        for r in self.constants.iter().cloned().chain(self.states_of(&acts)) {
            arena.slice_mut(r.clone()).copy_from_slice(self.arena.slice(r));
        }
        for (i, b) in self.bindings.iter().enumerate().filter(|(_, b)| b.role == Role::Input) {
            fresh.clear(i);
            if let Some(x) = b.default {
                start_values::fill_constant_start_value(arena.slice_mut(b.range()), b.dtype, x);
            }
        }
        follower.catch_up(&mut arena, &mut fresh);
        Ok(Program {
            id: self.id,
            runner: self.runner.again(threads)?,
            arena,
            bindings: self.bindings.clone(),
            fresh,
            methods: self.methods.iter().map(MethodData::again).collect(),
            sources: Vec::new(),
            constants: self.constants.clone(),
            sharing: Some(Sharing::Follows(follower)),
            half_done: false,
        })
    }

    /// Hands the params as they are now to all programs that [`Program::share`] made: each takes them as a whole when
    /// its next step begins, by one exchange of a pointer, and never sees params of two steps at once. Where this
    /// program trains, they are copied into a block that no program reads any more.
    ///
    /// # Errors
    /// Nothing was shared (kind `Data`); there is no memory for a block.
    pub fn publish(&mut self) -> Result<()> {
        let Some(Sharing::Publishes(of)) = &self.sharing else {
            return Err(Error::new(Kind::Data, "nothing is published: no program was made by `share`"));
        };
        let (of, end) = (Arc::clone(of), self.params_end());
        self.publish_in(&of, end)
    }

    fn publish_in(&mut self, of: &Published, end: usize) -> Result<()> {
        let params = match self.trains() {
            true => {
                let mut spare = of.spare(end).ok_or_else(|| no_memory(end))?;
                for r in self.param_ranges() {
                    spare.bytes_mut()[r.clone()].copy_from_slice(self.arena.slice(r));
                }
                spare
            }
            false => self.arena.front().clone(),
        };
        let set = |&i: &u32| self.bindings[i as usize].role == Role::Param && self.fresh.is_set(i as usize);
        let set = (0..self.bindings.len() as u32).filter(set).collect();
        of.put(params, &self.arena, set, self.trains());
        Ok(())
    }

    /// Whether a param may be written: not where they are another program's.
    pub(super) fn check_writable(&self, i: usize) -> Result<()> {
        match (&self.sharing, self.bindings[i].role) {
            (Some(Sharing::Follows(_)), Role::Param) => Err(Error::new(
                Kind::Data,
                format!(
                    "param {:?} is shared, and this program only reads it: write it in the program that shares it, \
                     and publish",
                    self.bindings[i].name
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Whether the method at `at` may run here: not if it trains params that are another program's.
    #[inline]
    pub(super) fn check_acts(&self, at: usize) -> Result<()> {
        match &self.sharing {
            Some(Sharing::Follows(follower)) if !follower.acts[at] => Err(self.trains_others(at)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn trains_others(&self, at: usize) -> Error {
        let name = &self.methods[at].name;
        let text = "trains params, and this program only reads them: run it in the program that shares them";
        Error::new(Kind::Data, format!("method {name:?} {text}"))
    }

    /// Readies the program for others that read its params.
    fn begin_sharing(&mut self) -> Result<Arc<Published>> {
        if self.sources.is_empty() {
            return Err(refused("it is a size of a sized program, or was compiled to be traced or to look for NaN"));
        }
        let (end, acts) = (self.params_end(), self.acting());
        let apart = |b: &&crate::session::Binding| b.role != Role::Param && b.bytes > 0;
        if self.bindings.iter().filter(apart).any(|b| b.offset < end) {
            return Err(refused("its params do not stand in front of all else"));
        }
        if acts.is_empty() {
            let name = self.methods.first().map_or(METHOD, |m| &m.name);
            let how = "compile a graph that only reads the params beside it, by Session::compile_all";
            return Err(refused(&format!("method {name:?} trains its params, and there is no other: {how}")));
        }
        // What followers write is their own.
        let own = |r: &Range<usize>| acts.iter().any(|&m| self.runner.writes(m, r.clone()));
        let states: Vec<_> = self.states_of(&acts).into_iter().filter(|r| !own(r)).collect();
        let of = Arc::new(Published::new(states));
        if !self.trains() {
            self.divide_arena(end)?;
        }
        self.publish_in(&of, end)?;
        self.sharing = Some(Sharing::Publishes(Arc::clone(&of)));
        Ok(of)
    }

    /// The params become the front block of the arena.
    fn divide_arena(&mut self, end: usize) -> Result<()> {
        if self.arena.front().len() == end {
            return Ok(());
        }
        let front = match self.arena.front().prefix(end) {
            Some(front) => front,
            None => {
                let mut front = Front::zeroed(end).ok_or_else(|| no_memory(end))?;
                for r in self.param_ranges() {
                    front.bytes_mut()[r.clone()].copy_from_slice(self.arena.slice(r));
                }
                front
            }
        };
        let bytes = self.arena.len();
        let mut arena = TensorArena::behind(front, bytes).ok_or_else(|| no_memory(bytes))?;
        let others = self.bindings.iter().filter(|b| b.role != Role::Param).map(|b| b.range());
        for r in others.chain(self.constants.iter().cloned()) {
            arena.slice_mut(r.clone()).copy_from_slice(self.arena.slice(r));
        }
        self.arena = arena;
        Ok(())
    }

    /// Methods that write no param.
    fn acting(&self) -> Vec<usize> {
        let end = self.params_end();
        (0..self.methods.len()).filter(|&m| !self.runner.writes(m, 0..end)).collect()
    }

    fn trains(&self) -> bool {
        self.acting().len() < self.methods.len()
    }

    fn param_ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.bindings.iter().filter(|b| b.role == Role::Param).map(|b| b.range())
    }

    /// Bytes of the arena up to the end of its params, in whole lines.
    fn params_end(&self) -> usize {
        self.param_ranges().map(|r| r.end).max().unwrap_or(0).next_multiple_of(LINE)
    }

    /// The states that the methods `acts` read or write.
    fn states_of(&self, acts: &[usize]) -> Vec<Range<usize>> {
        let used = |i: usize, r: &Range<usize>| {
            acts.iter().any(|&m| self.fresh.is_read(m, i) || self.runner.writes(m, r.clone()))
        };
        let states = self.bindings.iter().enumerate().filter(|(_, b)| b.role == Role::State);
        states.map(|(i, b)| (i, b.range())).filter(|(i, r)| used(*i, r)).map(|(_, r)| r).collect()
    }
}

fn refused(why: &str) -> Error {
    Error::new(Kind::Data, format!("this program cannot be shared: {why}"))
}

fn no_memory(bytes: usize) -> Error {
    Error::new(Kind::Memory, format!("no memory for an arena of {bytes} bytes"))
}
