//! Scenes of splats, and their images and gradients by the engine.

use crate::common::{PLAIN, Tensor, TensorDraws, run};
use arenagrad::graph::splat::{SplatImage, Splats};
use arenagrad::graph::{Builder, DType, GraphBuf, Missing, Var, vjp};
use arenagrad::tools::ir::opdef::Domain;

pub const F64: DType = DType::F64;
pub const NAMES: [&str; 6] = ["positions", "log_scales", "rotations", "opacities", "colours", "camera"];
/// From (0, 0, −3) to the origin, up along y.
pub const CAMERA: [f64; 10] = [0.0, 0.0, -3.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 60.0];

pub fn tensor(dims: &[usize], data: &[f64]) -> Tensor {
    Tensor { dtype: F64, dims: dims.to_vec(), data: data.to_vec() }
}

/// A scene in f64: positions, log-scales, rotations, opacities, colours, camera.
pub type Scene = Vec<Tensor>;

/// `n` splats around the origin with colours of these dimensions.
pub fn drawn(n: usize, colours: &[usize], seed: u64) -> Scene {
    let draw = &mut TensorDraws(seed);
    let mut real = |dims: &[usize], scale: f64, shift: f64| {
        let t = draw.tensor(F64, dims, Domain::Unit);
        Tensor { data: t.data.iter().map(|x| x * scale + shift).collect(), ..t }
    };
    vec![
        real(&[n, 3], 1.3, 0.0),
        real(&[n, 3], 0.8, -1.5),
        real(&[n, 4], 1.0, 0.0),
        real(&[n], 0.5, 0.5),
        real(colours, 0.5, 0.5),
        tensor(&[10], &CAMERA),
    ]
}

pub fn image_of(scene: &Scene, image: SplatImage, dtype: DType) -> GraphBuf {
    image_by(scene, image, dtype, |splats, view, image| splats.render(view, image))
}

/// The image by two ops.
pub fn staged<'g>(splats: &Splats<'g>, view: Var<'g>, image: SplatImage) -> [Var<'g>; 2] {
    splats.prepare(view, image).rasterize()
}

pub fn image_by(
    scene: &Scene,
    image: SplatImage,
    dtype: DType,
    render: impl for<'g> Fn(&Splats<'g>, Var<'g>, SplatImage) -> [Var<'g>; 2],
) -> GraphBuf {
    let g = Builder::new("splats");
    let x: Vec<Var> = scene.iter().zip(NAMES).map(|(t, name)| g.input(name, &t.dims, dtype)).collect();
    let splats = Splats { positions: x[0], log_scales: x[1], rotations: x[2], opacities: x[3], colours: x[4] };
    let [pixels, passes] = render(&splats, x[5].splat_view(image.height), image);
    g.output("image", pixels);
    g.output("passes", passes);
    g.finish([]).unwrap()
}

pub fn render(scene: &Scene, image: SplatImage) -> Vec<Tensor> {
    run(&image_of(scene, image, F64), scene, PLAIN)
}

/// The gradients of Σ cotangent·image with respect to all six inputs.
pub fn gradients(scene: &Scene, image: SplatImage, cotangent: Tensor) -> Vec<Tensor> {
    let g = vjp(&image_of(scene, image, F64), &["image"], &NAMES, Missing::Zero).unwrap();
    let all = run(&g, &[&scene[..], &[cotangent]].concat(), PLAIN);
    all[all.len() - 6..].to_vec()
}
