//! Attributes of log-mel spectra.

use crate::nodes::ir::attr_types::{attrs, choice};

choice! {
    /// Over what a log-mel spectrum has one maximum.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum LogMelOver {
        /// Each frame.
        Frame = "frame",
        /// All frames of a clip, which are the last axis but one.
        #[default]
        Clip = "clip",
    }
}

choice! {
    /// How a spectrum is stored along the last axis.
    pub enum SpectrumLayout {
        /// All real parts, then all imaginary parts.
        Block = "block",
        /// Complex numbers.
        Complex = "complex",
    }
}

attrs! {
    /// Attributes of `log_mel`.
    pub struct LogMelAttrs {
        /// The least energy of a mel bin; a smaller one counts as this.
        floor: f64,
        /// How many powers of ten below the maximum a bin may lie; a lower one counts as this.
        range: f64,
        /// Over what the maximum is taken.
        over: LogMelOver,
        /// How the spectrum is stored.
        layout: SpectrumLayout,
    }
}
