//! Metrics: lines of JSON, and step times.

mod jsonl;
mod times;

pub use jsonl::Jsonl;
pub use times::Times;
