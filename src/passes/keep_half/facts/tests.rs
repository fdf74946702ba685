//! Facts of small graphs, with the answers worked out by hand.

use super::*;
use crate::nodes::ir::text::parse;

/// A graph whose forward half begins with `forward`, which makes `%last`, and whose backward half is `backward`, which
/// makes `%g`. From the last reader of `%last` to the backward half, more is made than rounding must save.
fn graph(dims: &str, forward: &str, backward: &str) -> String {
    format!(
        "graph @g {{
            %x = input : f32{dims}
            %w = param init=ones scale=0 frozen=false : f32{dims}
            {forward}
            %f1 = exp %last
            %f2 = exp %f1
            %end = exp %f2
            %loss = reduce_sum %end axes=[0,1] keep=false
            {backward}
            return loss=%loss, grad.w=%g
        }}"
    )
}

/// The values that are not kept as they are, and how they are kept.
fn kept(text: &str) -> String {
    let buf = parse(text).unwrap();
    let (g, f) = (buf.view(), HalfFacts::of(buf.view()).unwrap());
    let all = (0..g.values()).map(Value::new).filter(|&v| f.kept[v] != Kept::Full);
    all.map(|v| format!("{}:{:?}", g.str(g.names[v.at()]), f.kept[v])).collect::<Vec<String>>().join(" ")
}

/// How `%last = exp %x` is kept if the backward half is `backward`.
fn exp_kept(backward: &str) -> String {
    kept(&graph("[32,16]", "%last = exp %x", backward))
}

/// The names of the values of the entry that `is` takes, in order.
fn names<'g>(g: Graph<'g>, is: impl Fn(Value) -> bool) -> Vec<&'g str> {
    let own = g.region_values(g.entry()).map(Value).filter(|&v| is(v) && g.names[v.at()].is_some());
    own.map(|v| g.str(g.names[v.at()])).collect()
}

fn value(g: Graph<'_>, name: &str) -> Value {
    let named = |v: &Value| g.names[v.at()].is_some() && g.str(g.names[v.at()]) == name;
    g.region_values(g.entry()).map(Value).find(named).unwrap()
}

fn node(g: Graph<'_>, name: &str) -> Node {
    g.def[value(g, name).at()]
}

#[test]
fn an_output_is_a_gradient_by_its_name() {
    let values = HashSet::from(["w", "fc.weight"]);
    for (name, gradient) in [
        ("grad.w", true),
        ("grad.fc.weight", true),
        ("grad.w.2", true),
        ("grad.w.x", false),
        ("grad.other", false),
        ("grad.other.2", false),
        ("grad.%5", true),
        ("grad_norm", true),
        ("w", false),
        ("loss", false),
    ] {
        assert_eq!(is_half_gradient_output(&values, name), gradient, "{name}");
    }
    // The value %last has a name, so `grad.last` may be its gradient.
    let text = graph("[32,16]", "%last = exp %x", "%g = mul %w, %last").replace("grad.w", "grad.last");
    assert_eq!(kept(&text), "last:Half");
    let other = text.replace("grad.last", "grad.other");
    let buf = parse(&other).unwrap();
    assert_eq!(HalfFacts::of(buf.view()).unwrap().boundary, node(buf.view(), "g"));
}

#[test]
fn what_crosses_the_boundary_is_rounded_if_it_is_large_enough() {
    let text = |dims: &str| graph(dims, "%last = exp %x", "%g = mul %w, %last");
    assert_eq!(kept(&text("[32,16]")), "last:Half");
    // 1024 bytes, and 1020.
    assert_eq!(kept(&text("[16,16]")), "last:Half");
    assert_eq!(kept(&text("[15,17]")), "");
    assert_eq!(kept(&text("[32,16]").replace("f32", "f64")), "");
    // Outputs, next values and leaves are there anyway.
    assert_eq!(kept(&text("[32,16]").replace("return ", "return last=%last, ")), "");
    assert_eq!(kept(&text("[32,16]").replace("return ", "update %w <- %last\n return ")), "");
    assert_eq!(exp_kept("%g = mul %w, %x"), "");
}

#[test]
fn a_value_that_is_needed_all_the_time_is_not_rounded() {
    // Behind the last reader of the 2048 bytes of %a, the sum and the fill are made: 1024 bytes, or 1020.
    let text = |fill: usize| {
        format!(
            "graph @near {{
                %x = input : f32[32,16]
                %w = param init=ones scale=0 frozen=false : f32[32,16]
                %a = exp %x
                %b = exp %a
                %loss = reduce_sum %b axes=[0,1] keep=false
                %e = full value=1 : f32[{fill}]
                %g = mul %w, %a
                return loss=%loss, grad.w=%g
            }}"
        )
    };
    assert_eq!([text(255), text(254)].map(|text| kept(&text)), ["a:Half", ""]);
}

#[test]
fn bytes_are_those_of_the_nodes_before_and_moves_make_none() {
    let text = graph("[32,16]", "%a = exp %x\n %r = reshape %a shape=[16,32]\n %last = exp %r", "%g = mul %w, %a");
    let buf = parse(&text).unwrap();
    let (g, f) = (buf.view(), HalfFacts::of(buf.view()).unwrap());
    let before = ["x", "w", "a", "r", "last", "f1"].map(|name| f.made_before[node(g, name)]);
    assert_eq!(before, [0, 2048, 4096, 6144, 6144, 8192]);
}

#[test]
fn readers_are_known_by_the_half_that_they_are_in() {
    // The last node of the forward half reads %last too.
    let backward = "%c = gt %last, %x
        %e1 = exp %w
        %e2 = exp %e1
        %g1 = mul %e2, %last
        %g = mul %g1, %last";
    let text = graph("[32,16]", "%last = exp %x", backward).replace("return ", "return wins=%c, ");
    assert_eq!(kept(&text), "last:Half", "no node of the backward half compares it");
    let buf = parse(&text).unwrap();
    let (g, f) = (buf.view(), HalfFacts::of(buf.view()).unwrap());
    let (c, last, end) = (node(g, "c"), value(g, "last"), value(g, "end"));
    assert_eq!((f.boundary, f.last_forward[last], f.last_forward[end]), (c, c, node(g, "loss")));
    assert_eq!(f.first_backward[last], Some(node(g, "g1")));
    assert_eq!(names(g, |v| f.read_forward[v]), ["x", "last", "f1", "f2", "end"]);
    assert_eq!(names(g, |v| f.gradient[g.def[v.at()]]), ["e1", "e2", "g1", "g"]);
}

#[test]
fn what_an_update_of_a_param_reads_is_a_gradient_and_of_a_state_is_not() {
    let text = |leaf: &str| {
        graph("[32,16]", "%s = state init=zeros scale=0 : f32[32,16]\n %last = exp %x", "%g = mul %s, %last")
            .replace("return loss=%loss, grad.w=%g", &format!("update {leaf} <- %g\n return loss=%loss"))
    };
    assert_eq!([text("%w"), text("%s")].map(|text| kept(&text)), ["last:Half", ""]);
    // The next value of a param may be made by the last node of the forward half.
    let text = graph("[32,16]", "%last = exp %x", "%g = mul %w, %x").replace("return ", "return y=%g, ");
    let buf = parse(&text.replace("return ", "update %w <- %g\n return ").replace(", grad.w=%g", "")).unwrap();
    let (g, f) = (buf.view(), HalfFacts::of(buf.view()).unwrap());
    assert_eq!((f.boundary, names(g, |v| f.gradient[g.def[v.at()]]).len()), (node(g, "g"), 0));
}

#[test]
fn what_a_node_decides_by_is_not_rounded() {
    for (backward, want) in [
        // Comparisons with another tensor and with a number, and steps.
        ("%c = gt %last, %w\n %g = select %c, %w, %x", ""),
        ("%k = full value=2 : f32[32,16]\n %c = gt %last, %k\n %g = select %c, %w, %x", "last:Half"),
        ("%k = full value=2 : f32[32,16]\n %s = floor_divide %last, %k\n %g = mul %s, %w", ""),
        ("%s = floor %last\n %g = mul %s, %w", ""),
        ("%s = sign %last\n %g = mul %s, %w", "last:Half"),
        ("%i = cast %last to=i32\n %j = cast %i to=f32\n %g = mul %j, %w", ""),
        ("%g = sin %last", ""),
        ("%g = tanh %last", "last:Half"),
        // What is only moved before it is compared.
        ("%t = transpose %last perm=[1,0]\n %y = sin %t\n %g = transpose %y perm=[1,0]", ""),
        // What is computed from it.
        ("%t = tanh %last\n %g = sin %t", "last:Half"),
        // A node that is no gradient reads it.
        ("%g = mul %w, %last\n %n = mul %x, %last\n update %s0 <- %n", ""),
    ] {
        let forward = "%s0 = state init=zeros scale=0 : f32[32,16]\n %last = exp %x";
        let text = graph("[32,16]", forward, backward);
        assert_eq!(kept(&text), want, "{backward}");
    }
}

/// Branches, and a choice of the backward half between a product and `otherwise`.
fn branches(otherwise: &str) -> String {
    let choice = format!("%e = exp %w\n %g = if %on, %last, %e then=@product otherwise=@{otherwise}");
    format!(
        "region @product(%h : f32[32,16], %k : f32[32,16]) {{
            %p = mul %h, %k
            yield %p
        }}
        region @sum(%h : f32[32,16], %k : f32[32,16]) {{
            %r = add %h, %k
            yield %r
        }}
        region @wave(%h : f32[32,16], %k : f32[32,16]) {{
            %s = sin %h
            %q = mul %s, %k
            yield %q
        }}
        {}",
        graph("[32,16]", "%on = input : bool[]\n %last = exp %x", &choice)
    )
}

#[test]
fn one_operand_by_which_one_branch_decides_makes_all_exact() {
    assert_eq!([branches("sum"), branches("wave")].map(|text| kept(&text)), ["last:Half", ""]);
}

/// A backward loop with the body `nodes`, over slices `%s` and `%t` of `%a` and `%b`.
fn looped(nodes: &str, results: &str) -> String {
    format!(
        "region @back(%c : f32[4,8], %s : f32[4,8], %t : f32[4,8]) {{
            {nodes}
        }}
        graph @loops {{
            %x = input : f32[16,4,8]
            %w = param init=ones scale=0 frozen=false : f32[4,8]
            %a = exp %x
            %b = tanh %x
            %f1 = mul %a, %b
            %f2 = exp %f1
            %end = exp %f2
            %loss = reduce_sum %end axes=[0,1,2] keep=false
            {results} = scan %w, %a, %b body=@back carries=1 consts=0 length=16 reverse=true
            return loss=%loss, grad.w=%g
        }}"
    )
}

#[test]
fn a_loop_decides_by_what_its_body_decides_by() {
    assert_eq!(kept(&looped("%p = mul %s, %t\n %n = add %c, %p\n yield %n", "%g")), "a:Half b:Half");
    assert_eq!(kept(&looped("%m = gt %s, %c\n %n = select %m, %t, %c\n yield %n", "%g")), "b:Half");
    // A loop may count beside what it computes.
    let counts = "%p = mul %s, %t\n %n = add %c, %p\n %one = full value=1 : i32[]\n yield %n, %one";
    assert_eq!(kept(&looped(counts, "%g, %i")), "a:Half b:Half");
}

#[test]
fn summaries_are_statistics_sums_and_what_is_made_of_them_alone() {
    let text = "region @some(%h : f32[512,16], %k : f32[16]) {
            %h1 = exp %h
            %k1 = exp %k
            yield %h1, %k1
        }
        region @others(%h : f32[512,16], %k : f32[16]) {
            %h2 = tanh %h
            %k2 = tanh %k
            yield %h2, %k2
        }
        region @rows(%c : f32[16], %s : f32[16]) {
            %n = add %c, %s
            %e = exp %s
            %z = reduce_sum %s axes=[0] keep=false
            yield %n, %e, %z
        }
        graph @summaries {
            %x = input : f32[512,16]
            %k = input : f32[512,1]
            %on = input : bool[]
            %gain = param init=ones scale=0 frozen=false : f32[16]
            %bias = param init=zeros scale=0 frozen=false : f32[16]
            %one = param init=ones scale=0 frozen=false : f32[1]
            %none = param init=zeros scale=0 frozen=false : f32[1]
            %y, %mean, %inv = layer_norm %x, %gain, %bias eps=0.00001
            %y1, %mean1, %inv1 = layer_norm %k, %one, %none eps=0.00001
            %m = mul %mean, %inv
            %r = reshape %mean shape=[512,1]
            %p = mul %k, %r
            %q = mul %y1, %r
            %t = transpose %y perm=[1,0]
            %product = matmul %r, %r ta=true tb=false
            %two = full value=2 : f32[512,1]
            %d = mul %r, %two
            %four = mul %two, %two
            %s = sin %y
            %z = reduce_sum %y axes=[0,1] keep=false
            %dx, %dgain, %dbias = layer_norm_backward %y, %x, %gain, %mean, %inv
            %i1, %i2 = if %on, %x, %gain then=@some otherwise=@others
            %carry, %rows, %sums = scan %gain, %x body=@rows carries=1 consts=0 length=512 reverse=false
            return loss=%z
        }";
    let buf = parse(text).unwrap();
    let (g, f) = (buf.view(), HalfFacts::of(buf.view()).unwrap());
    let want = "mean inv mean1 inv1 m r p d z dgain dbias carry sums";
    assert_eq!(names(g, |v| f.summary[v]).join(" "), want);
    let free = "x k on gain bias one none two four z";
    assert_eq!(names(g, |v| f.free[v]).join(" "), free);
    assert!(g.region_args(Region::new(0)).all(|a| !f.free[a]), "what a body gets may follow from anything");
}

#[test]
fn a_move_of_a_kept_value_is_written_again() {
    let turn = "perm=[1,0]";
    let square = |forward: &str, backward: &str| kept(&graph("[32,32]", forward, backward));
    // The value that is moved is read in the backward half too, or it is not.
    let forward = format!("%a = exp %x\n %last = transpose %a {turn}");
    assert_eq!(square(&forward, "%g = mul %a, %last"), "a:Half last:Again");
    assert_eq!(square(&forward, "%g = mul %w, %last"), "a:Half last:Again");
    // It is read in full there.
    assert_eq!(square(&forward, "%e = sin %a\n %g = mul %e, %last"), "");
    // A leaf, and a move of it.
    assert_eq!(square(&format!("%last = transpose %x {turn}"), "%g = mul %w, %last"), "");
    let twice = format!("%t = transpose %x {turn}\n %last = reshape %t shape=[64,16]");
    assert_eq!(square(&twice, "%e = reshape %w shape=[64,16]\n %g = mul %e, %last"), "");
    // A part of a larger value is kept itself.
    let part = "%a = exp %x\n %last = slice %a starts=[0,0] limits=[16,32] steps=[1,1]";
    assert_eq!(square(part, "%e = tanh %last\n %g = mul %e, %last"), "last:Half");
    // What is repeated is kept once, or in full if it is small.
    for (rows, from, want) in [(4, 512, "m:Half last:Again"), (32, 16, "")] {
        let forward = format!("%v = input : f32[{from}]\n %m = exp %v\n %last = broadcast %m shape=[{rows},{from}]");
        let text = graph("[32,16]", &forward, "%e = tanh %last\n %g = mul %e, %last");
        assert_eq!(kept(&text), want);
    }
}

#[test]
fn a_shift_or_scaling_of_a_kept_value_is_written_again() {
    let number = "%k = full value=3 : f32[8,64]\n %a = exp %x\n";
    let of = |last: &str, backward: &str| kept(&graph("[8,64]", &format!("{number} {last}"), backward));
    let both = "%g = mul %a, %last";
    assert_eq!(of("%last = mul %a, %k", both), "a:Half last:Again");
    assert_eq!(of("%last = sub %k, %a", both), "a:Half last:Again");
    // The square, what is no shift or scaling, and the sum of two kept values.
    assert_eq!(of("%last = tanh %a", both), "a:Half last:Half");
    assert_eq!(of("%last = mul %a, %a", both), "a:Half last:Half");
    assert_eq!(
        of("%b = tanh %x\n %last = add %a, %b", "%e = mul %a, %b\n %g = mul %e, %last"),
        "a:Half b:Half last:Half"
    );
    // What it is made of is read in full.
    assert_eq!(of("%last = mul %a, %k", "%e = sin %a\n %g = mul %e, %last"), "last:Half");
    // A row is small beside eight rows of its size, and not beside four.
    for (rows, width, want) in [(8, 64, "Again"), (4, 128, "Half")] {
        let forward = format!(
            "%v = input : f32[{width}]
            %a = exp %x
            %row = broadcast %v shape=[{rows},{width}]
            %last = add %a, %row"
        );
        let text = graph(&format!("[{rows},{width}]"), &forward, both);
        assert_eq!(kept(&text), format!("a:Half last:{want}"));
    }
}
