//! The attributes of attention, packed or not, and of rotary embeddings.

use crate::nodes::ir::attr_types::{attrs, choice};

choice! {
    /// The order of axes of q, k, v and y.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Layout {
        /// `[batch, heads, sequence, width]`.
        #[default]
        Bhsd = "bhsd",
        /// `[batch, sequence, heads, width]`.
        Bshd = "bshd",
        /// `[batch, sequence, heads·width]`.
        Bsd = "bsd",
    }
}

choice! {
    /// Which keys a query sees, by their positions.
    pub enum Mask {
        /// All keys.
        None = "none",
        /// No later key.
        Causal = "causal",
        /// No later key, and only the `window` keys before the query's own.
        Window = "window",
    }
}

choice! {
    /// Which elements of a head make a pair.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Pairing {
        /// i and i + n/2 of the n that are rotated (GPT-NeoX, Llama as in its common ports).
        #[default]
        Halves = "halves",
        /// 2i and 2i + 1 (GPT-J, the paper, SAM 2).
        Neighbours = "neighbours",
    }
}

/// Declares attributes that begin with the options of attention.
macro_rules! attention_attrs {
    ($(#[$meta:meta])* $name:ident { $($more:tt)* }) => {
        attrs! {
            $(#[$meta])*
            pub struct $name {
                /// The order of axes.
                layout: Layout,
                /// Heads of q.
                heads: i64,
                /// Heads of k and v.
                kv_heads: i64,
                /// Which keys a query sees.
                mask: Mask,
                /// Earlier keys that a query sees; 0 unless the mask is a window.
                window: i64,
                /// Later keys that a query sees; 0 unless the mask is a window.
                ahead: i64,
                /// Whether query i stands at key i. Otherwise both sequences end together.
                top_left: bool,
                /// The factor of the scores; 0 means 1/√width.
                scale: f64,
                /// The softcap; 0 for none.
                softcap: f64,
                /// Whether one of the operands is a mask of keys.
                padding: bool,
                /// Whether one of the operands is a bias of the scores.
                bias: bool,
                /// The part of the probabilities that is dropped.
                dropout: f64,
                /// Tells the draws of one op from those of another.
                stream: i64,
                $($more)*
            }
        }
    };
}

attention_attrs! {
    /// Attributes of a forward op. Those of a backward op begin with them, so this reads its options too.
    AttentionAttrs {}
}

attention_attrs! {
    /// Attributes of a backward op.
    AttentionBackwardAttrs {
        /// Whether the log-sum-exp has a gradient, which is an operand then.
        dlse: bool,
    }
}

impl AttentionAttrs {
    /// The attributes of the backward op.
    pub fn backward(&self, dlse: bool) -> AttentionBackwardAttrs {
        let AttentionAttrs { layout, heads, kv_heads, mask, window, ahead, top_left, scale, softcap, .. } = *self;
        let AttentionAttrs { padding, bias, dropout, stream, .. } = *self;
        AttentionBackwardAttrs {
            layout,
            heads,
            kv_heads,
            mask,
            window,
            ahead,
            top_left,
            scale,
            softcap,
            padding,
            bias,
            dropout,
            stream,
            dlse,
        }
    }
}

attrs! {
    /// Attributes of rotary embeddings.
    pub struct RopeAttrs {
        /// The order of axes of x.
        layout: Layout,
        /// Heads.
        heads: i64,
        /// Which elements of a head make a pair.
        pairing: Pairing,
        /// Whether the angles are negated.
        inverse: bool,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backward_attributes_begin_with_the_forward_ones() {
        assert_eq!(AttentionBackwardAttrs::FIELDS.split_last().map(|f| f.1), Some(AttentionAttrs::FIELDS));
    }
}
