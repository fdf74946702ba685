//! Checks of op definitions at compile time.

use crate::nodes::ir::opdef::{OpDef, definition_fault};

/// `a == b`, in a const context.
const fn equal_opdef_names(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Checks op definitions at compile time: a definition that breaks an invariant does not build. For definitions of
/// your own: `const _: () = check_opdefs(&[&MY_OP]);`
#[allow(clippy::panic)] // A const panic is a compile error.
pub const fn check_opdefs(ops: &[&OpDef]) {
    assert!(ops.len() < u16::MAX as usize);
    let mut i = 0;
    while i < ops.len() {
        let r = ops[i];
        if let Some(why) = definition_fault(r) {
            panic!("{}", why);
        }
        assert!(r.is_leaf() || !r.cases.is_empty(), "an op needs conformance cases");
        let mut j = 0;
        while j < i {
            assert!(!equal_opdef_names(ops[j].name, r.name), "two ops have one name");
            j += 1;
        }
        i += 1;
    }
}
