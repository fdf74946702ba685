//! Fits 200 Gaussian splats to a picture that the example paints itself: a sky, hills, a sun and some balloons.
//!
//! Run with `cargo run --release --example splat`. The folder `runs/splat`, or the one that is named behind `--`, gets
//! `target.png`, `before.png` and `after.png`.

use arenagrad::graph::splat::{SplatImage, Splats};
use arenagrad::prelude::*;
use std::io::BufWriter;
use std::path::PathBuf;

const SIZE: usize = 128;
const SPLATS: usize = 200;
const STEPS: usize = 400;
/// From (0, 0, −3) to the origin, up along y, 60 degrees from the lowest to the highest row.
const CAMERA: [f32; 10] = [0.0, 0.0, -3.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 60.0];

/// The picture at (x, y) in 0..1, y downwards.
fn paint(x: f32, y: f32) -> [f32; 3] {
    let mut colour = [0.45 + 0.3 * y, 0.65 + 0.2 * y, 0.95];
    let mut disc = |cx: f32, cy: f32, radius: f32, paint: [f32; 3]| {
        if (x - cx).hypot(y - cy) < radius {
            colour = paint;
        }
    };
    disc(0.78, 0.2, 0.1, [1.0, 0.9, 0.4]);
    // A fixed generator of numbers places the balloons.
    let mut seed = 7u32;
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / (1 << 24) as f32
    };
    for _ in 0..9 {
        disc(next(), 0.1 + 0.5 * next(), 0.03 + 0.04 * next(), [next(), 0.4 * next(), next()]);
    }
    for (height, wave, paint) in [(0.62, 7.0, [0.35, 0.5, 0.4]), (0.75, 4.0, [0.2, 0.4, 0.2])] {
        if y > height + 0.07 * (wave * x + height).sin() {
            colour = paint;
        }
    }
    colour
}

/// A training program: the mean squared difference between the splats' image and the picture.
fn program() -> Result<Program> {
    let g = Builder::new("splats");
    let param = |name: &str, dims: &[usize], init: Init| g.param(name, dims, DType::F32, init);
    let depth = param("depth", &[SPLATS, 1], Init::Uniform(0.3));
    let splats = Splats {
        positions: param("plane", &[SPLATS, 2], Init::Uniform(1.7)).concat(&[depth], 1),
        log_scales: param("log_scales", &[SPLATS, 3], Init::Between { low: -2.6, high: -1.8 }),
        rotations: param("rotations", &[SPLATS, 4], Init::Normal(1.0)),
        opacities: param("opacity_logits", &[SPLATS], Init::Constant(0.0)).sigmoid(),
        colours: param("colours", &[SPLATS, 3], Init::Between { low: 0.3, high: 0.7 }),
    };
    let view = g.input("camera", [10], DType::F32).splat_view(SIZE);
    let [image, _] = splats.render(view, SplatImage::new(SIZE, SIZE).gamma(1.0).background([0.5; 3]));
    let shown = image.narrow(2, 0, 3).named("image");
    let error = shown - g.input("picture", [SIZE, SIZE, 3], DType::F32);
    let graph = g.finish([(error * error).mean(..).named("loss"), shown])?;
    Session::new().compile(&train(&graph, "loss", optim::Adam::new(2e-2))?)
}

/// The ratio of peak to noise, in decibels.
fn psnr(loss: f32) -> f32 {
    -10.0 * loss.log10()
}

/// Writes an image of red, green and blue.
fn write_png(path: PathBuf, image: &[f32]) -> std::io::Result<()> {
    let mut encoder = png::Encoder::new(BufWriter::new(std::fs::File::create(path)?), SIZE as u32, SIZE as u32);
    encoder.set_color(png::ColorType::Rgb);
    let bytes: Vec<u8> = image.iter().map(|x| (255.0 * x.clamp(0.0, 1.0)).round() as u8).collect();
    encoder.write_header()?.write_image_data(&bytes)?;
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("runs/splat"), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    let at = |i: usize| (i as f32 + 0.5) / SIZE as f32;
    let picture: Vec<f32> = (0..SIZE * SIZE).flat_map(|i| paint(at(i % SIZE), at(i / SIZE))).collect();
    write_png(folder.join("target.png"), &picture)?;

    let mut p = program()?;
    p.init(1)?;
    p.values_mut::<f32>("picture")?.copy_from_slice(&picture);
    p.values_mut::<f32>("camera")?.copy_from_slice(&CAMERA);
    for step in 0..=STEPS {
        p.step()?;
        let loss = p.values::<f32>("loss")?[0];
        if step == 0 {
            write_png(folder.join("before.png"), p.values::<f32>("image")?)?;
            println!("before: {:.2} dB", psnr(loss));
        } else if step == STEPS {
            write_png(folder.join("after.png"), p.values::<f32>("image")?)?;
            println!("after {STEPS} steps: {:.2} dB", psnr(loss));
        }
    }
    Ok(())
}
