//! A digest of weights, to compare runs.

use super::agreement::Fingerprint;
use crate::session::Program;

/// A digest of the names, types and bytes of all params, in the graph's order: equal for equal weights, on every
/// machine. It tells accidents, not attacks.
pub fn weights_hash(program: &Program) -> u64 {
    let mut digest = Fingerprint::new();
    for (b, bytes) in program.persistent().filter(|(b, _)| b.is_weight()) {
        digest.add(format!("{} {}{}", b.name, b.dtype, b.dims).as_bytes());
        digest.add(bytes);
    }
    digest.finish()
}
