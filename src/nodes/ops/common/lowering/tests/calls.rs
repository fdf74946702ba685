//! What calls tell the planner beside their kernels: cost classes, operations, operands that are read as a whole,
//! in-place pairs, temporaries, and which results a call leaves out. No result shows these.

use super::graph;
use crate::arena::ids::Id;
use crate::kernels::abi::Split;
use crate::kernels::attention::rope::Rope;
use crate::kernels::attention::{AttentionShape, BLOCK_KEYS, CHUNK_QUERIES};
use crate::kernels::cost_model::CostClass;
use crate::kernels::dequant::DequantMatmul;
use crate::kernels::int_gemm::{IntConv, IntGemm};
use crate::nodes::ir::call::{Buf, Call, Temp, View};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Case, Domain, Op};
use crate::nodes::ops::lower_any_op;
use crate::nodes::ops::table::OPS;

/// The calls of a node, its temporaries and its views.
struct Lowered {
    calls: Vec<Call>,
    temps: Vec<Temp>,
    views: Vec<View>,
}

/// Lowers op `name` on operands `args`, with `f` as `float`, for `threads` threads. Results have readers where `used`
/// is true.
fn lowered(name: &str, [args, attrs]: [&'static str; 2], float: DType, (threads, used): (usize, &[bool])) -> Lowered {
    let at = OPS.iter().position(|def| def.name == name).unwrap();
    let case = Case { args, attrs, domains: &[Domain::Real] };
    let g = graph(Op(at as u16), OPS[at], &case, float);
    let n = g.view().def[g.view().outputs()[0].at()];
    let mut cx = LowerCx::new(g.view(), n, used);
    cx.threads = threads;
    lower_any_op(&mut cx).unwrap();
    Lowered { calls: cx.calls, temps: cx.temps, views: cx.views }
}

/// A temporary of `f32`.
fn shared(len: usize) -> Temp {
    Temp { size: 4, len, per_thread: false }
}

/// Scratch of `f32` for each thread.
fn scratch(len: usize) -> Temp {
    Temp { size: 4, len, per_thread: true }
}

#[test]
fn softmaxes_along_the_last_axis_write_over_an_operand() {
    for (name, args, pair) in [
        ("softmax", "f[3,5,2]", Some((0, 0))),
        ("softmax_backward", "f[3,5,2] f[3,5,2]", Some((1, 0))),
        ("log_softmax", "f[3,5,2]", None),
        ("log_softmax_backward", "f[3,5,2] f[3,5,2]", None),
    ] {
        for (attrs, last) in [("axis=2", true), ("axis=1", false), ("axis=0", false)] {
            let l = lowered(name, [args, attrs], DType::F32, (1, &[true]));
            let want: Vec<(usize, usize)> = pair.filter(|_| last).into_iter().collect();
            assert_eq!((&l.calls[0].inplace, l.calls[0].work), (&want, CostClass::SOFTMAX), "{name} {attrs}");
        }
    }
}

#[test]
fn attention_leaves_out_sums_that_nothing_reads() {
    let bsd = "layout=bsd heads=2 kv_heads=1 mask=window window=90 ahead=0 top_left=false scale=0 softcap=0 \
               padding=false bias=false dropout=0 stream=0";
    let of = |used: &[bool]| lowered("attention", ["f[1,70,6] f[1,137,3] f[1,137,3]", bsd], DType::F32, (1, used));
    let l = of(&[true, true]);
    let p = AttentionShape::from_words(&l.calls[0].params);
    assert!(p.seq_major && !p.dlse && !p.packed);
    assert_eq!(l.temps, [shared(140), scratch(p.forward_scratch_for(DType::F32))]);
    // Units of 35 queries with both heads. Each of 140 rows sees up to 91 keys, with 12 operations for each.
    let call = &l.calls[0];
    assert_eq!((call.units, call.flops, call.ops, call.work), (2, 152_880, 152_880, CostClass::ATTENTION));
    assert_eq!(call.reads, [0, 1, 2].map(Buf::Arg));
    assert_eq!(call.writes[..2], [(Buf::Out(0), Split::PerUnit(210)), (Buf::Temp(0), Split::PerUnit(70))]);
    assert_eq!((l.calls.len(), &l.calls[1].reads[..], l.calls[1].writes[0].0), (2, &[Buf::Temp(0)][..], Buf::Out(1)));
    assert_eq!(of(&[true, false]).calls.len(), 1);
    // With one head, the sums are in the order of the result.
    let one = "layout=bsd heads=1 kv_heads=1 mask=causal window=0 ahead=0 top_left=false scale=0 softcap=0 \
               padding=false bias=false dropout=0 stream=0";
    let l = lowered("attention", ["f[1,70,3] f[1,137,3] f[1,137,3]", one], DType::F32, (1, &[true, true]));
    assert_eq!((l.calls.len(), l.calls[0].writes[1].0, l.temps.len()), (1, Buf::Out(1), 1));
}

/// 300 queries, 421 keys, heads of 8: 126,300 pairs with 80 operations each.
#[test]
fn the_adjoint_of_one_head_is_divided_by_keys_and_by_queries() {
    let args = "f[1,1,300,8] f[1,1,300,8] f[1,1,421,8] f[1,1,421,8] f[1,1,300,8] f[1,1,300] f[1,1,300,421]";
    let attrs = "layout=bhsd heads=1 kv_heads=1 mask=none window=0 ahead=0 top_left=false scale=0 softcap=0 \
                 padding=false bias=true dropout=0 stream=0 dlse=false";
    let of = |threads, used: &[bool]| lowered("attention_backward", [args, attrs], DType::F32, (threads, used));
    let per = |buf, len| (buf, Split::PerUnit(len));
    let l = of(2, &[true; 4]);
    let len = AttentionShape::from_words(&l.calls[0].params).backward_scratch_for(DType::F32);
    assert_eq!(l.temps, [scratch(len); 2]);
    let [keys, queries] = &l.calls[..] else { panic!("{} calls", l.calls.len()) };
    assert_eq!((keys.units, keys.flops, queries.units, queries.flops), (4, 5_773_712, 2, 4_330_284));
    assert_eq!(keys.writes[..2], [per(Buf::Out(1), BLOCK_KEYS * 8), per(Buf::Out(2), BLOCK_KEYS * 8)]);
    assert_eq!((keys.writes[2].0, queries.writes[1].0), (Buf::Temp(0), Buf::Temp(1)));
    assert_eq!(queries.writes[0], per(Buf::Out(0), CHUNK_QUERIES * 8));
    assert_eq!(queries.writes[2], per(Buf::Out(3), CHUNK_QUERIES * 421));
    // The gradient of the bias is left out if nothing reads it.
    assert_eq!(of(2, &[true, true, true, false]).calls[1].writes.len(), 2);
    let l = of(1, &[true; 4]);
    assert_eq!((l.calls.len(), l.calls[0].units, l.calls[0].flops), (1, 1, 10_104_000));
    assert_eq!(l.calls[0].work, CostClass::ATTENTION_BACKWARD);
    let writes = &l.calls[0].writes;
    assert_eq!(writes[..3], [per(Buf::Out(0), 2400), per(Buf::Out(1), 3368), per(Buf::Out(2), 3368)]);
    assert_eq!((writes[3].0, writes[4]), (Buf::Temp(0), per(Buf::Out(3), 126_300)));
    assert_eq!(of(1, &[true, true, true, false]).calls[0].writes.len(), 4);
}

#[test]
fn gradients_in_the_order_of_heads_are_copied_if_something_reads_them() {
    let args = "f[2,5,4,5] f[2,5,4,3] f[2,4,2,3] f[2,4,2,5] f[2,5,4,5] f[2,4,5] f[2,4,5]";
    let attrs = "layout=bshd heads=4 kv_heads=2 mask=causal window=0 ahead=0 top_left=false scale=0.7 softcap=1.5 \
                 padding=false bias=false dropout=0 stream=0 dlse=true";
    let l = lowered("attention_backward", [args, attrs], DType::F32, (1, &[true, false, true]));
    assert_eq!(l.temps[..3], [shared(120), shared(48), shared(80)]);
    assert_eq!(l.calls[0].reads.len(), 7);
    let copies: Vec<(Buf, Buf)> = l.calls[1..].iter().map(|c| (c.reads[0], c.writes[0].0)).collect();
    assert_eq!(copies, [(Buf::Temp(0), Buf::Out(0)), (Buf::Temp(2), Buf::Out(2))]);
    // Packed operands count as three reads, and one call packs the gradients.
    let attrs = "layout=bsd heads=2 kv_heads=2 mask=causal window=0 ahead=0 top_left=false scale=0 softcap=0 \
                 padding=false bias=false dropout=0 stream=0 dlse=false";
    let args = "f[2,5,8] f[2,5,24] f[2,5,8] f[2,2,5]";
    let l = lowered("attention_packed_backward", [args, attrs], DType::F32, (1, &[true]));
    assert_eq!(l.calls[0].reads, [0, 1, 1, 1, 2, 3].map(Buf::Arg));
    assert_eq!((l.calls.len(), l.calls[1].units), (2, 1));
    assert_eq!(l.calls[1].reads, [0, 1, 2].map(Buf::Temp));
    assert_eq!(l.calls[1].writes, [(Buf::Out(0), Split::PerUnit(16 * 24))]);
}

#[test]
fn a_rotation_of_nothing_is_a_view() {
    let attrs = "layout=bsd heads=1 pairing=halves inverse=false";
    let l = lowered("rope", ["f[1,5,6] f[5,0] f[5,0]", attrs], DType::F32, (1, &[true]));
    assert_eq!((l.calls.len(), l.views), (0, vec![View { out: 0, arg: 0, offset: 0 }]));
    let attrs = "layout=bhsd heads=3 pairing=neighbours inverse=true";
    let l = lowered("rope", ["f[2,3,5,4] f[2,5,2] f[2,5,2]", attrs], DType::F32, (1, &[true]));
    let want =
        Rope { rows: 30, width: 4, pairs: 2, inner: 1, seq: 5, per_sequence: 15, neighbours: true, inverse: true };
    assert_eq!((Rope::from_words(&l.calls[0].params), &l.calls[0].inplace[..]), (want, &[(0, 0)][..]));
    let attrs = "layout=bshd heads=3 pairing=halves inverse=false";
    let l = lowered("rope", ["f[2,5,3,4] f[5,1] f[5,1]", attrs], DType::F32, (1, &[true]));
    let p = Rope::from_words(&l.calls[0].params);
    assert_eq!((p.inner, p.per_sequence, p.pairs, p.neighbours, p.inverse), (3, 0, 1, false, false));
}

#[cfg(feature = "gguf")]
#[test]
fn products_with_blocks_count_what_decoding_takes() {
    use crate::kernels::gguf::{GgufGrouped, GgufMatmul};
    for (float, class) in [(DType::F32, CostClass::PRODUCT), (DType::F64, CostClass::PRODUCT_F64)] {
        let attrs = "block_type=Q4_0 n=5 k=64 back=false";
        let l = lowered("gguf_matmul", ["f[3,64] u8[180]", attrs], float, (1, &[true]));
        let call = &l.calls[0];
        // 15 sums of 64 terms, and 320 elements to decode.
        assert_eq!((call.flops, call.ops, call.whole, call.work), (1920, 1920 + 16 * 320, 1, class));
        let p = GgufMatmul::from_words(&call.params);
        assert_eq!((p.m, p.n, p.k, p.back), (3, 5, 64, false));
        assert_eq!(l.temps, [Temp { size: float.size(), len: p.scratch(float.size()), per_thread: true }]);
        let attrs = "block_type=Q4_0 groups=3 n=5 k=32 back=false by_size=false";
        let l = lowered("gguf_grouped_matmul", ["f[7,32] u8[270] i32[7]", attrs], float, (1, &[true]));
        let call = l.calls.iter().find(|c| c.work == class).unwrap();
        // 35 sums of 32 terms, and the matrices of 3 groups.
        assert_eq!((call.flops, call.ops, call.whole), (2240, 2240 + 16 * 480, 5));
        let p = GgufGrouped::from_words(&call.params);
        assert_eq!((p.rows, p.n, p.k, p.groups, p.back), (7, 5, 32, 3, false));
    }
    // Two rows are of two groups at most.
    let attrs = "block_type=Q4_0 groups=3 n=5 k=32 back=false by_size=true";
    let l = lowered("gguf_grouped_matmul", ["f[2,32] u8[270] i32[3]", attrs], DType::F32, (1, &[true]));
    let call = l.calls.iter().find(|c| c.work == CostClass::PRODUCT).unwrap();
    assert_eq!((call.flops, call.ops), (640, 640 + 16 * 320));
}

#[test]
fn products_with_coded_weights_have_the_class_and_scratch_of_their_floats() {
    for (float, class) in [(DType::F32, CostClass::PRODUCT), (DType::F64, CostClass::PRODUCT_F64)] {
        let attrs = "scheme=int8 block=16 k=20 transposed=false";
        let l = lowered("dequant_matmul", ["f[70,20] i8[20,33] f[2,33]", attrs], float, (1, &[true]));
        let call = &l.calls[0];
        let p = DequantMatmul::from_words(&call.params);
        let want = DequantMatmul { m: 70, k: 20, n: 33, block: 16, zeros: false, transposed: false, ..p };
        assert_eq!((p, call.whole, call.work), (want, 1, class));
        let len = if float == DType::F64 { p.scratch::<f64>() } else { p.scratch::<f32>() };
        assert_eq!(l.temps, [Temp { size: float.size(), len, per_thread: true }]);
    }
    let l = lowered("dequant", ["i8[7,33] f[3,33] f[3,33]", "scheme=int8 block=3 k=7"], DType::F32, (1, &[true]));
    let p = DequantMatmul::from_words(&l.calls[0].params);
    assert_eq!(p, DequantMatmul { m: 0, k: 7, n: 33, block: 3, zeros: true, transposed: false, ..p });
    assert_eq!(l.calls[0].work, CostClass::DEQUANT);
}

#[test]
fn products_of_codes_keep_their_sums_and_read_weights_whole() {
    let attrs = "x_zp=-8 w_zp=0 out_zp=-7 s_x=0.01 s_w=1 s_out=3 to=i8 zeros=false scales=true ste=plain";
    let l = lowered("q_matmul", ["i8[70,33] i8[33,19] f32[19]", attrs], DType::F32, (1, &[true]));
    let p = IntGemm::from_words(&l.calls[0].params);
    let want = IntGemm {
        batch: 1,
        m: 70,
        n: 19,
        k: 33,
        ta: false,
        tb: false,
        a_signed: true,
        b_signed: true,
        a_zero: -8,
        b_zero: 0,
    };
    assert_eq!(p, want);
    assert_eq!(l.temps, [shared(1330), scratch(p.scratch()), shared(19)]);
    let (product, last) = (&l.calls[0], &l.calls[2]);
    assert_eq!((product.whole, product.work, product.writes[0].0), (2, CostClass::PRODUCT_I8, Buf::Temp(0)));
    assert_eq!((l.calls[1].looks.is_some(), l.calls[1].writes[0].0), (true, Buf::Temp(2)));
    assert_eq!((last.ops, last.work, &last.reads[..]), (1330, CostClass::DEQUANT, &[Buf::Temp(0), Buf::Temp(2)][..]));
    // One row with many columns: each unit has columns of its own, and reads x as a whole.
    let attrs = "x_zp=0 w_zp=0 out_zp=0 s_x=1 s_w=1 s_out=1 to=i32 zeros=false scales=false ste=masked";
    let l = lowered("q_matmul", ["i8[1,300] i8[300,260]", attrs], DType::F32, (1, &[true]));
    let p = IntGemm::from_words(&l.calls[0].params);
    assert!(p.unit_columns().is_some());
    assert_eq!((l.calls.len(), l.calls[0].whole, l.calls[0].writes[0].0), (1, 1, Buf::Out(0)));
    assert_eq!(l.temps, [scratch(p.scratch())]);
}

#[test]
fn a_convolution_of_codes_has_a_sum_for_each_element() {
    let attrs = "stride=[1,1] pad=[1,1,1,1] dilation=[1,1] groups=1 x_zp=3 w_zp=-1 out_zp=5 s_x=0.5 s_w=0.2 \
                 s_out=600 to=i8 zeros=false scales=false ste=masked";
    let l = lowered("q_conv2d", ["i8[2,3,5,6] i8[4,3,3,2] i32[4]", attrs], DType::F32, (1, &[true]));
    let p = IntConv::from_words(&l.calls[0].params);
    assert_eq!((p.images, p.groups, p.channels, p.m, p.windows.size, p.windows.out()), (2, 1, 3, 4, [5, 6], [5, 7]));
    assert_eq!(l.temps, [shared(280), scratch(p.scratch())]);
    assert_eq!((l.calls[0].whole, l.calls[0].work), (2, CostClass::PRODUCT_I8));
    assert_eq!((l.calls[1].ops, &l.calls[1].reads[..]), (280, &[Buf::Temp(0), Buf::Arg(2)][..]));
}

#[test]
fn the_sum_for_a_learned_scale_is_left_out_if_nothing_reads_it() {
    let of =
        |used: &[bool]| lowered("lsq_backward", ["f[3,5] f[3,5] f[]", "lo=-7 hi=7 factor=one"], DType::F32, (1, used));
    let l = of(&[true, true]);
    assert_eq!(l.temps, [shared(1), shared(1), scratch(2 * 4096)]);
    let call = &l.calls[1];
    assert_eq!((&call.inplace[..], call.flops, call.work), (&[(0, 0), (1, 0)][..], 120, CostClass::REDUCE));
    assert_eq!((l.calls.len(), l.calls[2].reads[0], l.calls[2].writes[0].0), (3, Buf::Temp(1), Buf::Out(1)));
    assert_eq!(of(&[true, false]).calls.len(), 2);
    let l = lowered("positive_scale", ["f[5]", ""], DType::F32, (1, &[true]));
    assert!(l.calls[0].looks.is_some() && l.calls[0].inplace == [(0, 0)]);
}
