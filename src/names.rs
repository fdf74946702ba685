//! Names, patterns of names, and what to say of one that nothing answers to.

/// Names that a message lists at most.
const MOST: usize = 24;

/// Whether `name` is what `pattern` says: itself, or, with a `*` (the first counts), what begins and ends like that.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        None => pattern == name,
    }
}

/// `names` in a row; of many, the first and how many more there are.
pub fn list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut names = names.into_iter();
    let mut first: Vec<&str> = names.by_ref().take(MOST).collect();
    let more = match names.count() {
        0 => String::new(),
        n => format!("{n} more"),
    };
    if !more.is_empty() {
        first.push(&more);
    }
    first.join(", ")
}

/// What a message says of `wanted`, a name or a pattern that is none of `names`: which there are, and the nearest.
pub fn instead<'n>(wanted: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
    let near = match wanted.split_once('*') {
        Some((start, end)) => nearest_part(start, end, names.clone()),
        None => nearest(wanted, names.clone()),
    };
    format!("; there are {}{near}", list(names))
}

/// Edits that make `word` another name rather than a slip of it.
fn limit(word: &str) -> usize {
    (word.len() / 3).clamp(1, 3)
}

/// "; did you mean …?", if one of `names` is near `word`.
pub fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> String {
    if word.len() > 40 {
        return String::new();
    }
    // A name whose length differs by more than the limit is no candidate; looking at many names stays cheap.
    let near = names.filter(|n| n.len().abs_diff(word.len()) <= limit(word));
    let best = near.map(|n| (distance(word.as_bytes(), n.as_bytes()), n)).min_by_key(|(d, _)| *d);
    best.filter(|(d, _)| *d <= limit(word)).map_or(String::new(), |(_, n)| format!("; did you mean {n}?"))
}

/// As [`nearest`], of a pattern: the name whose first and last bytes are near its two parts.
fn nearest_part<'n>(start: &str, end: &str, names: impl Iterator<Item = &'n str>) -> String {
    if start.len() + end.len() > 40 {
        return String::new();
    }
    let apart = |n: &str| {
        let n = n.as_bytes();
        let (head, tail) = (&n[..start.len().min(n.len())], &n[n.len().saturating_sub(end.len())..]);
        distance(start.as_bytes(), head) + distance(end.as_bytes(), tail)
    };
    let most = limit(start).min(start.len()) + limit(end).min(end.len());
    let best = names.map(|n| (apart(n), n)).min_by_key(|(d, _)| *d);
    best.filter(|(d, _)| *d <= most).map_or(String::new(), |(_, n)| format!("; did you mean {n}?"))
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect(), vec![0; b.len() + 1]];
    for i in 1..=a.len() {
        let [older, old, new] = &mut rows;
        new[0] = i;
        for j in 1..=b.len() {
            let swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            let replaced = old[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            new[j] = replaced.min(old[j] + 1).min(new[j - 1] + 1);
            if swap {
                new[j] = new[j].min(older[j - 2] + 1);
            }
        }
        rows.rotate_left(1);
    }
    rows[1][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_star_stands_for_anything() {
        assert!(
            matches("fc1.*", "fc1.weight") && matches("*.bias", "fc1.bias") && matches("*", "") && matches("a", "a")
        );
        assert!(!matches("fc1.*", "fc2.weight") && !matches("a*a", "a") && !matches("a", "ab"));
    }

    #[test]
    fn near_names_are_told() {
        let names = || ["fc1.weight", "fc1.bias", "fc2.weight"].into_iter();
        assert!(instead("fc1.wieght", names()).ends_with("; did you mean fc1.weight?"));
        assert!(instead("fx2.*", names()).ends_with("; did you mean fc2.weight?"));
        assert!(instead("*.bais", names()).ends_with("; did you mean fc1.bias?"));
        assert_eq!(instead("typo.*", names()), "; there are fc1.weight, fc1.bias, fc2.weight");
        let many: Vec<String> = (0..100).map(|i| format!("layer{i}")).collect();
        assert!(instead("x", many.iter().map(String::as_str)).ends_with("layer23, 76 more"));
    }
}
