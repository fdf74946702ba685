//! Handles: numbers for graphs and programs, and the texts that C owns.
//!
//! Invariants: a number is given once. One that was freed, is of another kind or was never given is an error. What a
//! handle stands for lives while a call uses it, also if another thread frees the handle meanwhile.

use crate::fault::Fault;
use crate::owned::OwnedProgram;
use arenagrad::graph::GraphBuf;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a handle stands for.
#[derive(Clone)]
enum Thing {
    Graph(Arc<GraphBuf>),
    Program(Arc<OwnedProgram>),
}

impl Thing {
    fn name(&self) -> &'static str {
        match self {
            Thing::Graph(_) => "graph",
            Thing::Program(_) => "program",
        }
    }
}

/// A place for a thing. Its generation counts the things that it had.
struct Slot {
    generation: u32,
    thing: Option<Thing>,
}

/// All handles. A number is the slot's generation and, in its lower half, the slot's index plus one.
struct Handles {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

static HANDLES: Mutex<Handles> = Mutex::new(Handles { slots: Vec::new(), free: Vec::new() });

/// Texts that C owns, by address.
static TEXTS: Mutex<BTreeMap<usize, CString>> = Mutex::new(BTreeMap::new());

/// The lock. A panic leaves nothing half done behind it: each change is one assignment.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handles {
    fn add(&mut self, thing: Thing) -> Result<u64, Fault> {
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                let at = u32::try_from(self.slots.len()).ok().filter(|&at| at < u32::MAX);
                let at = at.ok_or_else(|| Fault::usage("there are too many handles: free those that are not used"))?;
                self.slots.push(Slot { generation: 0, thing: None });
                at
            }
        };
        let slot = &mut self.slots[at as usize];
        slot.generation += 1;
        slot.thing = Some(thing);
        Ok(u64::from(slot.generation) << 32 | u64::from(at + 1))
    }

    /// The slot of `id`, a handle of a `what` that is not freed.
    fn find(&mut self, what: &str, id: u64) -> Result<(u32, &mut Slot), Fault> {
        let (generation, at) = ((id >> 32) as u32, (id as u32).wrapping_sub(1));
        let unknown = || Fault::usage(format!("{what} {id:#x} is no handle of this library"));
        let slot = self.slots.get_mut(at as usize).filter(|s| (1..=s.generation).contains(&generation));
        let slot = slot.ok_or_else(|| if id == 0 { Fault::usage(format!("{what} is zero")) } else { unknown() })?;
        match &slot.thing {
            Some(thing) if slot.generation == generation => match thing.name() == what {
                true => Ok((at, slot)),
                false => Err(Fault::usage(format!("{what} {id:#x} is a {}", thing.name()))),
            },
            _ => Err(Fault::usage(format!("{what} {id:#x} was freed"))),
        }
    }

    fn remove(&mut self, what: &str, id: u64) -> Result<Option<Thing>, Fault> {
        let (at, slot) = self.find(what, id)?;
        let (thing, last) = (slot.thing.take(), slot.generation == u32::MAX);
        // A slot whose numbers are used up is left behind.
        if !last {
            self.free.push(at);
        }
        Ok(thing)
    }
}

/// A handle of `graph`.
pub fn add_graph(graph: GraphBuf) -> Result<u64, Fault> {
    locked(&HANDLES).add(Thing::Graph(Arc::new(graph)))
}

/// A handle of `program`.
pub fn add_program(program: OwnedProgram) -> Result<u64, Fault> {
    locked(&HANDLES).add(Thing::Program(Arc::new(program)))
}

/// The graph of a handle.
pub fn graph(id: u64) -> Result<Arc<GraphBuf>, Fault> {
    match &locked(&HANDLES).find("graph", id)?.1.thing {
        Some(Thing::Graph(graph)) => Ok(Arc::clone(graph)),
        _ => Err(Fault::usage("graph is none")),
    }
}

/// The program of a handle.
pub fn program(id: u64) -> Result<Arc<OwnedProgram>, Fault> {
    match &locked(&HANDLES).find("program", id)?.1.thing {
        Some(Thing::Program(program)) => Ok(Arc::clone(program)),
        _ => Err(Fault::usage("program is none")),
    }
}

/// Ends a handle of a `what`, a graph or a program. A call that uses it goes on.
pub fn free(what: &str, id: u64) -> Result<(), Fault> {
    // What it stood for is dropped after the lock is: a program joins its threads.
    let thing = locked(&HANDLES).remove(what, id)?;
    drop(thing);
    Ok(())
}

/// A text that C owns from now on.
pub fn give_text(text: CString) -> *mut c_char {
    let at = text.as_ptr();
    locked(&TEXTS).insert(at.addr(), text);
    at.cast_mut()
}

/// Frees a text that [`give_text`] gave; NULL is none.
pub fn free_text(text: *const c_char) -> Result<(), Fault> {
    if text.is_null() || locked(&TEXTS).remove(&text.addr()).is_some() {
        return Ok(());
    }
    Err(Fault::usage(format!("{text:p} is no text of this library, or was freed")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arenagrad::prelude::*;

    fn small() -> GraphBuf {
        let g = Builder::new("g");
        g.finish([(g.input("x", [1], DType::F32) + 1.0).named("y")]).unwrap()
    }

    #[test]
    fn freed_handles_are_refused_for_good() {
        let message = |r: Result<Arc<GraphBuf>, Fault>| r.unwrap_err().message;
        let first = add_graph(small()).unwrap();
        assert!(graph(first).is_ok());
        assert_eq!(program(first).err().unwrap().message, format!("program {first:#x} is a graph"));
        free("graph", first).unwrap();
        let second = add_graph(small()).unwrap();
        assert_ne!(first, second);
        assert_eq!(message(graph(first)), format!("graph {first:#x} was freed"));
        assert!(free("graph", first).is_err() && free("program", second).is_err());
        assert_eq!(message(graph(0)), "graph is zero");
        for wrong in [1 << 40, u64::MAX, second + (1 << 32), second & 0xffff_ffff] {
            assert_eq!(message(graph(wrong)), format!("graph {wrong:#x} is no handle of this library"));
        }
        free("graph", second).unwrap();
    }

    /// A slot whose generations are used up gives no number a second time.
    #[test]
    fn numbers_are_not_given_twice() {
        let mut h = Handles { slots: Vec::new(), free: Vec::new() };
        let thing = Thing::Graph(Arc::new(small()));
        let id = h.add(thing.clone()).unwrap();
        h.slots[0].generation = u32::MAX;
        assert!(h.find("graph", id).is_err());
        h.remove("graph", u64::from(u32::MAX) << 32 | 1).unwrap();
        assert_eq!(h.add(thing).unwrap(), 1 << 32 | 2);
    }

    #[test]
    fn texts_are_freed_once() {
        let text = give_text(c"text".to_owned());
        free_text(text).unwrap();
        assert!(free_text(text).unwrap_err().message.contains("was freed"));
        free_text(std::ptr::null()).unwrap();
    }
}
