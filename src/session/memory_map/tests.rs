//! The map of a plan by hand.

use super::*;
use crate::session::plan_report::tests::hand_report;

/// Rectangles with room have labels; titles name what takes over the bytes.
#[test]
fn a_map_shows_each_buffer_where_and_when_it_lives() {
    let svg = hand_report().svg().replace("><", ">\n<") + "\n";
    assert_eq!(svg, include_str!("map.svg"), "{svg}");
}

#[test]
fn a_title_names_eight_later_values_at_most() {
    let mut plan = hand_report();
    let later = plan.buffers[2].clone();
    plan.buffers.extend(std::iter::repeat_n(later, 9));
    assert_eq!(plan.svg().matches("\nthen dh").count(), 8);
}

#[test]
fn ticks_are_few_and_round() {
    assert_eq!(binary_ticks(0.5), [0.0]);
    assert_eq!(binary_ticks(6.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(binary_ticks(448.0), [0.0, 128.0, 256.0, 384.0]);
    let mut plan = hand_report();
    plan.instructions = 22;
    let at = |t: usize| format!("text-anchor=\"middle\" fill=\"#444\">{t}</text>");
    let svg = plan.svg();
    assert_eq!(svg.matches("text-anchor=\"middle\" fill=\"#444\"").count(), 5);
    assert!([0, 5, 10, 15, 20].iter().all(|&t| svg.contains(&at(t))));
}

/// Neither an arena without bytes nor a program without instructions divides by 0.
#[test]
fn an_empty_plan_has_an_empty_map() {
    let mut plan = hand_report();
    plan.buffers.clear();
    (plan.instructions, plan.arena_bytes) = (0, 0);
    let svg = plan.svg();
    assert!(svg.ends_with("</svg>") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    // One instruction takes the whole width.
    plan.instructions = 1;
    let svg = plan.svg();
    assert!(svg.contains("<text x=\"988.00\" y=\"452.00\" text-anchor=\"middle\" fill=\"#444\">1</text>"), "{svg}");
}

#[test]
fn thin_buffers_stay_visible_and_empty_ones_are_in_no_legend() {
    let mut plan = hand_report();
    // Less than a pixel for each instruction.
    plan.instructions = 2000;
    plan.buffers[7].size = 0;
    let svg = plan.svg();
    let sum = svg.split("<rect").find(|rect| rect.contains("sum (scratch)")).unwrap();
    assert!(sum.contains(" width=\"1.00\"") && !sum.contains("stroke"), "{sum}");
    assert!(svg.contains(">input</text>") && !svg.contains(">state</text>"), "{svg}");
    // 402 pixels for the arena: 4 for this buffer, which is high enough for a border.
    (plan.instructions, plan.arena_bytes) = (4, 402 * 64);
    (plan.buffers[3].offset, plan.buffers[3].size) = (0, 4 * 64);
    let svg = plan.svg();
    let sum = svg.split("<rect").find(|rect| rect.contains("sum (scratch)")).unwrap();
    assert!(sum.contains(" height=\"4.00\"") && sum.contains("stroke"), "{sum}");
}
