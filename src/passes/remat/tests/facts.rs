//! Facts of graphs that are written by hand, with the answers worked out by hand.

use super::*;
use crate::nodes::OpDef;
use crate::nodes::ir::opdef::Flags;
use crate::nodes::ir::text::parse;
use crate::passes::remat::facts::Class;

/// The node of the value called `name`.
fn node(g: Graph<'_>, name: &str) -> Node {
    g.def[value(g, name).at()]
}

pub(super) fn value(g: Graph<'_>, name: &str) -> Value {
    let named = |v: &u32| g.names[*v as usize].is_some() && g.str(g.names[*v as usize]) == name;
    Value(g.region_values(g.entry()).find(named).unwrap())
}

/// The names of the values of `g` that are in `set`.
pub(super) fn named<'g>(g: Graph<'g>, set: &Side<Value, bool>) -> Vec<&'g str> {
    let values = g.region_values(g.entry()).map(Value).filter(|&v| set[v] && g.names[v.at()].is_some());
    values.map(|v| g.str(g.names[v.at()])).collect()
}

/// The name of the value at the boundary.
fn boundary(text: &str) -> String {
    let buf = parse(text).unwrap();
    let (g, f) = (buf.view(), remat_facts(buf.view()));
    g.str(g.names[g.out(f.fwd_bwd_boundary).at()]).to_string()
}

#[test]
fn the_boundary_is_the_loss_if_later_nodes_read_what_it_needs() {
    let text = "graph @loss {
        %x = input : f32[8,16]
        %w = param init=ones scale=0 frozen=false : f32[16,16]
        %p = matmul %x, %w ta=false tb=false
        %h = tanh %p
        %loss = reduce_sum %h axes=[0,1] keep=false
        %a = mul %h, %h
        %b = sin %a
        %c = mul %a, %b
        %gw = matmul %x, %c ta=true tb=false
        return loss=%loss, grad.w=%gw
    }";
    assert_eq!(boundary(text), "loss");
    let buf = parse(text).unwrap();
    let (g, f) = (buf.view(), remat_facts(buf.view()));
    assert_eq!(named(g, &f.read_by_backward), ["h"], "leaves are always there, and no backward node reads %p");
    assert_eq!(named(g, &f.free), ["x", "w", "loss", "gw"]);
    assert!(f.is_forward(node(g, "loss")) && !f.is_forward(node(g, "a")));
    assert_eq!([f.position(node(g, "x")), f.position(node(g, "loss"))], [0, 4]);
}

#[test]
fn without_a_backward_half_the_boundary_is_where_most_is_kept() {
    // While %c is computed, %a and %b are kept; later, less is.
    assert_eq!(
        boundary(
            "graph @widest {
                %x = input : f32[64]
                %a = exp %x
                %b = sin %a
                %c = mul %a, %b
                %d = neg %c
                %e = mul %c, %d
                %f = neg %e
                return y=%f
            }"
        ),
        "b"
    );
    // The scalar output needs nothing that is read later.
    assert_eq!(
        boundary(
            "graph @apart {
                %x = input : f32[64]
                %s = reduce_sum %x axes=[0] keep=false
                %a = exp %x
                %b = sin %a
                %c = mul %a, %b
                %d = neg %c
                return s=%s, y=%d
            }"
        ),
        "b"
    );
}

#[test]
fn gradients_that_only_updates_read_are_not_what_is_kept() {
    // Each gradient waits for its update, the first through a scale: with these, most would be kept after %g3.
    let text = "graph @updates {
        %x = input : f32[64]
        %w1 = param init=ones scale=0 frozen=false : f32[64]
        %w2 = param init=ones scale=0 frozen=false : f32[64]
        %w3 = param init=ones scale=0 frozen=false : f32[64]
        %a = exp %x
        %b = sin %a
        %g1 = mul %a, %b
        %g2 = cos %g1
        %g3 = neg %g2
        %g4 = sqrt %g3
        %s1 = abs %g1
        %s2 = exp %s1
        %n1 = sub %w1, %s2
        %s3 = abs %g2
        %s4 = exp %s3
        %n2 = sub %w2, %s4
        %s5 = abs %g3
        %s6 = exp %s5
        %n3 = sub %w3, %s6
        update %w1 <- %n1
        update %w2 <- %n2
        update %w3 <- %n3
        return y=%g4
    }";
    assert_eq!(boundary(text), "b");
    // What others read too is no part of an update.
    assert_eq!(boundary(&text.replace("return y=%g4", "return y=%g4, s=%s1, t=%s3, u=%s5")), "g3");
}

#[test]
fn classes_are_by_operations_for_each_element() {
    let buf = parse(
        "graph @classes {
            %x = input : f32[16,16]
            %w = input : f32[512,512]
            %h = tanh %x
            %r = reshape %x shape=[256]
            %s = reduce_sum %x axes=[0,1] keep=false
            %m = softmax %x axis=1
            %small = matmul %x, %x ta=false tb=false
            %large = matmul %w, %w ta=false tb=false
            %mark = checkpoint %h
            %one = full value=1 : f32[16,16]
            %two = exp %one
            return a=%h, b=%r, c=%s, d=%m, e=%small, f=%large, g=%mark, h=%two
        }",
    )
    .unwrap();
    let (g, f) = (buf.view(), remat_facts(buf.view()));
    let class = |name: &str| f.class[node(g, name)];
    assert_eq!(["h", "r"].map(class), [Class::Pointwise; 2]);
    assert_eq!(["s", "m"].map(class), [Class::Cheap; 2]);
    // A product of n by n takes 2n operations for each element of three matrices.
    assert_eq!(["small", "large"].map(class), [Class::Cheap, Class::Expensive]);
    assert_eq!(["x", "mark", "one", "two"].map(class), [Class::Never; 4]);
    assert_eq!(named(g, &f.constant), ["one", "two"]);
    assert_eq!((f.bytes[value(g, "x")], f.bytes[value(g, "s")]), (1024, 4));
}

#[test]
fn at_twelve_operations_for_each_element_a_product_is_cheap() {
    // 2·18³ operations, and 3·18² elements.
    let buf = parse(
        "region @step(%c : f32[18], %s : f32[18]) {
            %n = add %c, %s
            yield %n
        }
        graph @edge {
            %x = input : f32[18,18]
            %y = input : f32[19,19]
            %start = input : f32[18]
            %p = matmul %x, %x ta=false tb=false
            %q = matmul %y, %y ta=false tb=false
            %l = scan %start, %x body=@step carries=1 consts=0 length=18 reverse=false
            return p=%p, q=%q, l=%l
        }",
    )
    .unwrap();
    let (g, f) = (buf.view(), remat_facts(buf.view()));
    assert_eq!(["p", "q", "l"].map(|name| f.class[node(g, name)]), [Class::Cheap, Class::Expensive, Class::Never]);
}

#[test]
fn one_reader_of_one_value_that_the_loss_needs_makes_a_backward_half() {
    // It reads a leaf beside it.
    assert_eq!(
        boundary(
            "graph @one {
                %x = input : f32[8,16]
                %h = tanh %x
                %loss = reduce_sum %h axes=[0,1] keep=false
                %g = mul %x, %h
                %y = neg %g
                return loss=%loss, y=%y
            }"
        ),
        "loss"
    );
    // Outputs that are no scalars are no loss.
    assert_eq!(
        boundary(
            "graph @vector {
                %x = input : f32[64]
                %h = tanh %x
                %m = neg %h
                %k = exp %h
                %loss = reduce_sum %k axes=[0] keep=false
                %g = mul %k, %h
                return m=%m, loss=%loss, g=%g
            }"
        ),
        "loss"
    );
    // Nothing waits.
    assert_eq!(boundary("graph @plain {\n %x = input : f32[64]\n %y = exp %x\n return y=%y\n}"), "x");
    // The loss reads its operand itself; nothing behind it does.
    assert_eq!(
        boundary(
            "graph @none {
                %x = input : f32[64]
                %a = exp %x
                %s = reduce_sum %a axes=[0] keep=false
                %b = sin %x
                %c = cos %b
                %d = mul %b, %c
                %e = neg %d
                return s=%s, y=%e
            }"
        ),
        "c"
    );
}

#[test]
fn an_op_with_an_effect_must_not_run_twice() {
    static EFFECT: OpDef = OpDef { name: "effect", flags: Flags::EFFECT, ..crate::nodes::ops::pointwise::math::RELU };
    let b = Builder::new("effect");
    let x = b.input("x", [8], DType::F32);
    let y = b.custom(&EFFECT, &[x], &[])[0].named("y");
    let buf = b.finish([y.sin().named("z")]).unwrap();
    let (g, f) = (buf.view(), remat_facts(buf.view()));
    assert_eq!(["y", "z"].map(|name| f.class[node(g, name)]), [Class::Never, Class::Pointwise]);
}
