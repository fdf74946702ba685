//! Scenes of splats, their images and gradients by the engine, and their images by a plain loop over all splats.

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

pub type Vector = [f64; 3];

pub fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub fn unit(a: Vector) -> Vector {
    a.map(|x| x / dot(a, a).sqrt())
}

pub fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

pub fn vector(t: &Tensor, i: usize) -> Vector {
    [t.data[3 * i], t.data[3 * i + 1], t.data[3 * i + 2]]
}

/// The image by a plain loop over all splats, in other formulas: a rotation is two cross products, and the ray is
/// sampled at its closest point in the world.
pub fn plain_image(scene: &Scene, o: SplatImage) -> Vec<f64> {
    let [place, target, up] = [0, 1, 2].map(|k| vector(&scene[5], k));
    let forward = unit([0, 1, 2].map(|k| target[k] - place[k]));
    let right = unit(cross(up, forward));
    let up = cross(forward, right);
    let focal = 0.5 * o.height as f64 / (scene[5].data[9].to_radians() / 2.0).tan();
    let n = scene[3].data.len();
    let away = |i: usize| [0, 1, 2].map(|k| scene[0].data[3 * i + k] - place[k]);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| dot(away(a), away(a)).total_cmp(&dot(away(b), away(b))).then(a.cmp(&b)));
    let mut image = Vec::new();
    for (row, column) in (0..o.height).flat_map(|i| (0..o.width).map(move |j| (i, j))) {
        let x = (column as f64 + 0.5 - o.width as f64 / 2.0) / focal;
        let y = (o.height as f64 / 2.0 - row as f64 - 0.5) / focal;
        let ray = unit([0, 1, 2].map(|k| x * right[k] + y * up[k] + forward[k]));
        let (mut colour, mut passes) = ([0.0; 3], 1.0);
        for &i in &order {
            let depth = dot(away(i), forward);
            let alpha = plain_alpha(scene, o, i, away(i), ray);
            if depth < o.near || depth > o.far || alpha < o.alpha_cutoff || passes < o.transmittance {
                continue;
            }
            let seen = vector(&scene[4], i);
            (0..3).for_each(|k| colour[k] += passes * alpha * seen[k].clamp(0.0, 1.0));
            passes *= 1.0 - alpha;
        }
        let shown = |k: usize| f64::max(0.0, colour[k] + passes * o.background[k]).powf(o.gamma);
        image.extend([shown(0), shown(1), shown(2), 1.0 - passes]);
    }
    image
}

/// α of splat `i`, which is at `away`, along `ray`.
pub fn plain_alpha(scene: &Scene, o: SplatImage, i: usize, away: Vector, ray: Vector) -> f64 {
    let q = &scene[2].data[4 * i..4 * i + 4];
    let length = q.iter().map(|x| x * x).sum::<f64>().sqrt();
    let (w, v) = (q[0] / length, [q[1], q[2], q[3]].map(|x| -x / length));
    // Into the frame of the splat: the inverse rotation, then the inverse axes.
    let local = |x: Vector| {
        let once = cross(v, x);
        let twice = cross(v, once);
        [0, 1, 2].map(|k| {
            let axis = (scene[1].data[3 * i + k].exp() * o.radius_scale).max(1e-6);
            (x[k] + 2.0 * (w * once[k] + twice[k])) / axis
        })
    };
    let (centre, along) = (local(away), local(ray));
    let t = (dot(centre, along) / dot(along, along)).max(0.0);
    let c = [0, 1, 2].map(|k| t * along[k] - centre[k]);
    scene[3].data[i].clamp(0.0, 1.0) * (-0.5 * dot(c, c)).exp()
}
