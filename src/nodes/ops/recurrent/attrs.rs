//! Attributes of recurrences: which optional operands there are.

use crate::nodes::ir::attr_types::attrs;

attrs! {
    /// Attributes of `selective_scan`. Those of the other ops of the scan begin with them.
    pub struct SelectiveScanAttrs {
        /// Whether D is an operand.
        d: bool,
        /// Whether h_0 is an operand.
        h0: bool,
    }
}

attrs! {
    /// Attributes of `selective_scan_backward`.
    pub struct SelectiveScanBackwardAttrs {
        /// Whether D is an operand.
        d: bool,
        /// Whether h_0 is an operand.
        h0: bool,
        /// Whether the gradient of the last state is an operand.
        last: bool,
    }
}

attrs! {
    /// Attributes of `selective_scan_keep`.
    pub struct SelectiveScanKeepAttrs {
        /// Whether D is an operand.
        d: bool,
        /// Whether h_0 is an operand.
        h0: bool,
        /// Steps between two states that are kept, at least 1.
        every: i64,
    }
}

attrs! {
    /// Attributes of `selective_scan_kept_backward`.
    pub struct SelectiveScanKeptBackwardAttrs {
        /// Whether D is an operand.
        d: bool,
        /// Whether h_0 is an operand.
        h0: bool,
        /// Whether the gradient of the last state is an operand.
        last: bool,
        /// Steps between two states that are kept, at least 1.
        every: i64,
    }
}

attrs! {
    /// Attributes of `gated_delta_net`. Those of its backward op begin with them.
    pub struct GatedDeltaAttrs {
        /// Whether S_0 is an operand.
        state: bool,
    }
}

attrs! {
    /// Attributes of `gated_delta_net_backward`.
    pub struct GatedDeltaBackwardAttrs {
        /// Whether S_0 is an operand.
        state: bool,
        /// Whether the gradient of the last state is an operand.
        last: bool,
    }
}
