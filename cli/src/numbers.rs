//! Numbers as text.

/// A number with commas between its thousands: `1,234`.
pub fn grouped_number(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A count in words: `1,438 images`.
pub fn grouped_number_of(n: usize, what: &str) -> String {
    format!("{} {what}", grouped_number(n))
}

#[cfg(test)]
mod tests {
    use super::grouped_number;

    #[test]
    fn thousands_are_apart() {
        assert_eq!([0, 12, 123, 1234, 1_234_567].map(grouped_number), ["0", "12", "123", "1,234", "1,234,567"]);
    }
}
