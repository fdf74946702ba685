//! Complex params and states: steps of optimisers, texts, arrays and checkpoints.

use arenagrad::prelude::*;
use arenagrad::tools::ir::text;
use arenagrad::train::checkpoint::{Entry, Loaded, encode};
use arenagrad::train::data::{encode_npy, parse_npy};

/// The loss Σ|w·x − 1|² of a complex weight, or the same of its parts.
fn loss(complex: bool) -> GraphBuf {
    let g = Builder::new("g");
    let x = g.constant_f64(&[0.5, -1.0, 2.0, 0.25], [2, 2]);
    let y = if complex {
        let w = g.param("w", [2], DType::C128, Init::Ones);
        (w * x.view_as_complex() - 1.0).abs2()
    } else {
        let w = g.param("w", [2, 2], DType::F64, Init::Zeros);
        let part = |x: Var<'_>, k: usize| (x.narrow(-1, k, 1)).reshape([2]).value();
        let take = |v| g.var(v);
        let (a, b) = (take(part(w, 0)), take(part(w, 1)));
        let (c, d) = (take(part(x, 0)), take(part(x, 1)));
        (a * c - b * d - 1.0).square() + (a * d + b * c).square()
    };
    g.finish([y.sum(..).named("loss")]).unwrap()
}

/// The weights after some steps of `opt`, and their moving average.
fn trained(opt: impl Into<Optimiser> + Clone) -> [[Vec<f64>; 2]; 2] {
    [true, false].map(|complex| {
        let opt: Optimiser = opt.clone().into();
        let step = train(&loss(complex), "loss", opt.ema(0.5).clip_norm(2.0).grad_norm(true)).unwrap();
        let mut p = Session::new().compile(&step).unwrap();
        p.init(0).unwrap();
        match complex {
            true => p.values_mut::<[f64; 2]>("w").unwrap().copy_from_slice(&[[0.25, -0.5], [1.0, 0.75]]),
            false => p.values_mut::<f64>("w").unwrap().copy_from_slice(&[0.25, -0.5, 1.0, 0.75]),
        }
        (0..5).for_each(|_| p.step().unwrap());
        ["w", "ema.w"].map(|name| match complex {
            true => p.values::<[f64; 2]>(name).unwrap().as_flattened().to_vec(),
            false => p.values::<f64>(name).unwrap().to_vec(),
        })
    })
}

#[test]
fn optimisers_step_complex_params_as_pairs_of_reals() {
    let rules: [Optimiser; 6] = [
        optim::Sgd::new(0.05).momentum(0.9).into(),
        optim::Sgd::new(0.05).into(),
        optim::AdamW::new(0.1).weight_decay(0.1).into(),
        optim::RmsProp::new(0.05).into(),
        optim::Lion::new(0.05).into(),
        optim::Lbfgs::new(0.5).into(),
    ];
    for rule in rules {
        let name = format!("{:?}", rule.rule());
        let [complex, real] = trained(rule);
        for (a, b) in complex.iter().flatten().zip(real.iter().flatten()) {
            assert!((a - b).abs() <= 1e-12, "{name}: {complex:?} {real:?}");
        }
        assert_ne!(complex[0], [0.25, -0.5, 1.0, 0.75], "{name}");
    }
    let g = Builder::new("g");
    let w = g.param("w", [2, 2], DType::C64, Init::Ones);
    let graph = g.finish([w.abs2().sum(..).named("loss")]).unwrap();
    let e = train(&graph, "loss", optim::Muon::new(0.1)).unwrap_err().to_string();
    assert!(e.contains("muon updates real matrices only") && e.contains("\"w\" c64[2,2]"), "{e}");
}

#[test]
fn complex_tensors_come_back_from_texts_and_files() {
    for dtype in [DType::C64, DType::C128] {
        let g = Builder::new("g");
        let (x, w) = (g.input("x", [2, 3], dtype), g.param("w", [3, 2], dtype, Init::Ones));
        let s = g.state("s", [], dtype, Init::Constant(0.5));
        g.update(s, s * 2.0);
        let bytes: Vec<u8> = (0..2 * dtype.size() as u8).collect();
        let k = g.constant_bytes(&bytes, [2], dtype);
        let graph = g.finish([(x.matmul(w) * k + s).named("y")]).unwrap();
        let printed = text::print(graph.view());
        assert!(printed.contains(&format!("{dtype}[2,3]")), "{printed}");
        assert_eq!(text::parse(&printed).unwrap(), graph);
        let data: Vec<u8> = (0..6 * dtype.size()).map(|i| (i * 37 % 61) as u8).collect();
        let npy = encode_npy(dtype, &[2, 3], &data).unwrap();
        assert!(String::from_utf8_lossy(&npy).contains(if dtype == DType::C64 { "'<c8'" } else { "'<c16'" }));
        let array = parse_npy(&npy).unwrap();
        assert_eq!((array.dtype, &array.dims[..], &array.bytes), (dtype, &[2, 3][..], &data));
        let entry = Entry::new("w", dtype, &[2, 3], &data);
        match encode(&[entry]) {
            Ok(file) => {
                let loaded = Loaded::parse(file).unwrap();
                assert_eq!((dtype, loaded.find("w").unwrap().bytes), (DType::C64, &data[..]));
            }
            Err(e) => assert!(e.to_string().contains("\"w\": safetensors files have no type for c128"), "{e}"),
        }
    }
}

#[test]
fn complex_programs_read_and_write_pairs() {
    let g = Builder::new("g");
    let (x, w) = (g.input("x", [2], DType::C64), g.param("w", [2], DType::C64, Init::Constant(2.0)));
    let mut p = Session::new().compile(&g.finish([(x * w).named("y")]).unwrap()).unwrap();
    p.init(0).unwrap();
    assert_eq!(p.values::<[f32; 2]>("w").unwrap(), [[2.0, 0.0]; 2]);
    p.values_mut::<[f32; 2]>("x").unwrap().copy_from_slice(&[[1.0, -1.0], [0.5, 3.0]]);
    p.step().unwrap();
    assert_eq!(p.values::<[f32; 2]>("y").unwrap(), [[2.0, -2.0], [1.0, 6.0]]);
    let e = p.values::<f32>("y").unwrap_err().to_string();
    assert!(e.contains("c64"), "{e}");
    let g = Builder::new("g");
    g.param("w", [2], DType::C64, Init::Normal(1.0));
    let e = Session::new().compile(&g.finish([]).unwrap()).and_then(|mut p| p.init(0)).unwrap_err().to_string();
    assert!(e.contains("no random start values of c64"), "{e}");
}
