//! arenagrad as a WebAssembly module without imports: `web/arenagrad.mjs` calls it from browsers and node.
//!
//! The page and the module share the module's memory. A call takes numbers and, in the *request*, bytes that the page
//! wrote; it returns a number and leaves bytes in the *reply*. A call that fails returns a negative number, and the
//! reply says why. Tensors are not copied: the page reads and writes them in the arena, at the places that `tensors`
//! tells.
//!
//! Invariant: no call dereferences an address of the page, so a wrong call is an error and breaks no memory.

mod compile;
mod exports;
mod module;
mod reply;
mod weights;
