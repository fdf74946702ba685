//! Pieces of SVG and HTML that reports share: escaped text, round numbers for axes.

/// Escapes `text` for HTML and SVG, inside and outside of quotes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML allows no other control characters.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// About `n` evenly spaced round numbers from 0 to at most `max`.
pub fn round_ticks(max: f64, n: usize) -> Vec<f64> {
    if !(max > 0.0 && max.is_finite()) {
        return vec![0.0];
    }
    let raw = max / n.max(1) as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|&s| s >= raw).unwrap_or(raw);
    (0..=(max / step).floor() as usize).map(|i| i as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_stays_text() {
        assert_eq!(escape("<a href=\"x\">&'\u{1}"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\u{fffd}");
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(round_ticks(10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(round_ticks(7.3, 4), [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(round_ticks(70.0, 5), [0.0, 20.0, 40.0, 60.0]);
        assert_eq!(round_ticks(30.0, 5), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(round_ticks(0.5, 1), [0.0, 0.5]);
        assert_eq!([0, 1].map(|n| round_ticks(10.0, n)), [[0.0, 10.0], [0.0, 10.0]]);
        for none in [0.0, -5.0, f64::INFINITY, f64::NAN] {
            assert_eq!(round_ticks(none, 4), [0.0], "{none}");
        }
    }
}
