//! Finds the error messages in a source file that are missing from the messages that a test saw. So tests show that
//! every refusal of a checker has a test case.

/// The messages in `source`, up to its tests, whose longest fixed part `seen` lacks.
pub fn unseen_messages(source: &str, seen: &str) -> Vec<String> {
    let code = source.split("\n#[cfg(test)]").next().unwrap_or(source);
    let lines: Vec<&str> = code.lines().filter(|l| !l.trim_start().starts_with("//")).collect();
    // Code and strings alternate between quotes; the checkers escape none.
    let strings = lines.join("\n").split('"').skip(1).step_by(2).map(String::from).collect::<Vec<_>>();
    strings.into_iter().filter(|s| !seen.contains(fixed_message_text(s))).collect()
}

/// The longest part of a message without values.
fn fixed_message_text(message: &str) -> &str {
    message.split(['{', '}']).step_by(2).max_by_key(|part| part.len()).unwrap_or(message)
}

#[test]
fn a_message_without_a_case_is_found() {
    let source = "//! \"a head\"\nf(\"no {x} of that\");\ng(\"two of {y}\")\n#[cfg(test)]\nh(\"a test\")";
    assert_eq!(unseen_messages(source, "there are two of 7"), ["no {x} of that"]);
    assert!(unseen_messages(source, "two of 7, no 3 of that").is_empty());
}
