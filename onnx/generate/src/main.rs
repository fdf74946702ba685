//! Writes `onnx/proto/onnx.rs` from `onnx/proto/onnx.proto`: `cargo run --manifest-path onnx/generate/Cargo.toml`.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    let messages = protox::compile(["onnx.proto"], [&proto])?;
    prost_build::Config::new().disable_comments(["."]).out_dir(&proto).compile_fds(messages)?;
    Ok(())
}
