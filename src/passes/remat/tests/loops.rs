//! Loops of graphs that are written by hand: which run in stretches together, and that no bit changes.

use super::*;
use crate::nodes::ir::text::parse;
use crate::passes::remat::loops::LOOP_PARTS;

/// A forward loop that stacks what it makes; `op` tells two of them apart.
fn forward(name: &str, op: &str) -> String {
    format!(
        "region @{name}(%c : f32[16], %x : f32[16]) {{
            %a = {op} %x
            %n = mul %c, %a
            %s = exp %n
            yield %n, %s
        }}\n"
    )
}

/// Two forward loops, and one or two backward loops with a stack as the first operand that they read slice by slice.
fn text(second: &str, outputs: &str) -> String {
    let (f, h) = (forward("f", "sin"), forward("h", "cos"));
    format!(
        "{f}{h}region @b(%g : f32[16], %s : f32[16], %t : f32[16]) {{
            %p = mul %s, %t
            %n = add %g, %p
            yield %n
        }}
        region @d(%g : f32[16], %t : f32[16]) {{
            %q = tanh %t
            %n = add %g, %q
            yield %n
        }}
        graph @loops {{
            %x = input : f32[256,16]
            %start = input : f32[16]
            %c1, %s1 = scan %start, %x body=@f carries=1 consts=0 length=256 reverse=false
            %c2, %s2 = scan %start, %x body=@h carries=1 consts=0 length=256 reverse=false
            %sum = add %c1, %c2
            %loss = reduce_sum %sum axes=[0] keep=false
            %d1 = scan %start, %s1, %s2 body=@b carries=1 consts=0 length=256 reverse=true
            {second}
            return loss=%loss, d1=%d1{outputs}
        }}"
    )
}

/// The outputs `names` with some numbers as inputs, in each size that a budget gives.
fn in_all_sizes(g: &GraphBuf, names: &[&str]) -> Vec<(usize, Vec<f32>)> {
    let sizes = Session::new().budgets(g).unwrap();
    let run = |bytes: usize| {
        let mut p = Session::new().memory_budget(bytes).compile(g).unwrap();
        assert_eq!(p.plan().arena_bytes, bytes);
        for name in ["x", "start"] {
            let x = p.values_mut::<f32>(name).unwrap();
            x.iter_mut().enumerate().for_each(|(i, x)| *x = ((i * 37 % 101) as f32 + 1.0) / 80.0);
        }
        p.step().unwrap();
        names.iter().flat_map(|name| p.values::<f32>(name).unwrap().to_vec()).collect()
    };
    sizes.iter().map(|s| (s.arena_bytes, run(s.arena_bytes))).collect()
}

#[test]
fn loops_whose_stacks_meet_are_one_group() {
    let both = "%d2 = scan %start, %s2 body=@d carries=1 consts=0 length=256 reverse=true";
    for (second, outputs) in [("", ""), (both, ", d2=%d2")] {
        let g = parse(&text(second, outputs)).unwrap();
        let list =
            graphs_with_stretches(pipeline::run_pipeline(&g, &[], true).unwrap().0, |g| rebuild_buf(g, &mut |_| None))
                .unwrap();
        assert_eq!(list.len(), 1 + LOOP_PARTS, "{second}");
        let names: Vec<&str> = list.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["", "25 % of 1 loop", "50 % of 1 loop", "75 % of 1 loop", "100 % of 1 loop"]);
        assert!(list[1..].iter().all(|r| r.loops == 1), "{second}");
        let names: &[&str] = if second.is_empty() { &["loss", "d1"] } else { &["loss", "d1", "d2"] };
        let all = in_all_sizes(&g, names);
        assert!(all.len() > 1 && all[1..].iter().all(|(_, y)| *y == all[0].1), "{second}");
        // Two stacks of 256 slices are most of the memory, and few of their slices are left.
        assert!(2 * all[all.len() - 1].0 < all[0].0, "{} of {} bytes", all[all.len() - 1].0, all[0].0);
        assert!(all[0].1.iter().all(|x| x.is_finite()) && all[0].1[1] != all[0].1[2]);
    }
}

#[test]
fn one_loop_after_the_other_runs_in_stretches() {
    // Each backward loop reads the stack of one forward loop; all bodies cost the same.
    let both = "%d2 = scan %start, %s2 body=@d carries=1 consts=0 length=256 reverse=true";
    let apart = text(both, ", d2=%d2").replace("%start, %s1, %s2 body=@b", "%start, %s1 body=@d");
    let g = pipeline::run_pipeline(&parse(&apart).unwrap(), &[], true).unwrap().0;
    let list = graphs_with_stretches(g, |g| rebuild_buf(g, &mut |_| None)).unwrap();
    let names: Vec<(&str, usize)> = list.iter().map(|r| (r.name.as_str(), r.loops)).collect();
    let want =
        [("", 0), ("25 % of 2 loops", 1), ("50 % of 2 loops", 1), ("75 % of 2 loops", 2), ("100 % of 2 loops", 2)];
    assert_eq!(names, want);
    let half = list[1].flops;
    assert!(half > 0);
    assert_eq!([0, 1, 2, 3, 4].map(|i| list[i].flops), [0, half, 2 * half, 3 * half, 4 * half]);
    // A choice is named by the loops and by what else runs twice.
    for (i, c) in list_graph_choices(&list) {
        let (name, own) = (&list[i].name, list_choices(list[i].graph.view(), &list[i].facts));
        let is = |o: &Choice| match (o.nodes, i) {
            (_, 0) => c.name == o.name,
            (0, _) => c.name == *name,
            _ => c.name == format!("{name}, {}", o.name),
        };
        let costs = |o: &Choice| (o.nodes + list[i].loops, o.flops + list[i].flops) == (c.nodes, c.flops);
        assert!(own.iter().any(|o| is(o) && costs(o)), "{}: {} nodes, {} operations", c.name, c.nodes, c.flops);
    }
}

#[test]
fn stacks_that_others_read_are_kept() {
    let tidy = |g: Graph<'_>| rebuild_buf(g, &mut |_| None);
    // As outputs, and by a reader of the whole stack.
    let whole = "%d2 = exp %s2";
    // And as next values.
    let kept = "%u1 = state init=zeros scale=0 : f32[256,16]
        %u2 = state init=zeros scale=0 : f32[256,16]
        update %u1 <- %s1
        update %u2 <- %s2";
    for (second, outputs) in [("", ", s1=%s1, s2=%s2"), (whole, ", d2=%d2, s1=%s1"), (kept, "")] {
        let g = parse(&text(second, outputs)).unwrap();
        let list = graphs_with_stretches(pipeline::run_pipeline(&g, &[], true).unwrap().0, tidy).unwrap();
        assert_eq!(list.len(), 1, "{second}: no loop can run in stretches");
    }
}

#[test]
fn operations_that_loops_repeat_are_counted() {
    let g = recurrent(64, 2);
    let simple = pipeline::run_pipeline(&g, &pipeline::full_halves().0, true).unwrap().0;
    let list = graphs_with_stretches(simple, |g| rebuild_buf(g, &mut |_| None)).unwrap();
    assert!(list.len() > 2 && list[0].loops == 0 && list[0].flops == 0);
    let all = list_graph_choices(&list);
    assert!(all.windows(2).all(|w| w[0].1.flops <= w[1].1.flops) && all[0].1.flops == 0);
    for (k, graph) in list.iter().enumerate().skip(1) {
        assert!(graph.loops > 0 && graph.flops >= list[k - 1].flops && graph.flops > 0);
        let own = all.iter().filter(|(i, _)| *i == k).map(|(_, c)| c.flops).min();
        assert_eq!(own, Some(graph.flops), "the choice that repeats the loops and nothing else");
        let named = |c: &Choice| c.name.starts_with(&graph.name) && c.nodes >= graph.loops;
        assert!(all.iter().filter(|(i, _)| *i == k).all(|(_, c)| named(c)));
    }
}
