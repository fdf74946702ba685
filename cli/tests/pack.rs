//! `pack`: what it prints, what it writes, and how it ends.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Scratch, fails, good, run};

const ROWS: &str = "id,lower,upper,size\na,0,2,4\nb,2,4,4\nc,1,3,8\nd,3,5,8\n";

fn json(args: &[&str]) -> (i32, serde_json::Value) {
    let out = run(&[args, &["--json"]].concat());
    (out.status.code().unwrap(), serde_json::from_slice(&out.stdout).unwrap())
}

#[test]
fn figures_tell_what_was_reached() {
    let s = Scratch::new();
    let f = s.file("four.csv", ROWS);
    let (code, v) = json(&["pack", &f]);
    assert_eq!(code, 0);
    assert_eq!((v["solved"].as_bool(), v["height"].as_u64(), v["max_live"].as_u64()), (Some(true), Some(12), Some(12)));
    assert!(v["capacity"].is_null() && v["nodes"].is_u64() && v["seconds"].is_f64());
    let (code, v) = json(&["pack", &f, "--capacity", "12"]);
    assert_eq!((code, v["solved"].as_bool(), v["capacity"].as_u64()), (0, Some(true), Some(12)));
    let (code, v) = json(&["pack", &f, "--capacity", "11"]);
    assert_eq!((code, v["solved"].as_bool(), v["height"].as_u64()), (1, Some(false), Some(12)));
    assert!(good(&["pack", &f]).contains("the least possible"));
    fails(1, &["pack", &f, "--capacity", "11"], &["four.csv", "12", "11"]);
}

#[test]
fn what_is_written_holds_the_columns_and_an_offset() {
    let s = Scratch::new();
    let f = s.file("in.csv", "size,note,offset,upper,lower,id\n4,\"x, y\",77,2,0,a\n8,,,3,1,c\n4,z,0,4,2,b\n");
    let out = s.path("out.csv");
    good(&["pack", &f, "--out", &out]);
    let text = std::fs::read_to_string(&out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "size,note,upper,lower,id,offset");
    assert!(lines[1].starts_with("4,\"x, y\",2,0,a,") && lines.len() == 4, "{text}");
    // The written file can be packed again.
    let again = s.path("again.csv");
    good(&["pack", &out, "--out", &again, "--capacity", "12"]);
    assert_eq!(std::fs::read_to_string(&again).unwrap(), text);
    assert_eq!(std::fs::read_dir(&s.0).unwrap().count(), 3, "no stray is left");
    fails(2, &["pack", &f, "--out", &s.path("no/such/dir.csv")], &["dir.csv"]);
}

#[test]
fn bad_rows_are_refused_with_their_line() {
    let s = Scratch::new();
    let bad = |rows: &str, parts: &[&str]| {
        let f = s.file("bad.csv", rows);
        let out = s.path("never.csv");
        fails(2, &["pack", &f, "--capacity", "100", "--out", &out], parts);
        assert!(!std::path::Path::new(&out).exists(), "nothing is written");
    };
    let head = "id,lower,upper,size\n";
    bad("", &["bad.csv:1:", "empty"]);
    bad("id,lower,upper\n1,2,3\n", &["bad.csv:1:", "\"size\""]);
    bad("1,2,3,4\n", &["bad.csv:1:", "\"id\""]);
    bad("id,lower,upper,size, size\na,0,4,1,2\n", &["bad.csv:1:", "more than one column is called \"size\""]);
    bad("id,lower,upper,size,hint,hint\na,0,4,1,,\n", &["bad.csv:1:", "\"hint\""]);
    bad(&format!("{head}a,0,4,1\nb,4,4,1\n"), &["bad.csv:3:", "lower is 4, upper 4"]);
    bad(&format!("{head}a,5,4,1\n"), &["bad.csv:2:", "lower is 5, upper 4"]);
    bad(&format!("{head}a,-5,4,1\n"), &["bad.csv:2:", "lower is -5", "negative"]);
    bad(&format!("{head}a,0,4,-1\n"), &["bad.csv:2:", "size is -1", "negative"]);
    bad(&format!("{head}a,0,4,18446744073709551616\n"), &["bad.csv:2:", "18446744073709551616", "more than"]);
    bad(&format!("{head}a,0,4,ten\n"), &["bad.csv:2:", "size is \"ten\"", "no whole number"]);
    bad(&format!("{head}a,0,4,1.5\n"), &["bad.csv:2:", "1.5"]);
    bad(&format!("{head}a,0,4,\n"), &["bad.csv:2:", "size is \"\""]);
    bad(&format!("{head}a,0,4,101\n"), &["bad.csv:2:", "101", "capacity 100"]);
    bad(&format!("{head}a,0,4\n"), &["bad.csv:2:", "3 fields", "4"]);
    bad(&format!("{head}a,0,4,1,9\n"), &["bad.csv:2:", "5 fields"]);
    bad(&format!("{head}a,0,4,1\nb,0,4,1\na,4,5,1\n"), &["bad.csv:4:", "id \"a\"", "line 2"]);
    bad("id,lower,upper,size,alignment\na,0,4,1,1\nb,0,4,1,64\n", &["bad.csv:3:", "alignment"]);
    let bytes = s.file("bytes.csv", b"id,lower,upper,size\na,0,4,\xff\n");
    fails(2, &["pack", &bytes], &["bytes.csv", "UTF-8"]);
    let f = s.file("sum.csv", "id,lower,upper,size\na,0,1,18446744073709551615\nb,1,2,1\n");
    fails(2, &["pack", &f], &["sum.csv", "add up"]);
    fails(2, &["pack", &s.path("gone.csv")], &["gone.csv", "No such file"]);
    fails(2, &["pack", &s.path(".")], &["directory"]);
    assert_eq!(run(&["pack", &f, "--capacity", "-1"]).status.code(), Some(2));
}

#[test]
fn a_million_buffers_of_no_size_take_nothing() {
    let s = Scratch::new();
    let rows: String = (0..1_000_000).map(|i| format!("{i},{i},{},0\n", i + 2)).collect();
    let f = s.file("zeros.csv", format!("id,lower,upper,size\n{rows}"));
    let (code, v) = json(&["pack", &f, "--capacity", "0"]);
    assert_eq!((code, v["height"].as_u64(), v["buffers"].as_u64()), (0, Some(0), Some(1_000_000)));
    let none = s.file("none.csv", "id,lower,upper,size\n");
    assert_eq!(json(&["pack", &none]).1["height"].as_u64(), Some(0));
}

#[test]
fn buffers_can_be_made_up() {
    let s = Scratch::new();
    let out = s.path("made.csv");
    let (code, v) = json(&["pack", "--make", "perfect:60:3", "--out", &out]);
    assert_eq!((code, v["height"].as_u64(), v["buffers"].as_u64()), (0, Some(1 << 20), Some(60)));
    assert_eq!(json(&["pack", &out, "--capacity", "1048576"]).0, 0);
    for kind in ["training:700:1", "unrolled:700", "power:700:2"] {
        assert_eq!(json(&["pack", "--make", kind]).0, 0, "{kind}");
    }
    for wrong in ["", "perfect", "perfect:0:1", "perfect:10:x", "perfect:99999999999:1", "chain:10:1", "perfect:1:2:3"]
    {
        fails(2, &["pack", "--make", wrong], &["--make", "training:1000:1"]);
    }
    assert_eq!(run(&["pack"]).status.code(), Some(2));
    assert_eq!(run(&["pack", &out, "--make", "unrolled:7"]).status.code(), Some(2));
}
