//! Ops of older versions. The error for an old name says what to write now.

/// Old and new names.
const RENAMED: &[(&str, &str)] = &[
    ("act_slope", "act_with_grad"),
    ("fence", "optimization_barrier"),
    ("gelu_slope", "gelu_grad"),
    ("gelu_tanh_slope", "gelu_tanh_grad"),
    ("matmul_gate", "matmul_dact"),
    ("silu_slope", "silu_grad"),
];

/// Ops that methods of the same names write as other ops, and what these are.
const FORMULAS: &[(&str, &str)] = &[
    ("adaptive_avg_pool1d", "avg_pool2d over [N, C, 1, L]"),
    ("adaptive_avg_pool2d", "avg_pool2d along one axis at a time"),
    ("adaptive_avg_pool3d", "avg_pool2d along one axis at a time"),
    ("adaptive_max_pool1d", "max_pool2d over [N, C, 1, L]"),
    ("adaptive_max_pool2d", "max_pool2d along one axis at a time"),
    ("adaptive_max_pool3d", "max_pool2d along one axis at a time"),
    ("avg_pool1d", "avg_pool2d over [N, C, 1, L]"),
    ("avg_pool3d", "avg_pool2d over [N, C·D, H, W], then over [N, C, D, H·W]"),
    ("max_pool1d", "max_pool2d over [N, C, 1, L]"),
    ("max_pool3d", "max_pool2d over [N, C·D, H, W], then over [N, C, D, H·W]"),
    ("min_pool1d", "neg, max_pool2d over [N, C, 1, L], neg"),
    ("min_pool2d", "neg, max_pool2d, neg"),
    ("min_pool3d", "neg, max_pool2d over [N, C·D, H, W], then over [N, C, D, H·W], neg"),
    ("sum_pool1d", "sum_pool2d over [N, C, 1, L]"),
    ("sum_pool3d", "sum_pool2d over [N, C·D, H, W], then over [N, C, D, H·W]"),
];

/// The end of a message about the op `old` of an older version: what to write now.
pub fn instead_of(old: &str) -> Option<String> {
    let find = |list: &[(&str, &'static str)]| list.iter().find(|r| r.0 == old).map(|r| r.1);
    let renamed = find(RENAMED).map(|new| format!("; it is called {new} now"));
    renamed.or_else(|| find(FORMULAS).map(|ops| format!("; write {ops}, as the method {old} does")))
}

#[cfg(test)]
mod tests {
    use super::{FORMULAS, RENAMED};
    use crate::nodes::Builder;
    use crate::nodes::ir::text::parse;

    /// The error of a graph with the op `name`.
    fn error(name: &str) -> Option<String> {
        let text = format!("graph @g {{\n  %x = input : f32[2]\n  %y = {name} %x : f32[2]\n  return y=%y\n}}\n");
        parse(&text).err().map(|e| e.to_string())
    }

    #[test]
    fn old_names_of_ops_say_the_new_ones() {
        for (old, new) in RENAMED {
            assert_eq!(error(old).unwrap(), format!("3:8: there is no op {old}; it is called {new} now"));
            assert!(error(new).is_none_or(|e| !e.contains("there is no op")), "{new} is no op");
        }
    }

    #[test]
    fn names_of_formulas_say_what_to_write() {
        for (old, ops) in FORMULAS {
            let want = format!("; write {ops}, as the method {old} does");
            assert_eq!(error(old).unwrap(), format!("3:8: there is no op {old}{want}"));
            let g = Builder::new("g");
            g.op(old, &[], &[]);
            assert_eq!(g.error().unwrap().message, format!("there is no op {old:?}{want}"));
            for op in ops.split([' ', ',']).filter(|w| w.contains("_pool") || *w == "neg") {
                assert!(error(op).is_none_or(|e| !e.contains("there is no op")), "{op} is no op");
            }
        }
    }
}
