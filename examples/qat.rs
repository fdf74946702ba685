//! A network of 8-bit integers: a convnet learns the digits of `data/digits.csv.gz`, first in floats, then with weights
//! and activations rounded as 8-bit codes would be; the integer network of the codes is as good.
//!
//! Run it with `cargo run --release --example qat`; it prints the accuracy of the float network, of the one with
//! rounded numbers, and of the one with integers, on images that training never saw.

use arenagrad::graph::quant::Qat;
use arenagrad::prelude::*;
use arenagrad::session::export_int8;
use std::io::Read;

/// Images of a training batch.
const BATCH: usize = 64;

/// Pixels of an image.
const PIXELS: usize = 64;

/// Images and their digits.
#[derive(Default)]
pub struct Digits {
    /// Pixels from 0 to 1, 64 for each image.
    pub images: Vec<f32>,
    /// The digits.
    pub labels: Vec<i32>,
}

/// The digits to learn from and those to test on, every fifth.
pub fn read_digits() -> [Digits; 2] {
    let gz: &[u8] = include_bytes!("../data/digits.csv.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(gz).read_to_string(&mut text).expect("the file is text");
    let mut parts = [Digits::default(), Digits::default()];
    for (i, line) in text.lines().enumerate() {
        let part = &mut parts[usize::from(i % 5 == 0)];
        let numbers: Vec<f32> = line.split(',').map(|n| n.parse().expect("a number")).collect();
        part.images.extend(numbers[..PIXELS].iter().map(|x| x / 16.0));
        part.labels.push(numbers[PIXELS] as i32);
    }
    parts
}

/// The logits of a batch of images.
fn logits<'g>(g: &'g Builder, batch: usize) -> Var<'g> {
    let same = Conv2d::default().padding(1);
    let x = g.input("images", [batch, 1, 8, 8], DType::F32);
    let h = nn::conv2d(g, "conv1", x, 8, 3, same).relu().max_pool2d(Pool2d::new(2));
    let h = nn::conv2d(g, "conv2", h, 16, 3, same).relu().max_pool2d(Pool2d::new(2));
    let h = nn::linear(g, "fc1", h.reshape([batch, 64]), 32).relu();
    nn::linear(g, "fc2", h, 10).named("logits")
}

/// The network with its loss, for training.
fn with_loss() -> Result<GraphBuf> {
    let g = Builder::new("digits");
    let labels = g.input("labels", [BATCH], DType::I32);
    g.finish([logits(&g, BATCH).cross_entropy(labels).named("loss")])
}

/// The network alone, for evaluation.
pub fn network(batch: usize) -> Result<GraphBuf> {
    let g = Builder::new("digits");
    g.finish([logits(&g, batch)])
}

/// What is rounded: all weights and all that they are multiplied with.
pub fn rounding() -> Qat {
    Qat::int8().weights("*.weight")
}

/// Gives the params and states of `to` the values of those of `from` that have their names.
fn copy_all(from: &Program, to: &mut Program) -> Result<()> {
    let names: Vec<String> = to.persistent().map(|(b, _)| b.name.clone()).collect();
    for name in names {
        if let Some((_, bytes)) = from.persistent().find(|(b, _)| b.name == name) {
            to.write_bytes(&name, bytes)?;
        }
    }
    Ok(())
}

/// Takes `steps` steps on batches of `digits`.
fn learn(p: &mut Program, digits: &Digits, steps: usize) -> Result<()> {
    let mut batches = Batches::new(digits.labels.len(), BATCH, 1)?;
    for _ in 0..steps {
        let picked = batches.advance().to_vec();
        let images = p.values_mut::<f32>("images")?;
        for (to, &i) in images.chunks_exact_mut(PIXELS).zip(&picked) {
            to.copy_from_slice(&digits.images[i as usize * PIXELS..][..PIXELS]);
        }
        for (to, &i) in p.values_mut::<i32>("labels")?.iter_mut().zip(&picked) {
            *to = digits.labels[i as usize];
        }
        p.step()?;
    }
    Ok(())
}

/// The part of `digits` whose largest logit is right.
fn accuracy(p: &mut Program, digits: &Digits) -> Result<f64> {
    p.values_mut::<f32>("images")?.copy_from_slice(&digits.images);
    p.step()?;
    let right = p.values::<f32>("logits")?.chunks_exact(10).zip(&digits.labels).filter(|(row, label)| {
        let best = (0..10).max_by(|&a, &b| row[a].total_cmp(&row[b]));
        best == usize::try_from(**label).ok()
    });
    Ok(right.count() as f64 / digits.labels.len() as f64)
}

/// The share of the test images that are told apart.
pub struct Learnt {
    /// By the network that was trained in floats.
    pub float: f64,
    /// By the network with rounded numbers.
    pub rounded: f64,
    /// By the network of integers.
    pub integers: f64,
}

/// Trains `steps` steps in floats and a quarter as many with rounded numbers.
pub fn train_both(steps: usize) -> Result<Learnt> {
    let [seen, unseen] = read_digits();
    let session = Session::new().threads(1);
    let evaluated = network(unseen.labels.len())?;

    let mut float = session.compile(&train(&with_loss()?, "loss", optim::Adam::new(2e-3))?)?;
    float.init(1)?;
    learn(&mut float, &seen, steps)?;
    let mut p = session.compile(&evaluated)?;
    copy_all(&float, &mut p)?;
    let float_accuracy = accuracy(&mut p, &unseen)?;

    let rounded = with_loss()?.qat(&rounding())?;
    let mut program = session.compile(&train(&rounded, "loss", optim::Adam::new(5e-4))?)?;
    program.init(1)?;
    copy_all(&float, &mut program)?;
    learn(&mut program, &seen, steps / 4)?;
    let evaluated = evaluated.qat(&rounding().training(false))?;
    let mut p = session.compile(&evaluated)?;
    copy_all(&program, &mut p)?;
    let rounded = accuracy(&mut p, &unseen)?;

    let mut p = session.compile(&export_int8(&evaluated, &program)?)?;
    let integers = accuracy(&mut p, &unseen)?;
    Ok(Learnt { float: float_accuracy, rounded, integers })
}

#[allow(dead_code)] // Tests include this file.
fn main() -> Result<()> {
    let learnt = train_both(600)?;
    println!("accuracy in floats   {:.2} %", 100.0 * learnt.float);
    println!("with rounded numbers {:.2} %", 100.0 * learnt.rounded);
    println!("in integers          {:.2} %", 100.0 * learnt.integers);
    Ok(())
}
