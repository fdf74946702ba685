//! A program as a handle stands for it.
//!
//! Invariants: one thread at a time uses the program; a second one gets an error, as does the child of a fork if steps
//! run on several threads. After a panic the program is refused.

use crate::fault::{Fault, c_text};
use arenagrad::session::{Method, Program};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, TryLockError};

/// A method, and the names of its tensors as C has them, in the order of `Program::bindings_of`.
pub struct MethodNames {
    pub name: String,
    pub method: Method,
    pub tensors: Vec<CString>,
}

/// A program, and what C is told of it.
pub struct OwnedProgram {
    /// `None` only while it is dropped.
    core: Mutex<Option<Program>>,
    methods: Vec<MethodNames>,
    threads: usize,
    process: u32,
    /// Whether C has pointers to its tensors.
    has_pointers: AtomicBool,
}

impl Drop for OwnedProgram {
    fn drop(&mut self) {
        let core = self.core.get_mut().map_or_else(|poisoned| poisoned.into_inner().take(), Option::take);
        // In the child of a fork the team's threads do not exist, and joining them would wait for ever.
        if self.is_orphan() {
            std::mem::forget(core);
        }
    }
}

impl OwnedProgram {
    pub fn new(core: Program) -> Result<OwnedProgram, Fault> {
        let (mut methods, mut threads) = (Vec::new(), 1);
        for name in core.methods() {
            let method = core.method(name)?;
            let tensors = core.bindings_of(method)?.map(|b| c_text(&b.name)).collect();
            threads = threads.max(core.plan_of(method)?.threads);
            methods.push(MethodNames { name: name.to_string(), method, tensors });
        }
        Ok(OwnedProgram {
            core: Mutex::new(Some(core)),
            methods,
            threads,
            process: std::process::id(),
            has_pointers: false.into(),
        })
    }

    /// Whether its threads are those of another process, of which this one is a fork.
    fn is_orphan(&self) -> bool {
        // A step of one thread makes no system call, and needs no other thread.
        self.threads > 1 && self.process != std::process::id()
    }

    /// C gets a pointer to a tensor, so the arena stays where it is from now on.
    pub fn keep_place(&self) {
        self.has_pointers.store(true, Ordering::Relaxed);
    }

    /// Locks the memory, which moves small arenas to pages of their own.
    pub fn lock_memory(&self) -> Result<(), Fault> {
        self.with(|p| match self.has_pointers.load(Ordering::Relaxed) {
            true => Err(Fault::usage("the arena cannot move to memory of its own after ag_binding: lock it before")),
            false => Ok(p.lock_memory()?),
        })
    }

    /// What `f` gives of the program.
    pub fn with<R>(&self, f: impl FnOnce(&mut Program) -> Result<R, Fault>) -> Result<R, Fault> {
        if self.is_orphan() {
            return Err(Fault::usage(
                "the program was compiled before this process was forked, and its threads are not in the child: \
                 compile in the child",
            ));
        }
        let mut core = self.core.try_lock().map_err(|e| match e {
            TryLockError::WouldBlock => Fault::usage("another thread uses the program: give each thread its own"),
            TryLockError::Poisoned(_) => Fault::panic("the program met an internal error in a call before: free it"),
        })?;
        match core.as_mut() {
            Some(core) => f(core),
            None => Err(Fault::usage("the program was freed")),
        }
    }

    /// The method called `name`; the first one without a name.
    pub fn method(&self, core: &Program, name: Option<&str>) -> Result<&MethodNames, Fault> {
        let found = name.map_or(self.methods.first(), |name| self.methods.iter().find(|m| m.name == name));
        match (found, name) {
            (Some(found), _) => Ok(found),
            // The error of the library names those there are.
            (None, name) => Err(core
                .method(name.unwrap_or_default())
                .err()
                .map_or_else(|| Fault::usage("the program has no method"), Fault::from)),
        }
    }
}
