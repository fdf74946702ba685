//! The networks that `train` trains.

pub mod chargpt;
pub mod convnet;
pub mod onnx_net;

/// Name of the scalar output of each training graph.
pub const LOSS: &str = "loss";
/// Name of the output of each inference graph.
pub const LOGITS: &str = "logits";
