//! Writes `capi/include/arenagrad.h` from the source in `capi/src`: `cargo run --manifest-path
//! capi/generate/Cargo.toml`. With `-- --check` it compares them, and exits with 1 if they differ.

use cbindgen::{Builder, Config};
use std::error::Error;
use std::fs;
use std::path::Path;

/// The files of the interface, in the order of the header.
const FILES: [&str; 9] = [
    "kinds.rs",
    "structs.rs",
    "errors.rs",
    "graphs.rs",
    "programs.rs",
    "tensors.rs",
    "files.rs",
    "latency.rs",
    "order.rs",
];

fn main() -> Result<(), Box<dyn Error>> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (src, path) = (own.join("../src"), own.join("../include/arenagrad.h"));
    let config = Config::from_file(own.join("cbindgen.toml"))?;
    let builder = FILES.iter().fold(Builder::new().with_config(config), |b, file| b.with_src(src.join(file)));
    let mut header = Vec::new();
    builder.generate()?.write(&mut header);
    let header = String::from_utf8(header)?;
    // cbindgen leaves out what it cannot read, and says nothing.
    for file in fs::read_dir(&src)? {
        for after in fs::read_to_string(file?.path())?.split("extern \"C\" fn ").skip(1) {
            let name = after.split('(').next().unwrap_or_default();
            if !header.contains(&format!("{name}(")) {
                return Err(format!("{name} is not in the header").into());
            }
        }
    }
    if std::env::args().any(|word| word == "--check") {
        if fs::read_to_string(&path)? != header {
            return Err("capi/include/arenagrad.h is not what capi/src says: run this without --check".into());
        }
        return Ok(());
    }
    fs::write(path, header)?;
    Ok(())
}
