//! Attributes of matrix products.

use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ops::matmul::activation::{ActGrad, Activation};

attrs! {
    /// Which operands of a product have their last two axes exchanged first.
    ///
    /// Invariant: the attributes of every op that holds a product of its first two operands begin with these. So
    /// [`MatmulAttrs::of`] reads them from fused products and fused weight updates too.
    pub struct MatmulAttrs {
        /// Whether a is transposed.
        ta: bool,
        /// Whether b is transposed.
        tb: bool,
    }
}

attrs! {
    /// Attributes of `matmul_bias_act`.
    pub struct MatmulBiasActAttrs {
        /// Whether a is transposed.
        ta: bool,
        /// Whether b is transposed.
        tb: bool,
        /// The activation of the biased product.
        act: Activation,
    }
}

attrs! {
    /// Attributes of `matmul_dact`.
    pub struct MatmulDactAttrs {
        /// Whether a is transposed.
        ta: bool,
        /// Whether b is transposed.
        tb: bool,
        /// The act-grad epilogue.
        by: ActGrad,
    }
}

attrs! {
    /// Attributes of `lora_matmul`.
    pub struct LoraMatmulAttrs {
        /// The factor of the low-rank product.
        scale: f64,
        /// Whether all three weights are transposed.
        transposed: bool,
    }
}

attrs! {
    /// Attributes of `dot_general`: axes, in 0..rank.
    pub struct DotGeneralAttrs {
        /// Batch axes of a.
        batch_a: Vec<i64>,
        /// Batch axes of b, in the order of those of a.
        batch_b: Vec<i64>,
        /// Contracted axes of a.
        contract_a: Vec<i64>,
        /// Contracted axes of b, in the order of those of a.
        contract_b: Vec<i64>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ops::table::OPS;

    #[test]
    fn every_op_that_holds_a_product_begins_with_its_flags() {
        let products: Vec<&str> = OPS.iter().filter(|d| d.name.starts_with("matmul")).map(|d| d.name).collect();
        assert!(products.len() >= 6, "{products:?}");
        for def in OPS.iter().filter(|d| products.contains(&d.name)) {
            assert!(def.attrs.starts_with(MatmulAttrs::FIELDS), "{}", def.name);
        }
    }
}
