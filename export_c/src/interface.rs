//! What users of the C see: the tensors by name, as macros of the header.

use crate::c_text::{CType, c_type, comment, letters};
use arenagrad::session::{Binding, Role};
use std::collections::BTreeSet;
use std::fmt::Write;

/// A named tensor and its place.
pub struct Named<'a> {
    /// Name, role, type and dimensions.
    pub binding: &'a Binding,
    /// First byte in the arena of the C.
    pub at: usize,
}

/// Whether a name and that of its number of elements are not taken.
fn free(name: &str, taken: &BTreeSet<String>) -> bool {
    !taken.contains(name) && !taken.contains(&format!("{name}_len"))
}

/// The macros of all tensors: a pointer to the first element, and the number of elements.
pub fn macros(name: &str, all: &[Named<'_>]) -> Result<String, String> {
    let mut text = String::new();
    let mut taken = BTreeSet::new();
    for role in [Role::Input, Role::Output, Role::Param, Role::State] {
        for n in all.iter().filter(|n| n.binding.role == role) {
            let b = n.binding;
            let CType { tag, .. } = c_type(b.dtype).map_err(|why| format!("{} {:?}: {why}", b.role.name(), b.name))?;
            let word = match role {
                Role::Input => "in",
                Role::Output => "out",
                role => role.name(),
            };
            let plain = format!("{name}_{word}_{}", letters(&b.name));
            // Names that differ in other characters only get a number.
            let numbered = (2..).map(|k| format!("{plain}_{k}"));
            let Some(own) = std::iter::once(plain.clone()).chain(numbered).find(|n| free(n, &taken)) else {
                continue;
            };
            let dims: Vec<String> = b.dims.iter().map(|d| d.to_string()).collect();
            let (what, dtype, size) = (comment(&b.name), b.dtype, b.dtype.size());
            let _ = writeln!(text, "/* {} {what:?}: {dtype}[{}] */", b.role.name(), dims.join(", "));
            let _ = writeln!(text, "#define {own} ({name}_arena.{tag} + {})", n.at / size);
            let _ = writeln!(text, "#define {own}_len {}", b.bytes / size);
            taken.extend([format!("{own}_len"), own]);
        }
    }
    Ok(text)
}
