//! Metrics: lines of JSON, event files of TensorBoard, and step times.

mod event_file;
mod jsonl;
mod times;

pub use event_file::EventFile;
pub use jsonl::Jsonl;
pub use times::Times;
