//! On macOS, tells the linker that the interpreter brings Python's functions.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
