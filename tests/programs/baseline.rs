//! What plans are compared with: program order, updates where the program has them (at the end), next values in their
//! leaves, no other result in place, and XLA's heap: each buffer in the smallest free chunk that holds it, larger
//! buffers first or longer-lived ones first, whichever is lower.

use arenagrad::tools::sched::instructions::Instructions;
use arenagrad::tools::sched::intervals::intervals;
use arenagrad::tools::sched::pack::{greedy, lines};
use arenagrad::tools::sched::{alias, planned_offsets};

/// Bytes of the arena, and lines alive at once.
pub fn baseline(code: &Instructions) -> (usize, u64) {
    let mut code = code.clone();
    let alias = alias::settle_leaves_only(&mut code);
    let live = intervals(&code, &alias).expect("lifetimes");
    let (_, bytes) =
        planned_offsets(&code, &alias, &live, |v| lines::pack_lines_with(v, greedy::choose_as_xla)).expect("a plan");
    (bytes, live.max_live())
}
