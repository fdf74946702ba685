//! Gives the shared library its name for the dynamic linker, which ends with the number of the interface.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("linux") => println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libarenagrad_c.so.0"),
        Ok("macos") => println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libarenagrad_c.dylib"),
        _ => {}
    }
}
