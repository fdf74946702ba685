//! Conformance cases of op definitions.

use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Domain;

/// A conformance case: operand types, attributes, and the ranges of the operands' numbers.
///
/// `args` is in the text form: `"f[3,4] c[4]"`. The case runs in f32 and in f64: `f` is that type, and `c` the complex
/// type with parts of that type. `attrs` is in the text form: `"ta=false tb=true"`. If there are more operands than
/// `domains`, the rest have the last domain.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Case {
    /// Operand types.
    pub args: &'static str,
    /// Attributes.
    pub attrs: &'static str,
    /// Domains of the operands.
    pub domains: &'static [Domain],
}

impl Case {
    /// A case.
    pub const fn new(args: &'static str, attrs: &'static str, domains: &'static [Domain]) -> Case {
        Case { args, attrs, domains }
    }

    /// The float types that the case stands for: f32 and f64, or `otherwise` if no operand says `f` or `c`.
    pub fn floats(&self, otherwise: &'static [DType]) -> &'static [DType] {
        if has_generic_types(self.args) { &[DType::F32, DType::F64] } else { otherwise }
    }
}

/// Whether operand types in the text form of a [`Case`] say `f` or `c`, which stand for several types.
pub fn has_generic_types(args: &str) -> bool {
    args.split_whitespace().any(|a| a.starts_with("f[") || a.starts_with("c["))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_without_general_types_runs_in_the_given_ones() {
        let floats = |args| Case { args, attrs: "", domains: &[] }.floats(&[DType::F64]);
        for args in ["f[2]", "i32[3] c[2,2]"] {
            assert_eq!(floats(args), [DType::F32, DType::F64], "{args}");
        }
        for args in ["", "f16[2]", "i32[3] c64[2,2]"] {
            assert_eq!(floats(args), [DType::F64], "{args}");
        }
    }
}
