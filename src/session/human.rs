//! Numbers of bytes as text for people.

/// A size for people: `1.5 KiB`.
pub fn human(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut x, mut unit) = (bytes as f64, 0);
    while x >= 1024.0 && unit + 1 < units.len() {
        x /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{x:.1} {}", units[unit]) }
}
