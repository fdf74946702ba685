//! Ops that had another name before release 0.1.0. The error for an old name gives the new one.

/// Old and new names.
const RENAMED: &[(&str, &str)] = &[
    ("act_slope", "act_with_grad"),
    ("fence", "optimization_barrier"),
    ("gelu_slope", "gelu_grad"),
    ("gelu_tanh_slope", "gelu_tanh_grad"),
    ("matmul_gate", "matmul_dact"),
    ("silu_slope", "silu_grad"),
];

/// The name of the op that was called `old`.
pub fn replacement_name(old: &str) -> Option<&'static str> {
    RENAMED.iter().find(|r| r.0 == old).map(|r| r.1)
}

#[cfg(test)]
mod tests {
    use super::RENAMED;
    use crate::nodes::ir::text::parse;

    #[test]
    fn old_names_of_ops_say_the_new_ones() {
        for (old, new) in RENAMED {
            let text = format!("graph @g {{\n  %x = input : f32[2]\n  %y = {old} %x : f32[2]\n  return y=%y\n}}\n");
            let want = format!("3:8: there is no op {old}; it is called {new} now");
            assert_eq!(parse(&text).unwrap_err().to_string(), want);
            let text = text.replace(old, new);
            assert!(!parse(&text).is_err_and(|e| e.to_string().contains("there is no op")), "{new} is no op");
        }
    }
}
