//! A plan by hand: its figures and its text.

use super::*;
use crate::kernels::abi::Split;
use crate::nodes::ir::text::parse;
use crate::sched::instructions::{Operand, Update};
use crate::session::Session;

/// A buffer that takes over no other's bytes.
fn buffer(i: u32, name: &str, op: &'static str, kind: BufKind, place: Location) -> BufferReport {
    let (value, name) = (Value(i), name.to_string());
    let (gradient, offset, size, first, last, root, location) = (false, 0, 0, 0, 0, i, place);
    BufferReport { name, value, op, kind, gradient, offset, size, first, last, root, location }
}

/// Four instructions. The gradient `dh` takes over the bytes of `%1`, and the output is needed after the step.
pub fn hand_report() -> PlanReport {
    let source = |file: &str, line| Location::Source(file.to_string(), line);
    let at = |offset, size, (first, last), b: BufferReport| BufferReport { offset, size, first, last, ..b };
    let (activation, long) = (BufKind::Activation, "a_state_with_thirty_four_letters_s");
    let mut buffers = vec![
        at(0, 100, (0, 4), buffer(0, "x", "input", BufKind::Input, Location::Text(2, 3))),
        at(128, 500, (0, 2), buffer(1, "%1", "exp", activation, source("src/net.rs", 7))),
        at(128, 500, (2, 3), buffer(2, "dh", "mul", activation, source("src/net.rs", 9))),
        at(640, 12, (1, 1), buffer(3, "sum", "sum", BufKind::Scratch, source("a\\b.rs", 1))),
        at(704, 1, (1, 9), buffer(4, "y", "sum", BufKind::Output, Location::Node("n5".to_string()))),
        buffer(5, "%5", "", activation, Location::Nowhere),
        at(576, 35, (3, 3), buffer(6, "a_constant_of_thirty_one_signs_", "", BufKind::Constant, Location::Nowhere)),
        at(768, 35, (2, 2), buffer(7, long, "", BufKind::State, Location::Nowhere)),
    ];
    (buffers[2].root, buffers[2].gradient, buffers[3].value) = (1, true, Value::NONE);
    PlanReport {
        arena_bytes: 1024,
        lower_bound_bytes: 896,
        order_bound_bytes: 832,
        pinned_bytes: 192,
        instructions: 4,
        order: "depth",
        flops: 300,
        threads: 2,
        modelled: Duration::from_secs(1),
        moved_bytes: 77,
        recomputed: Recomputed { what: "activations".to_string(), nodes: 4, flops: 100 },
        kept: KeptHalf { keep: Keep::Bf16, values: 3, bytes: 1536 },
        products: [2, 0, 0, 0],
        winograd: 3,
        warnings: Vec::new(),
        phases: vec![("lower", Duration::from_micros(1500)), ("pack", Duration::from_micros(250))],
        buffers,
        updates: Vec::new(),
    }
}

const TEXT: &str = "\
arena          1024 bytes (1.0 KiB)
max live       896 bytes: the lower bound for this order
any order      832 bytes at least
fragmentation  1.1429
pinned         192 bytes of params, states, inputs and constants
instructions   4 (order: depth)
operations     300 a step
moved          77 bytes a step at least: leaves, next values and outputs
modelled       1000000.0 us a step, on 2 threads
products       2 in f32
convolutions   3 by Winograd's minimal filtering
computed twice activations: 4 nodes, 100 operations (+50.00 %)
kept in half   3 values in bf16, 1536 bytes (1.5 KiB) instead of 3072
phases         lower 1.50 ms, pack 0.25 ms
peak           768 bytes live at instruction 1, the largest of them:
           500  %1 (activation), exp, src/net.rs:7
           100  x (input), line 2:3
            12  sum (scratch), a\\b.rs:1
             1  y (output), sum
largest buffers
         bytes       offset   from     to  value
           500          128      0      2  %1 (activation), exp, src/net.rs:7
           100            0      0      3  x (input), line 2:3
            35          576      3      3  a_constant_of_thirty_one_signs_ (constant)
            35          768      2      2  a_state_with_thirty_four_letters_s (state)
            12          640      1      1  sum (scratch), a\\b.rs:1
             1          704      1      3  y (output), sum
";

#[test]
fn a_plan_as_text_has_its_figures_and_its_largest_buffers() {
    let mut plan = hand_report();
    assert_eq!(plan.to_string(), TEXT);
    // A list has ten buffers, or all.
    plan.buffers =
        (0..12).map(|i| BufferReport { size: 8, ..buffer(i, "b", "", BufKind::State, Location::Nowhere) }).collect();
    let lines = |text: String| text.lines().filter(|l| l.ends_with("  b (state)")).count();
    assert_eq!([lines(format!("{plan}")), lines(format!("{plan:#}"))], [20, 24]);
}

#[test]
fn bytes_are_live_from_the_first_use_to_the_last() {
    let mut plan = hand_report();
    assert_eq!(plan.live_bytes(), [640, 768, 768, 256]);
    assert_eq!(plan.peak(), (1, 768));
    plan.buffers.clear();
    assert_eq!((plan.live_bytes(), plan.peak()), (vec![0; 4], (0, 0)));
    // A program without instructions has what is there before it.
    plan.buffers.push(hand_report().buffers.swap_remove(0));
    plan.instructions = 0;
    assert_eq!((plan.live_bytes(), plan.peak(), plan.last(&plan.buffers[0])), (vec![128], (0, 128), 0));
}

#[test]
fn the_largest_buffers_come_first_then_those_that_lie_lower_then_the_earlier() {
    let mut plan = hand_report();
    for (i, offset, first) in [(0, 64, 1), (3, 0, 0), (6, 64, 0), (7, 0, 2)] {
        let b = &mut plan.buffers[i];
        (b.size, b.offset, b.first) = (35, offset, first);
    }
    let largest = |n| plan.largest(n).iter().map(|b| b.value.0).collect::<Vec<_>>();
    assert_eq!((largest(6), largest(2)), (vec![1, u32::MAX, 7, 6, 0, 4], vec![1, u32::MAX]));
    assert_eq!((plan.last(&plan.buffers[4]), plan.last(&plan.buffers[7])), (3, 2));
    plan.lower_bound_bytes = 0;
    assert_eq!(plan.fragmentation(), 1.0);
    plan.lower_bound_bytes = 1;
    assert_eq!(plan.fragmentation(), 1024.0);
    let places: Vec<_> = plan.in_file("g.ir").buffers.iter().map(BufferReport::origin).collect();
    assert_eq!((places[0].as_deref(), places[1].as_deref()), (Some("g.ir:2"), Some("src/net.rs:7")));
}

#[test]
fn labels_say_less_and_less() {
    let plan = hand_report();
    let labels: Vec<_> = [0, 1, 2, 3, 4, 5].iter().map(|&i: &usize| plan.buffers[i].labels().join(" | ")).collect();
    let wanted = [
        "x, input line 2:3 | x line 2:3 | x",
        "exp net.rs:7 | exp",
        "dh, mul net.rs:9 | dh net.rs:9 | dh",
        "sum b.rs:1 | sum",
        "y",
        "activation",
    ];
    assert_eq!(labels, wanted);
}

#[test]
fn figures_without_a_choice_are_left_out() {
    let fact = |name: &str, f: &dyn Fn(&mut PlanReport)| {
        let mut plan = hand_report();
        f(&mut plan);
        plan.facts().into_iter().find(|(n, _)| *n == name).map(|(_, text)| text)
    };
    assert_eq!(fact("computed twice", &|p| p.recomputed = Recomputed::default()), None);
    assert_eq!(fact("kept in half", &|p| p.kept = KeptHalf::default()), None);
    assert_eq!(fact("convolutions", &|p| p.winograd = 0), None);
    let nothing = "nothing in bf16: the backward half reads no f32 value that may be rounded";
    assert_eq!(fact("kept in half", &|p| p.kept.values = 0).as_deref(), Some(nothing));
    // All operations are computed twice, as far as the plan knows.
    let again = "activations: 4 nodes, 100 operations (+10000.00 %)";
    assert_eq!(fact("computed twice", &|p| p.flops = 100).as_deref(), Some(again));
    let products = |counts: Counts| fact("products", &|p| p.products = counts).unwrap_or_default();
    let units = bf16_engine().map_or_else(|e| e, |e| format!(" ({e})"));
    assert_eq!(products([0; 4]), "none of f32 matrices");
    assert_eq!(products([1, 0, 0, 3]), format!("1 in f32, 3 in bf16{units}"));
    assert_eq!(products([0, 2, 0, 0]), format!("2 in bf16x3{units}"));
}

#[test]
fn sizes_read_well() {
    assert_eq!([0, 1023, 1024, 1536, 5 << 30].map(human), ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 GiB"]);
    assert_eq!([(1 << 20) - 1, 1 << 40, 1 << 50].map(human), ["1024.0 KiB", "1.0 TiB", "1024.0 TiB"]);
}

/// Three leaves, of which the code reads the first two, an activation of 16 bytes, an update and an output.
#[test]
fn a_step_moves_what_it_reads_of_leaves_and_what_it_leaves_behind() {
    let operand = |buf: u32, len: usize| Operand::of_bytes(buf, 0, len, Split::Whole);
    let code = Instructions {
        bytes: vec![64, 32, 128, 16],
        kind: vec![BufKind::Param, BufKind::Constant, BufKind::Input, BufKind::Activation],
        reads: vec![operand(0, 64), operand(1, 32), operand(0, 8), operand(3, 16)],
        updates: vec![Update { leaf: 0, from: operand(3, 64) }],
        outputs: vec![operand(3, 12)],
        ..Instructions::new()
    };
    assert_eq!(report_moved_bytes(&code), 64 + 32 + 64 + 12);
}

/// The plan of a graph as it is written.
fn planned(text: &str) -> PlanReport {
    Session::new().optimise(false).plan(&parse(text).unwrap()).unwrap()
}

/// Most is kept behind %b, and no output is a loss: there the backward half begins.
const HALVES: &str = "graph @halves {
  %x = input : f32[64]
  %w = param init=ones scale=0 frozen=false : f32[64]
  %a = exp %x
  %b = sin %a
  %c = mul %a, %b
  %d = neg %c
  %e = mul %c, %d
  %f = neg %e
  %n = sub %w, %f
  return y=%f, z=%e
}
";

#[test]
fn activations_behind_the_turn_of_a_step_are_gradients() {
    let what = |text: &str| {
        let plan = planned(text);
        let of = |name: &str| plan.buffers.iter().find(|b| b.name == name).unwrap().what();
        ["x", "a", "b", "c", "d", "e", "f"].map(of)
    };
    let forward = ["input", "activation", "activation", "activation", "activation", "output", "output"];
    let step = ["input", "activation", "activation", "gradient", "gradient", "output", "output"];
    assert_eq!(what(HALVES), forward);
    // A graph gives gradients, or it has updates.
    assert_eq!(what(&HALVES.replace("z=%e", "grad.x=%e")), step);
    assert_eq!(what(&HALVES.replace("  return", "  update %w <- %n\n  return")), step);
}

#[test]
fn a_plan_tells_sizes_and_lifetimes_of_a_chain_of_copies() {
    let plan = planned(
        "graph @chain {
  %x = input : f32[20,30]
  %a = transpose %x perm=[1,0]
  %b = transpose %a perm=[1,0]
  %y = transpose %b perm=[1,0]
  return y=%y
}
",
    );
    // 2400 bytes are 38 lines.
    let size = 38 * LINE;
    assert_eq!((plan.instructions, plan.flops, plan.pinned_bytes), (3, 0, size));
    assert_eq!((plan.arena_bytes, plan.lower_bound_bytes), (3 * size, 3 * size));
    assert!(plan.order_bound_bytes >= size && plan.order_bound_bytes <= 3 * size, "{}", plan.order_bound_bytes);
    let lives: Vec<_> = plan.buffers.iter().map(|b| (b.name.as_str(), b.op, b.size, b.first, b.last)).collect();
    let [x, copy] = ["input", "transpose"];
    assert_eq!(
        lives,
        [("x", x, 2400, 0, 2), ("a", copy, 2400, 0, 1), ("b", copy, 2400, 1, 2), ("y", copy, 2400, 2, 2)]
    );
    let product = "%y = matmul %x, %w ta=false tb=false";
    let text =
        format!("graph @g {{\n  %x = input : f32[3,4]\n  %w = input : f32[4,5]\n  {product}\n  return y=%y\n}}\n");
    assert_eq!(planned(&text).flops, 2 * 3 * 4 * 5);
}

#[test]
fn scratch_is_that_of_the_op_that_writes_it() {
    // The sums over the last axis lie between two calls.
    let sum = "%y = reduce_sum %x axes=[0,2] keep=false";
    let plan = planned(&format!("graph @g {{\n  %x = input : f32[2,3,4]\n  {sum}\n  return y=%y\n}}\n"));
    let scratch = plan.buffers.iter().find(|b| b.kind == BufKind::Scratch).unwrap();
    let y = plan.buffers.iter().find(|b| b.name == "y").unwrap();
    assert_eq!((scratch.name.as_str(), scratch.op, &scratch.location), ("reduce_sum", "reduce_sum", &y.location));
    assert_ne!(scratch.location, Location::Nowhere);
    // Of a tensor without rows nothing is computed in parts, so no op writes them.
    let plan = planned(
        "graph @empty {
  %c = input : f32[0,3]
  %x = input : f32[0,3]
  %gamma = input : f32[3]
  %mean = input : f32[0]
  %rstd = input : f32[0]
  %dx, %dg, %db = layer_norm_backward %c, %x, %gamma, %mean, %rstd
  return dg=%dg
}
",
    );
    let scratch = plan.buffers.iter().filter(|b| b.kind == BufKind::Scratch);
    let told: Vec<_> = scratch.map(|b| (b.name.as_str(), b.op, &b.location)).collect();
    assert_eq!(told, [("scratch", "", &Location::Nowhere); 2]);
}

#[test]
fn a_leaf_is_written_when_its_next_value_is() {
    let text = "graph @g {
  %x = input : f32[256,256]
  %a = param init=zeros scale=1 frozen=false : f32[256,256]
  %b = param init=zeros scale=1 frozen=false : f32[256,256]
  %0 = matmul %x, %x ta=false tb=false : f32[256,256]
  %1 = matmul %0, %x ta=false tb=false : f32[256,256]
  update %a <- %0
  update %b <- %1
  return y=%1
}
";
    let p = planned(text);
    let names: Vec<&str> = p.updates.iter().map(|u| &*u.name).collect();
    assert_eq!(names, ["a", "b"]);
    // Behind `a` is the second of two equal products; behind both, the copy of `b` for the output.
    let (a, b) = (p.updates[0].left, p.updates[1].left);
    assert!((0.48..0.56).contains(&a) && (0.0..0.08).contains(&b), "{a} and {b}");
}
