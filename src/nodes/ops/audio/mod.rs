//! Sound: short-time Fourier transforms, mel filters, and the log-mel spectrum, which is an op.
//!
//! Signals run along the last axis. [`Var::stft`](crate::nodes::ir::builder::Var::stft) gives `[…, bins, frames]`, as
//! in torch; `log_mel` takes `[…, frames, bins]`, so a `.t()` stands between them.

pub mod attrs;
pub mod log_mel;
pub mod mel_filterbank;
pub mod stft;
pub mod var;
pub mod window_function;
