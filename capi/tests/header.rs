//! The header has all functions of the source, with as many arguments.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

/// The number of arguments in a list that opens with `(`.
fn arguments(list: &str) -> usize {
    let list = list.split_once('(').unwrap().1.split_once(')').unwrap().0;
    list.split(',').filter(|a| !a.trim().is_empty() && a.trim() != "void").count()
}

#[test]
fn all_functions_are_in_the_header() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(own.join("include/arenagrad.h")).unwrap();
    let mut found = 0;
    for file in std::fs::read_dir(own.join("src")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for after in text.split("extern \"C\" fn ").skip(1) {
            let name = after.split('(').next().unwrap();
            let declared = header.split(&format!(" {name}(")).nth(1).or(header.split(&format!("*{name}(")).nth(1));
            let declared = format!("({}", declared.unwrap_or_else(|| panic!("{name} is not in the header")));
            assert_eq!(arguments(after), arguments(&declared), "{name}");
            found += 1;
        }
    }
    assert_eq!(found, header.matches("ag_status ag_").count() + 3, "a function of the header is not in the source");
}
