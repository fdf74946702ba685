//! Models that are written: read again, they give the numbers of the graph.

#![allow(clippy::unwrap_used)]

use arenagrad::graph::window::ConvTranspose;
use arenagrad::graph::{Builder, DType, Init, Var};
use arenagrad::session::Session;
use arenagrad_onnx::{Options, read, write};

/// The model that is written of a graph, read and run on `x`: output `y`. The graph itself gives the other numbers.
fn written_and_itself(make: impl for<'g> Fn(&'g Builder) -> Var<'g>, x: &str) -> [Vec<f32>; 2] {
    let g = Builder::new("net");
    let graph = g.finish([make(&g).named("y")]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.init(3).unwrap();
    let import = read(&write(&graph, &p).unwrap(), &Options::default()).unwrap();
    let mut q = Session::new().compile(&import.graph).unwrap();
    q.init(0).unwrap();
    import.load(&mut q).unwrap();
    [&mut p, &mut q].map(|p| {
        if let Ok(x) = p.values_mut::<f32>(x) {
            x.iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32).sin());
        }
        if let Ok(at) = p.values_mut::<i64>(x) {
            at.copy_from_slice(&[0, 3, -1, 4, -4]);
        }
        p.step().unwrap();
        p.values::<f32>("y").unwrap().to_vec()
    })
}

#[test]
fn transposed_convolutions_rows_of_ones_and_names_are_written() {
    fn transposed(g: &Builder) -> Var<'_> {
        let mut conv = ConvTranspose::default();
        (conv.stride, conv.pad, conv.output_pad) = ([3, 2], [2, 1], [1, 0]);
        let w = g.param("w", [2, 3, 4, 3], DType::F32, Init::Normal(0.5));
        // No name that the writer makes is `t1` or `v2`.
        let more = g.param("t1", [1], DType::F32, Init::Ones);
        g.input("v2", [1, 2, 5, 4], DType::F32).conv_transpose2d(w, conv) * more
    }
    let [a, b] = written_and_itself(transposed, "v2");
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5) && a.len() == b.len(), "{a:?} {b:?}");
    let [a, b] = written_and_itself(|g| g.input("at", [5], DType::I64).one_hot(4, DType::F32), "at");
    assert_eq!(a, b);
    assert_eq!(&a[8..], [0.0; 12]);

    let g = Builder::new("net");
    let graph = g.finish([(g.input("y", [2], DType::F32) * 2.0).named("y")]).unwrap();
    let p = Session::new().compile(&graph).unwrap();
    assert!(write(&graph, &p).unwrap_err().to_string().contains("\"y\" is an output and a leaf"));
}
