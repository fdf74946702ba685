//! Names, patterns of names, and messages for unknown names.

/// The most names that a message lists.
const MAX_LISTED: usize = 24;

/// True if `pattern` matches `name`. The first `*` of a pattern matches any characters; further ones match themselves.
pub fn matches_name(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        None => pattern == name,
    }
}

/// `names` separated by commas. Of many, the first 24 and the number of the others.
pub fn list_names<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut names = names.into_iter();
    let mut first: Vec<&str> = names.by_ref().take(MAX_LISTED).collect();
    let more = match names.count() {
        0 => String::new(),
        n => format!("{n} more"),
    };
    if !more.is_empty() {
        first.push(&more);
    }
    first.join(", ")
}

/// The end of a message about `wanted`, a name or a pattern that matches none of `names`: the names, and the nearest
/// one.
pub fn list_names_instead<'n>(wanted: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
    let near = match wanted.split_once('*') {
        Some((start, end)) => nearest_name_part(start, end, names.clone()),
        None => nearest_name(wanted, names.clone()),
    };
    match names.clone().next() {
        None => "; there are none".to_string(),
        Some(_) => format!("; there are {}{near}", list_names(names)),
    }
}

/// The most edits between a name and its misspelling `word`.
fn limit_of_name_edits(word: &str) -> usize {
    (word.len() / 3).clamp(1, 3)
}

/// `"; did you mean …?"` with the nearest of `names`, if one is near `word`; else empty.
pub fn nearest_name<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> String {
    if word.len() > 40 {
        return String::new();
    }
    // Names of very different length are skipped, which keeps the search cheap.
    let near = names.filter(|n| n.len().abs_diff(word.len()) <= limit_of_name_edits(word));
    let best = near.map(|n| (name_distance(word.as_bytes(), n.as_bytes()), n)).min_by_key(|(d, _)| *d);
    best.filter(|(d, _)| *d <= limit_of_name_edits(word)).map_or(String::new(), |(_, n)| format!("; did you mean {n}?"))
}

/// As [`nearest_name`], for a pattern `start*end`: the name whose start and end are nearest.
fn nearest_name_part<'n>(start: &str, end: &str, names: impl Iterator<Item = &'n str>) -> String {
    if start.len() + end.len() > 40 {
        return String::new();
    }
    let apart = |n: &str| {
        let n = n.as_bytes();
        let (head, tail) = (&n[..start.len().min(n.len())], &n[n.len().saturating_sub(end.len())..]);
        name_distance(start.as_bytes(), head) + name_distance(end.as_bytes(), tail)
    };
    let most = limit_of_name_edits(start).min(start.len()) + limit_of_name_edits(end).min(end.len());
    let best = names.map(|n| (apart(n), n)).min_by_key(|(d, _)| *d);
    best.filter(|(d, _)| *d <= most).map_or(String::new(), |(_, n)| format!("; did you mean {n}?"))
}

/// Edit distance with swaps of neighbours (optimal string alignment; Damerau, 1964).
fn name_distance(a: &[u8], b: &[u8]) -> usize {
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
    fn the_first_star_matches_any_characters() {
        assert!(
            matches_name("fc1.*", "fc1.weight")
                && matches_name("*.bias", "fc1.bias")
                && matches_name("*", "")
                && matches_name("a", "a")
        );
        assert!(!matches_name("fc1.*", "fc2.weight") && !matches_name("a*a", "a") && !matches_name("a", "ab"));
    }

    #[test]
    fn near_names_are_told() {
        let names = || ["fc1.weight", "fc1.bias", "fc2.weight"].into_iter();
        assert!(list_names_instead("fc1.wieght", names()).ends_with("; did you mean fc1.weight?"));
        assert!(list_names_instead("fx2.*", names()).ends_with("; did you mean fc2.weight?"));
        assert!(list_names_instead("*.bais", names()).ends_with("; did you mean fc1.bias?"));
        assert_eq!(list_names_instead("typo.*", names()), "; there are fc1.weight, fc1.bias, fc2.weight");
        let many: Vec<String> = (0..100).map(|i| format!("layer{i}")).collect();
        assert!(list_names_instead("x", many.iter().map(String::as_str)).ends_with("layer23, 76 more"));
    }

    #[test]
    fn only_the_first_star_is_one() {
        assert!(matches_name("a*b*", "axb*") && !matches_name("a*b*", "axbc") && !matches_name("ab*ba", "aba"));
    }

    #[test]
    fn lists_are_cut_off_behind_24_names() {
        let names: Vec<String> = (0..25).map(|i| format!("n{i}")).collect();
        let list = |n: usize| list_names(names[..n].iter().map(String::as_str));
        assert_eq!((list(0), list(2)), (String::new(), "n0, n1".to_string()));
        assert!(list(24).ends_with("n22, n23") && list(25).ends_with("n23, 1 more"));
        assert_eq!(list_names_instead("x", [].into_iter()), "; there are none");
    }

    #[test]
    fn distances_count_edits_and_swaps_of_neighbours() {
        let pairs = [
            ("kitten", "sitting", 3),
            ("ab", "ba", 1),
            ("abcd", "acbd", 1),
            ("ab", "ax", 1),
            // A swap whose letters are apart is two edits and a third.
            ("ca", "abc", 3),
            ("", "abc", 3),
            ("abc", "", 3),
            ("same", "same", 0),
        ];
        for (a, b, wanted) in pairs {
            assert_eq!(name_distance(a.as_bytes(), b.as_bytes()), wanted, "{a} {b}");
        }
    }

    #[test]
    fn a_third_of_the_letters_may_be_wrong() {
        let near = |word: &str, name: &str| !nearest_name(word, [name].into_iter()).is_empty();
        assert!(near("weight", "wxyght") && !near("weight", "wxyzht"));
        assert!(near("weight", "weig") && !near("weight", "wei"));
        // One letter at least, and three at most.
        assert!(near("ab", "abc") && !near("ab", "abcd"));
        assert!(near("abcdefghijkl", "abcdefghixyz") && !near("abcdefghijkl", "abcdefghwxyz"));
        // Long words are compared with nothing.
        let long = "a".repeat(41);
        assert!(near(&long[..40], &long[..39]) && !near(&long, &long[..40]));
        assert_eq!(nearest_name("loss", ["lass", "lose"].into_iter()), "; did you mean lass?");
        assert_eq!(nearest_name("loss", ["lase", "lose"].into_iter()), "; did you mean lose?");
    }

    #[test]
    fn both_ends_of_a_pattern_may_be_wrong() {
        let near = |start: &str, end: &str, name: &str| !nearest_name_part(start, end, [name].into_iter()).is_empty();
        assert!(near("ab", "yz", "axxxyw") && !near("ab", "yz", "cxxxyw"));
        // An end that is not there has no edits to give.
        assert!(near("a", "", "b") && !near("ab", "", "cx") && !near("", "ab", "cx"));
        assert!(near("weight", "", "weigh") && near("", "bias", "ias"));
        let (start, end) = ("s".repeat(20), "e".repeat(21));
        let name = format!("{start}.{end}");
        assert!(near(&start, &end[..20], &name) && !near(&start, &end, &name));
        let names = ["fc1.weight", "fc2.weight"];
        assert_eq!(nearest_name_part("fc2", "weigt", names.into_iter()), "; did you mean fc2.weight?");
    }
}
