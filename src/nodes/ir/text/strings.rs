//! Strings in a text: quotes, escapes, and excerpts for messages.

use std::borrow::Cow;

/// A raw string with its escapes resolved, or an error message.
pub(super) fn unescape_string(raw: &str) -> Result<Cow<'_, str>, String> {
    if !raw.contains('\\') {
        return Ok(Cow::Borrowed(raw));
    }
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let mut chars = rest[at + 1..].chars();
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some(c @ ('\\' | '"')) => out.push(c),
            Some('u') => {
                let hex = chars.as_str().strip_prefix('{').and_then(|s| s.split_once('}'));
                let digits = |h: &str| h.len() <= 6 && h.bytes().all(|c| c.is_ascii_hexdigit());
                let code = hex.filter(|h| digits(h.0)).and_then(|h| u32::from_str_radix(h.0, 16).ok());
                match (code.and_then(char::from_u32), hex) {
                    (Some(c), Some((_, after))) => {
                        out.push(c);
                        chars = after.chars();
                    }
                    _ => return Err("\\u takes a character's number in hex: \\u{e9}".to_string()),
                }
            }
            _ => return Err("an escape is one of \\\\ \\\" \\n \\t \\u{…}".to_string()),
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

/// `s` in quotes, with the escapes that [`unescape_string`] resolves.
pub(super) fn quote_string(out: &mut String, s: &str) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// True if `s` needs no quotes after `%` or `@`.
pub(super) fn is_plain_string(s: &str) -> bool {
    let head = s.bytes().next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_');
    head && s.bytes().all(is_name_byte)
}

/// `s`, cut to 60 characters for a message.
pub(super) fn brief_text_string(s: &str) -> Cow<'_, str> {
    match s.char_indices().nth(60) {
        Some((at, _)) => Cow::Owned(format!("{}…", &s[..at])),
        None => Cow::Borrowed(s),
    }
}

pub(super) fn is_name_byte(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c == b'.'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_resolved_or_refused() {
        let long = r"\u{10ffff}\u{0}\u{0000e9}\n\t\\".to_string() + "\\\"";
        assert_eq!(unescape_string(&long).unwrap(), "\u{10ffff}\0é\n\t\\\"");
        let number = r"\u takes a character's number in hex";
        let one = r"an escape is one of \\";
        for (bad, part) in [
            (r"a\u{00000e9}b", number),
            (r"\u{110000}", number),
            (r"\u{d800}", number),
            (r"\u{}", number),
            (r"\u{+e9}", number),
            (r"\u{e9", number),
            (r"\ue9", number),
            (r"\u", number),
            (r"\x41", one),
            (r"a\", one),
            ("\\\u{e9}", one),
        ] {
            assert!(unescape_string(bad).unwrap_err().starts_with(part), "{bad}");
        }
        let hex = format!(r"\u{{{}}}", "0".repeat(1 << 20));
        assert!(unescape_string(&hex).unwrap_err().starts_with(number));
    }

    #[test]
    fn what_is_quoted_comes_back() {
        for s in ["", "a", "\"\\\n\t", "\u{1}\u{7f}\u{9f}é\u{10ffff}"] {
            let mut quoted = String::new();
            quote_string(&mut quoted, s);
            assert_eq!(unescape_string(&quoted[1..quoted.len() - 1]).unwrap(), s);
        }
        assert_eq!(brief_text_string(&"é".repeat(60)), "é".repeat(60));
        assert_eq!(brief_text_string(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
    }
}
