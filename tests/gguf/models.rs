//! A model whose weights come from a GGUF file, against the same model in `f32`.

#[path = "../../examples/qlora.rs"]
mod qlora;

use super::{noise, path};
use arenagrad::graph::quant::BlockType;
use arenagrad::graph::{Builder, DType, GraphBuf, Init, Var};
use arenagrad::session::{Program, Session};
use arenagrad::train::Load;
use arenagrad::train::gguf::{Gguf, GgufEntry, TensorType, encode, save};

const WIDTHS: [usize; 3] = [256, 512, 256];

/// A layer with weights in `f32` or in blocks.
fn layer<'g>(g: &'g Builder, blocks: Option<BlockType>, x: Var<'g>, i: usize) -> Var<'g> {
    let (k, n, name) = (WIDTHS[i], WIDTHS[i + 1], format!("{i}.weight"));
    let y = match blocks {
        Some(t) => x.gguf_matmul(g.input(&name, [t.bytes_of(n * k).unwrap()], DType::U8), t, n),
        None => x.matmul_t(g.param(&name, [n, k], DType::F32, Init::Zeros), false, true),
    };
    y + g.param(&format!("{i}.bias"), [n], DType::F32, Init::Zeros)
}

/// Two layers.
fn net(blocks: Option<BlockType>, rows: usize) -> GraphBuf {
    let g = Builder::new("net");
    let x = g.input("x", [rows, WIDTHS[0]], DType::F32);
    let y = layer(&g, blocks, layer(&g, blocks, x, 0).tanh(), 1);
    g.finish([y.named("y")]).unwrap()
}

fn outputs(p: &mut Program, x: &[f32]) -> Vec<f32> {
    p.values_mut::<f32>("x").unwrap().copy_from_slice(x);
    p.step().unwrap();
    p.values::<f32>("y").unwrap().to_vec()
}

#[test]
fn a_model_of_blocks_gives_the_outputs_of_its_weights() {
    for (t, most) in [(BlockType::Q8_0, 0.006), (BlockType::Q4_0, 0.11), (BlockType::Q4K, 0.11)] {
        let weights: Vec<Vec<f32>> = (0..2)
            .map(|i| noise(WIDTHS[i] * WIDTHS[i + 1], i as u64).into_iter().map(|w| w / 16.0).collect())
            .collect();
        let biases: Vec<Vec<u8>> = (0..2).map(|i| bytemuck::cast_slice(&noise(WIDTHS[i + 1], 9)).to_vec()).collect();
        let blocks: Vec<Vec<u8>> = weights.iter().map(|w| encode(t, w).unwrap()).collect();
        let names: Vec<[String; 2]> = (0..2).map(|i| [format!("{i}.weight"), format!("{i}.bias")]).collect();
        let dims: Vec<[usize; 2]> = (0..2).map(|i| [WIDTHS[i + 1], WIDTHS[i]]).collect();
        let entries: Vec<GgufEntry<'_>> = (0..2)
            .flat_map(|i| {
                let weight = GgufEntry::new(&names[i][0], TensorType::Blocks(t), &dims[i], &blocks[i]);
                let kind = TensorType::Plain(DType::F32);
                [weight, GgufEntry::new(&names[i][1], kind, &dims[i][..1], &biases[i])]
            })
            .collect();
        let file = path(&format!("model-{}.gguf", t.name()));
        save(&file, &[], &entries).unwrap();
        let opened = Gguf::open(&file).unwrap();
        for rows in [1, 9] {
            let mut of_blocks = Session::new().compile(&net(Some(t), rows)).unwrap();
            let report = of_blocks.load_gguf(&opened, Load::default()).unwrap();
            assert_eq!((report.loaded.len(), report.cast.len()), (4, 0));
            // The same file decoded into f32 params, and the weights that it was made of.
            let mut decoded = Session::new().compile(&net(None, rows)).unwrap();
            assert_eq!(decoded.load_gguf(&opened, Load::default().cast(true)).unwrap().cast.len(), 2);
            let x = noise(rows * WIDTHS[0], 5);
            let y = outputs(&mut of_blocks, &x);
            let same = outputs(&mut decoded, &x);
            assert!(y.iter().zip(&same).all(|(a, b)| (a - b).abs() < 1e-5), "{}", t.name());
            for (i, w) in weights.iter().enumerate() {
                decoded.values_mut::<f32>(&format!("{i}.weight")).unwrap().copy_from_slice(w);
            }
            let exact = outputs(&mut decoded, &x);
            let norm = |y: &mut dyn Iterator<Item = f32>| y.map(|y| y * y).sum::<f32>().sqrt();
            let off = norm(&mut y.iter().zip(&exact).map(|(a, b)| a - b)) / norm(&mut exact.iter().copied());
            assert!(off < most && off > 0.0, "{} of {rows} rows: {off}", t.name());
        }
        // Without `cast`, blocks are not decoded into f32.
        let mut plain = Session::new().compile(&net(None, 1)).unwrap();
        let e = plain.load_gguf(&opened, Load::default()).unwrap_err();
        assert!(e.message.contains("`cast` would convert it") && e.message.contains("model-"), "{e}");
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_quantised_base_is_adapted_and_never_decoded() {
    let file = path("qlora.gguf");
    let r = qlora::run(&file, [20, 30]).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(r.adapted[1] < r.adapted[0] - 0.1, "{:?}", r.adapted);
    assert!((r.adapted[0] - r.base[1]).abs() < 0.2, "{:?} {:?}", r.adapted, r.base);
    assert!(
        r.decoded == 0 && 7 * r.bytes[1] < r.bytes[0] && r.corrections < r.bytes[1],
        "{:?} {} {}",
        r.bytes,
        r.decoded,
        r.corrections
    );
}
