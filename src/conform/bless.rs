//! Files that hold what tests have found before: expectations, plans, pages made from tables.
//!
//! Invariant: a test writes such a file only when the variable `BLESS` is 1.

use std::path::Path;

/// True if the caller asks tests to write the files that they compare with: the variable `BLESS` is 1.
pub fn is_blessing() -> bool {
    std::env::var_os("BLESS").is_some_and(|v| v == "1")
}

/// Writes what a test has `found` to its file, if [`is_blessing`]. True if it did.
///
/// # Errors
///
/// The file cannot be written.
pub fn bless(path: &Path, found: impl AsRef<[u8]>) -> std::io::Result<bool> {
    if is_blessing() {
        std::fs::write(path, found)?;
    }
    Ok(is_blessing())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variable is read, not set: a test that set it would reach the tests beside it.
    #[test]
    fn a_file_is_written_only_when_asked() {
        let path = std::env::temp_dir().join(format!("blessed-{}", std::process::id()));
        assert_eq!(bless(&path, "found").unwrap(), is_blessing());
        assert_eq!(path.exists(), is_blessing());
        let _ = std::fs::remove_file(&path);
        if is_blessing() {
            assert!(bless(Path::new("/no/such/folder/file"), "found").is_err());
        }
    }
}
