//! Options by methods: they set the fields of their names, and all windows take them alike.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::window::{
    Conv, Conv2d, Conv3d, ConvTranspose, GridSample, GridSampling, Outside, Pool, Pool2d, Unfold,
};
use arenagrad::graph::{Attention, Builder, CrossEntropy, DType, Init, Loop, Reduction, Var};
use arenagrad::nn::{self, BatchNorm, Conv1d, ConvLayer, ConvTranspose2d, Linear, Lora, MultiHead};

#[test]
fn methods_set_the_fields_of_their_names() {
    let conv = Conv::default().stride([2, 3]).pad([1, 1, 0, 0]).dilation([1, 2]).groups(4);
    assert_eq!(Conv::default().stride([2, 3]).padding([1, 0]).dilation([1, 2]).groups(4), conv);
    assert_eq!(Conv2d::default().pad([1, 2, 3, 4]).pad, [1, 2, 3, 4]);
    assert_eq!(
        Conv3d::default().stride(2).padding(1).dilation(3),
        Conv3d::default().stride([2; 3]).pad([1; 6]).dilation([3; 3]).groups(1)
    );
    let conv = Conv1d::default().stride([2]).pad([3, 3]).dilation([4]).groups(5);
    assert_eq!(Conv1d::default().stride(2).padding([3]).dilation(4).groups(5), conv);
    let up = ConvTranspose::default().stride([2, 2]).pad([1, 0]).output_pad([1, 1]).dilation([1, 3]).groups(2);
    let same = ConvTranspose::default().stride(2).padding([1, 0]).output_padding(1).dilation([1, 3]).groups(2);
    assert_eq!(same, up);
    let pool = Pool::new([3, 3])
        .stride([2, 1])
        .pad([1; 4])
        .dilation([1, 2])
        .count_include_pad(false)
        .ceil_mode(true)
        .divisor_override(7);
    let same = Pool2d::new(3).stride([2, 1]).padding(1).dilation([1, 2]).count_include_pad(false).ceil_mode(true);
    assert_eq!(same.divisor_override(7), pool);
    let columns = Unfold::new([2, 2]).stride([3, 3]).pad([1, 1, 0, 0]).dilation([2, 1]);
    assert_eq!(Unfold::new(2).stride(3).padding([1, 0]).dilation([2, 1]), columns);
}

#[test]
fn windows_begin_without_gaps_and_padding() {
    let columns = Unfold::new([2, 3]).stride([1, 1]).pad([0; 4]).dilation([1, 1]);
    assert_eq!(Unfold::new([2, 3]), columns);
    assert_eq!(Conv1d::default(), Conv1d::default().stride([1]).pad([0, 0]).dilation([1]).groups(1));
    let pool = Pool::new([2, 3]).stride([2, 3]).pad([0; 4]).dilation([1, 1]).count_include_pad(true).ceil_mode(false);
    assert_eq!(Pool2d::new([2, 3]), pool);
    let grid = GridSample::default().mode(GridSampling::Linear).padding(Outside::Zeros).align_corners(false);
    assert_eq!(GridSample::default(), grid);
}

/// Windows that all have as many elements are a pool of means; others are sums, which are then divided.
#[test]
fn means_are_sums_only_where_windows_differ() {
    let ops = |opt: Pool2d| {
        let g = Builder::new("mean");
        let y = g.input("x", [1, 1, 5, 6], DType::F32).avg_pool2d(opt);
        let text = g.finish([y]).unwrap().to_string();
        ["= avg_pool2d ", "= sum_pool2d "].map(|op| text.matches(op).count())
    };
    let plain = Pool2d::new([2, 2]);
    assert_eq!(ops(plain), [1, 0]);
    assert_eq!(ops(plain.padding(1)), [1, 0]);
    assert_eq!(ops(plain.padding(1).count_include_pad(false)), [1, 0]);
    assert_eq!(ops(plain.count_include_pad(false).ceil_mode(true)), [1, 0]);
    // The last window of five rows reaches beyond them.
    assert_eq!(ops(plain.ceil_mode(true)), [0, 1]);
    assert_eq!(ops(plain.divisor_override(3)), [0, 1]);
    // Windows of all five rows and of two of six columns leave nothing over.
    assert_eq!(ops(Pool2d::new([5, 2]).ceil_mode(true)), [1, 0]);
}

#[test]
fn other_options_have_methods_too() {
    let linear = Linear::default().bias(false).weight_init(Init::Ones);
    assert_eq!(Linear::default().bias(false).weight_init(Init::Ones), linear);
    assert_eq!(
        BatchNorm::default().eps(1e-3).training(false),
        BatchNorm::default().eps(1e-3).momentum(0.1).training(false)
    );
    assert_eq!(Lora::new(2, 3.0), Lora::new(2, 3.0).dropout(0.0).bias(true).rslora(false));
    let lora = Lora::new(2, 3.0).dropout(0.1).bias(false).rslora(true);
    assert_eq!(Lora::new(2, 3.0).dropout(0.1).bias(false).rslora(true), lora);
    let grid = GridSample::default().padding(Outside::Border).align_corners(true);
    assert_eq!(GridSample::default().padding(Outside::Border).align_corners(true), grid);
    let how = Loop::default().length(3).reverse(true).keep_every(2).at_once(false);
    assert_eq!(Loop::default().length(3).reverse(true).keep_every(2), how);
    let loss = CrossEntropy::default().reduction(Reduction::Sum).label_smoothing(0.1);
    assert_eq!((loss.reduction, loss.label_smoothing, loss.ignore_index), (Reduction::Sum, 0.1, -100));
    let attend = Attention::default().causal(true).window(4).heads(2);
    assert_eq!((attend.causal, attend.window, attend.heads), (true, Some(4), 2));
    let heads = MultiHead::new(4).kv_heads(2).causal(true).bias(false);
    assert_eq!((heads.heads, heads.kv_heads, heads.causal, heads.bias), (4, 2, true, false));
}

/// Names and start values of the params of a layer, and the dims of its result.
fn layer(dims: &[usize], f: impl for<'g> Fn(&'g Builder, Var<'g>) -> Var<'g>) -> (Vec<String>, Vec<usize>) {
    let g = Builder::new("layer");
    let y = f(&g, g.input("x", dims, DType::F32));
    let out = y.dims().to_vec();
    let graph = g.finish([y]).unwrap();
    let text = graph.to_string();
    let params = text.lines().filter(|l| l.contains("= param ") || l.contains("param("));
    (params.map(str::to_string).collect(), out)
}

#[test]
fn layers_of_windows_take_the_same_options() {
    let without = |dims: &[usize], f: &dyn for<'g> Fn(&'g Builder, Var<'g>) -> Var<'g>, want: &[usize]| {
        let (params, out) = layer(dims, f);
        assert_eq!((params.len(), &out[..]), (1, want), "{params:?}");
        assert!(params[0].contains("n.weight"), "{params:?}");
    };
    let (one, two, three) = (Conv1d::default().padding(1), Conv2d::default().padding(1), Conv3d::default().padding(1));
    without(&[2, 4, 9], &|g, x| nn::conv1d(g, "n", x, 6, 3, one.bias(false)), &[2, 6, 9]);
    without(&[2, 4, 9, 8], &|g, x| nn::conv2d(g, "n", x, 6, 3, two.bias(false)), &[2, 6, 9, 8]);
    without(&[2, 4, 9, 8], &|g, x| nn::conv2d(g, "n", x, 6, [3, 1], two.bias(false)), &[2, 6, 9, 10]);
    without(&[1, 2, 3, 4, 5], &|g, x| nn::conv3d(g, "n", x, 6, 3, three.bias(false)), &[1, 6, 3, 4, 5]);
    let up = ConvTranspose2d::default().stride(2).bias(false);
    without(&[2, 4, 3, 3], &|g, x| nn::conv_transpose2d(g, "n", x, 6, 2, up), &[2, 6, 6, 6]);
    // A layer's options take those of the windows after `.bias(…)` as well.
    assert_eq!(two.bias(false).stride(2).groups(2), ConvLayer::from(two.stride(2).groups(2)).bias(false));
    let (params, _) = layer(&[2, 4, 9], |g, x| {
        nn::conv1d(g, "n", x, 6, [3], one.weight_init(Init::Normal(0.5)).bias_init(Init::Zeros))
    });
    assert!(params.len() == 2 && params[0].contains("init=normal scale=0.5"), "{params:?}");
    assert!(params[1].contains("init=zeros"), "{params:?}");
}

/// torch's start values, ±1/√n: n counts the elements of the weight without its first axis.
#[test]
fn windows_start_by_the_size_of_an_output() {
    let quarter = |dims: &[usize], f: &dyn for<'g> Fn(&'g Builder, Var<'g>) -> Var<'g>| {
        let (params, _) = layer(dims, f);
        assert!(params.len() == 2 && params.iter().all(|p| p.contains("init=uniform scale=0.25 ")), "{params:?}");
    };
    quarter(&[1, 8, 9], &|g, x| nn::conv1d(g, "n", x, 6, 4, Conv1d::default().groups(2)));
    quarter(&[1, 8, 5, 5], &|g, x| nn::conv_transpose2d(g, "n", x, 4, 2, ConvTranspose2d::default()));
}

#[test]
fn an_embedding_takes_its_dtype_from_its_user() {
    use arenagrad::session::Session;
    let g = Builder::new("table");
    let i = g.input("i", [2], DType::I64);
    let table = g.start_values(&[0.1, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let y = nn::embedding_with(&g, "e", i, [3, 2], nn::Embedding::default().dtype(DType::F64).weight_init(table));
    let half = nn::embedding(&g, "h", i, 3, 2, DType::BF16);
    assert_eq!((y.dtype(), half.dtype()), (DType::F64, DType::BF16));
    let mut p = Session::new().compile(&g.finish([y.named("y")]).unwrap()).unwrap();
    p.init(0).unwrap();
    p.values_mut::<i64>("i").unwrap().copy_from_slice(&[2, 0]);
    p.step().unwrap();
    assert_eq!(p.values::<f64>("y").unwrap(), [4.0, 5.0, 0.1, 1.0]);
    // Without start values of its user, a table is standard normal.
    let g = Builder::new("plain");
    g.reuse(|| {
        nn::embedding(&g, "e", g.input("i", [2], DType::I32), 3, 2, DType::F32);
        g.param("e.weight", [3, 2], DType::F32, Init::Normal(1.0));
    });
    assert!(g.error().is_none(), "{:?}", g.error());
    let g = Builder::new("bad");
    let i = g.input("i", [2], DType::I32);
    nn::embedding_with(&g, "e", i, [3, 2], nn::Embedding::default().padding(3));
    let e = g.finish([]).unwrap_err().to_string();
    assert!(e.starts_with("layer \"e\": ") && e.contains('3'), "{e}");
}

#[test]
fn numbers_stand_on_either_side_of_a_choice() {
    use arenagrad::graph::GradOptions;
    use arenagrad::session::Session;
    let g = Builder::new("choice");
    let x = g.param("x", [4], DType::F64, Init::Ones);
    let some = x.greater(0.0);
    let outputs = [
        some.select(x, -1.0).named("right"),
        some.select(2.0, x).named("left"),
        x.where_(some, 7.0).named("where"),
        some.select_as(1.0, 0.5, DType::F64).named("both"),
        some.select_as(3.0, -2.0, DType::I32).named("whole"),
    ];
    let loss = (outputs[0] * 2.0 + outputs[1] * 3.0 + outputs[2] * 5.0).sum(..).named("loss");
    let graph = g.finish(outputs.into_iter().chain([loss])).unwrap();
    let step = graph.grad("loss", &GradOptions::wrt(&["x"])).unwrap();
    let mut p = Session::new().compile(&step).unwrap();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&[0.5, -0.25, 0.0, 4.0]);
    p.step().unwrap();
    assert_eq!(p.values::<f64>("right").unwrap(), [0.5, -1.0, -1.0, 4.0]);
    assert_eq!(p.values::<f64>("left").unwrap(), [2.0, -0.25, 0.0, 2.0]);
    assert_eq!(p.values::<f64>("where").unwrap(), [0.5, 7.0, 7.0, 4.0]);
    assert_eq!(p.values::<f64>("both").unwrap(), [1.0, 0.5, 0.5, 1.0]);
    assert_eq!(p.values::<i32>("whole").unwrap(), [3, -2, -2, 3]);
    assert_eq!(p.values::<f64>("grad.x").unwrap(), [7.0, 3.0, 3.0, 7.0]);
}

#[test]
fn choices_between_numbers_that_have_no_sense_are_refused() {
    let refuses = |words: &[&str], f: &dyn for<'g> Fn(Var<'g>)| {
        let g = Builder::new("bad");
        f(g.input("c", [4], DType::Bool));
        let e = g.finish([]).unwrap_err().to_string();
        assert!(words.iter().all(|w| e.contains(w)) && e.contains("tests/ops/layer_options.rs:"), "{words:?}: {e}");
    };
    refuses(&["select: two numbers have no type", "select_as"], &|c| _ = c.select(1.0, 0.0));
    refuses(&["select_as(%0: bool[4]): 0.5 is no element of i32"], &|c| _ = c.select_as(0.5, 0.0, DType::I32));
    refuses(&["-1.0 is no element of u8"], &|c| _ = c.select_as(1.0, -1.0, DType::U8));
    refuses(&["select", "0.5"], &|c| _ = c.select(c.cast(DType::I32), 0.5));
    refuses(&["the condition is f32; bool is needed"], &|c| _ = c.cast(DType::F32).select_as(1.0, 0.0, DType::F32));
    refuses(&["the condition is i32; bool is needed"], &|c| _ = c.where_(c.cast(DType::I32), c));
}

/// With a number of inputs stated, images with the channels last are an error that names the layer.
#[test]
fn layers_may_state_their_inputs() {
    let error = |f: &dyn for<'g> Fn(&'g Builder, Var<'g>) -> Var<'g>, dims: &[usize]| {
        let g = Builder::new("net");
        let y = f(&g, g.input("x", dims, DType::F32));
        g.finish([y.named("y")]).err().map(|e| e.to_string())
    };
    type Layer = &'static dyn for<'g> Fn(&'g Builder, Var<'g>) -> Var<'g>;
    let layers: [(Layer, &[usize], &[usize]); 4] = [
        (&|g, x| nn::conv2d(g, "conv", x, 4, 3, Conv2d::default().inputs(3).bias(false)), &[2, 3, 8, 8], &[2, 8, 8, 3]),
        (
            &|g, x| nn::conv_transpose1d(g, "up", x, 4, 3, nn::ConvTranspose1d::default().inputs(3)),
            &[2, 3, 8],
            &[2, 8, 3],
        ),
        (&|g, x| nn::linear_with(g, "fc", x, 4, Linear::default().inputs(3)), &[8, 3], &[3, 8]),
        (&|g, x| nn::batch_norm(g, "bn", x, BatchNorm::default().inputs(3)), &[2, 3, 8, 8], &[2, 8, 8, 3]),
    ];
    for (layer, right, wrong) in layers {
        assert_eq!(error(layer, right), None);
        let e = error(layer, wrong).unwrap();
        assert!(e.contains("layer \"") && e.contains("is to have 3 inputs and has 8"), "{e}");
    }
}
