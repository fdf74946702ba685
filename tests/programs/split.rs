//! Steps of two graphs: with the kept gradients as they are, params and states have the bits of one graph.

use arenagrad::nn::{self, BatchNorm};
use arenagrad::optim::{self, Group, LossScale, Optimiser, Rule, train_split};
use arenagrad::prelude::*;

/// Two layers around batch norm, with dropout: states and a random key that the forward half moves.
pub fn net(rows: usize, dtype: DType) -> GraphBuf {
    let g = Builder::new("net");
    let x = g.input("x", [rows, 6], dtype);
    let w = g.param("w", [6, 5], dtype, Init::Normal(0.5));
    let h = nn::batch_norm(&g, "bn", x.matmul(w), BatchNorm::default()).tanh();
    let h = nn::linear(&g, "fc", h, 3);
    g.finish([(h - g.input("y", [rows, 3], dtype)).square().mean(..).named("loss")]).unwrap()
}

/// Writes inputs that depend on the step.
pub fn fill(p: &mut Program, step: usize, dtype: DType) {
    let noise = |i: usize| f64::from(((i + 977 * step) as u32).wrapping_mul(2_654_435_761) >> 8) / 8_388_608.0 - 1.0;
    for name in ["x", "y"] {
        match dtype {
            DType::F32 => {
                p.values_mut::<f32>(name).unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = noise(i) as f32)
            }
            _ => p.values_mut::<f64>(name).unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = noise(i)),
        }
    }
}

/// Params and states but the kept gradients, by name.
pub fn kept(p: &Program) -> Vec<(String, Vec<u8>)> {
    let own = p.persistent().filter(|(b, _)| !b.name.starts_with("dp."));
    let mut all: Vec<_> = own.map(|(b, bytes)| (b.name.clone(), bytes.to_vec())).collect();
    all.sort();
    all
}

/// Both steps of one optimiser give the same bits.
fn same_bits(what: &str, opt: &Optimiser, dtype: DType) {
    let graph = net(8, dtype);
    let mut one = Session::new().compile(&train(&graph, "loss", opt).unwrap()).unwrap();
    let split = train_split(&graph, "loss", opt).unwrap();
    let mut two = Session::new().compile_all(&split.methods()).unwrap();
    one.init(3).unwrap();
    two.init(3).unwrap();
    let methods = ["grads", "update"].map(|name| two.method(name).unwrap());
    for step in 0..4 {
        fill(&mut one, step, dtype);
        fill(&mut two, step, dtype);
        one.step().unwrap();
        methods.iter().for_each(|&m| two.run(m).unwrap());
    }
    let (one, two) = (kept(&one), kept(&two));
    let names = |all: &[(String, Vec<u8>)]| all.iter().map(|x| x.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&one), names(&two), "{what} {dtype}");
    let far = one.iter().zip(&two).find(|(a, b)| a != b).map(|(a, _)| &a.0);
    assert!(far.is_none(), "{what} {dtype}: {far:?} differs");
}

fn rules() -> [Rule; 16] {
    [
        Rule::SGD,
        optim::Sgd::new(0.1).momentum(0.9).nesterov(true).weight_decay(0.1).rule(),
        Rule::ADAM,
        Rule::ADAMW,
        optim::AdamW::new(0.1).amsgrad(true).rule(),
        Rule::ADAMAX,
        Rule::RADAM,
        Rule::LBFGS,
        Rule::RMSPROP,
        Rule::ADAGRAD,
        Rule::ADADELTA,
        Rule::NADAM,
        Rule::NADAMW,
        Rule::LION,
        Rule::LAMB,
        Rule::ADAFACTOR,
    ]
}

#[test]
fn every_rule_has_the_bits_of_one_graph() {
    for rule in rules() {
        same_bits(rule.name(), &Optimiser::new(rule, 0.02), DType::F32);
        same_bits(rule.name(), &Optimiser::new(rule, 0.02), DType::F64);
    }
    let muon = optim::Muon::new(0.02);
    let flat = Group::default().rule(Rule::ADAMW).lr_scale(0.1);
    let muon = muon.group("w", Group::default()).group("fc.weight", Group::default()).group("*", flat);
    same_bits("muon", &muon.into(), DType::F32);
}

#[test]
fn every_option_has_the_bits_of_one_graph() {
    let adamw = || optim::AdamW::new(0.02);
    let options: [(&str, Optimiser); 9] = [
        ("clip_norm", adamw().clip_norm(0.1).into()),
        ("clip_value", adamw().clip_value(0.01).clip_norm(0.1).norm_type(1.0).clip_each(true).into()),
        ("grad_norm", adamw().grad_norm(true).clip_norm(0.2).into()),
        ("groups", adamw().group("fc.*", Group::default().lr_scale(0.5).weight_decay(0.0)).freeze("bn.weight").into()),
        ("ema", adamw().ema(0.9).into()),
        ("maximize", adamw().maximize(true).into()),
        ("loss_scale", adamw().loss_scale(LossScale::dynamic().growth_interval(2)).clip_norm(0.1).into()),
        ("accumulate", adamw().accumulate(3).clip_norm(0.1).into()),
        ("project", adamw().project("w", |w| w.clamp(-0.3, 0.3)).accumulate(2).ema(0.5).into()),
    ];
    for (what, opt) in options {
        same_bits(what, &opt, DType::F32);
        same_bits(what, &opt, DType::F64);
    }
}

/// Gradients of complex params are pairs of reals. Those of one dtype lie one after another in the arena, in lines.
#[test]
fn gradients_lie_where_the_layout_says() {
    let g = Builder::new("g");
    let z = g.param("z", [2], DType::C64, Init::Ones);
    let (a, b) = (g.param("a", [3], DType::F64, Init::Ones), g.param("b", [2, 2], DType::F32, Init::Ones));
    let wide = (a * g.constant_f64(&[1.0, 2.0, 3.0], [3])).sum(..);
    let loss = (b * 5.0).sum(..).cast(DType::F64) + wide + z.abs2().sum(..).cast(DType::F64);
    let split = train_split(&g.finish([loss.named("loss")]).unwrap(), "loss", optim::Sgd::new(0.5)).unwrap();
    let places: Vec<_> = split.layout.params.iter().map(|p| (p.name.as_str(), p.dtype, p.range.clone())).collect();
    assert_eq!(places, [("b", DType::F32, 0..4), ("a", DType::F64, 0..3), ("z", DType::F32, 16..20)]);
    assert_eq!(split.layout.buckets(DType::F32, 12, 1), [0..16, 16..32]);
    assert_eq!(split.layout.buckets(DType::F64, 1 << 20, 3), vec![0..8; 1]);
    let mut p = Session::new().compile_all(&split.methods()).unwrap();
    p.init(0).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<f32>("dp.grad.b").unwrap(), [5.0; 4]);
    assert_eq!(p.values::<f64>("dp.grad.a").unwrap(), [1.0, 2.0, 3.0]);
    let offset = |name: &str| p.bindings().iter().find(|b| b.name == name).unwrap().offset;
    assert_eq!((offset("dp.grad.z"), offset("dp.grad.a")), (offset("dp.grad.b") + 64, offset("dp.grad.b") + 128));
    p.run(p.method("update").unwrap()).unwrap();
    assert_eq!(p.values::<f64>("a").unwrap(), [0.5, 0.0, -0.5]);
    assert_eq!(p.values::<f32>("b").unwrap(), [-1.5; 4]);
}

#[test]
fn wrong_use_is_refused() {
    let why = |g: &GraphBuf, opt: Optimiser| train_split(g, "loss", opt).unwrap_err().message;
    let g = Builder::new("g");
    let loss = (g.param("dp.w", [2], DType::F32, Init::Ones) * 2.0).sum(..);
    let taken = g.finish([loss.named("loss")]).unwrap();
    let text = why(&taken, optim::Sgd::new(0.1).into());
    assert_eq!(text, "the graph has a leaf called \"dp.w\", a name that a split step adds: rename it");
    let lazy = why(&net(4, DType::F32), optim::SparseAdam::new(0.1).into());
    assert!(lazy.starts_with("train_split: SparseAdam takes rows of a table"), "{lazy}");
    let averaged = optim::AdamW::new(0.1).ema(0.9);
    let whole = train_split(&net(4, DType::F32), "loss", averaged).unwrap();
    assert!(whole.shard(0, 2).unwrap_err().message.contains("moving averages (ema) stay whole"));
    // What `train` refuses is refused, too.
    assert!(why(&net(4, DType::F32), optim::Sgd::new(0.1).freeze("nothing").into()).contains("matches no param"));
    assert!(why(&net(4, DType::F32), optim::Sgd::new(-1.0).into()).contains("lr is -1"));
}
