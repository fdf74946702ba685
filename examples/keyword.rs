//! A classifier of sounds, trained from samples to words in one graph: short-time spectra, mel filters that are learnt
//! too, log-mel, and two convolutions along time.
//!
//! Each sound is made here: half a second of a tone that stays, rises, falls or trills, at any pitch, loudness and
//! time, in noise. Training sees new sounds in each step; accuracy is that of sounds that training never saw. Run it
//! with `cargo run --release --example keyword`; it prints the accuracy before (a quarter) and after (nearly 1), and
//! what is taken for what.

use arenagrad::graph::signal::{LogMel, MelFilterbank, Stft};
use arenagrad::nn::Conv1d;
use arenagrad::prelude::*;
use std::f32::consts::TAU;

const WORDS: [&str; 4] = ["stays", "rises", "falls", "trills"];

/// Samples in a second.
const RATE: f32 = 8000.0;

/// Samples of a sound.
const SAMPLES: usize = 4000;

/// Sounds of a batch.
const BATCH: usize = 32;

/// Batches of sounds that training never sees.
const HELD_OUT: usize = 16;

/// Mel filters.
const MELS: usize = 40;

/// Numbers in [0, 1): a multiplicative congruential generator (Lehmer).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0 * 48_271 % 2_147_483_647;
        self.0 as f32 / 2_147_483_647.0
    }

    fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.next()
    }
}

/// Writes a sound of a random word, and returns the word.
fn draw_sound(random: &mut Random, sound: &mut [f32]) -> i32 {
    let word = (random.next() * WORDS.len() as f32) as usize % WORDS.len();
    let (pitch, loudness, noise) = (random.between(300.0, 1500.0), random.between(0.1, 1.0), random.between(0.02, 0.3));
    let (start, length) = (random.between(0.0, 0.15), random.between(0.25, 0.35));
    // Octaves of a slide or a trill, and trills in a second.
    let (octaves, speed) = (random.between(0.5, 1.2), random.between(8.0, 14.0));
    let mut phase = random.next();
    for (i, sample) in sound.iter_mut().enumerate() {
        let t = (i as f32 / RATE - start) / length;
        let bend = match WORDS[word] {
            "rises" => octaves * (t - 0.5),
            "falls" => octaves * (0.5 - t),
            "trills" => 0.3 * octaves * (TAU * speed * length * t).sin(),
            _ => 0.0,
        };
        phase = (phase + pitch * bend.exp2() / RATE).fract();
        let heard = if (0.0..1.0).contains(&t) { loudness * (TAU * phase).sin() } else { 0.0 };
        *sample = heard + noise * random.between(-1.0, 1.0);
    }
    word as i32
}

/// The scores of the words, `[BATCH, 4]`.
fn scores(g: &Builder) -> Result<Var<'_>> {
    let sound = g.input("sound", [BATCH, SAMPLES], DType::F32);
    let spectrum = sound.stft(Stft::new(256).hop(128)).t(); // [BATCH, frames, bins]
    let bank = MelFilterbank::new(MELS, 256, f64::from(RATE)).norm(false);
    let filters = g.param("filters", [MELS, 129], DType::F32, g.start_values(&bank.weights()?));
    let mel = spectrum.log_mel(filters, LogMel::default()).t(); // [BATCH, MELS, frames]
    let h = nn::conv1d(g, "conv1", mel, 48, 5, Conv1d::default().stride(2)).relu();
    let h = nn::conv1d(g, "conv2", h, 48, 5, Conv1d::default()).relu();
    Ok(nn::linear(g, "words", h.mean([2]), WORDS.len()))
}

/// The program of this example.
pub fn program() -> Result<Program> {
    let g = Builder::new("hear");
    let hear = g.finish([scores(&g)?.named("scores")])?;
    let g = Builder::new("learn");
    let loss = scores(&g)?.cross_entropy(g.input("word", [BATCH], DType::I32));
    let learn = train(&g.finish([loss.named("loss")])?, "loss", optim::AdamW::new(2e-3))?;
    Session::new().compile_all(&[("learn", &learn), ("hear", &hear)])
}

/// How often each word (row) of the held-out sounds is taken for each (column).
pub type Heard = [[u32; WORDS.len()]; WORDS.len()];

/// The share of sounds that are taken for what they are.
pub fn accuracy(heard: &Heard) -> f32 {
    let right: u32 = (0..WORDS.len()).map(|i| heard[i][i]).sum();
    right as f32 / heard.as_flattened().iter().sum::<u32>() as f32
}

fn listen(p: &mut Program) -> Result<Heard> {
    let method = p.method("hear")?;
    let (sound, scores) = (p.input_of::<f32>(method, "sound")?, p.output_of::<f32>(method, "scores")?);
    let (mut heard, mut random) = (Heard::default(), Random(987_654_321));
    for _ in 0..HELD_OUT {
        let words: Vec<i32> = p[sound].chunks_mut(SAMPLES).map(|s| draw_sound(&mut random, s)).collect();
        p.run(method)?;
        for (scores, word) in p[scores].chunks(WORDS.len()).zip(words) {
            let best = (0..WORDS.len()).fold(0, |best, i| if scores[i] > scores[best] { i } else { best });
            heard[word as usize][best] += 1;
        }
    }
    Ok(heard)
}

/// Trains for some steps. Returns what is heard before and after.
pub fn learn(steps: usize) -> Result<[Heard; 2]> {
    let mut p = program()?;
    p.init(0)?;
    let before = listen(&mut p)?;
    let learn = p.method("learn")?;
    let (sound, word) = (p.input_of::<f32>(learn, "sound")?, p.input_of::<i32>(learn, "word")?);
    let mut random = Random(1);
    for _ in 0..steps {
        let words: Vec<i32> = p[sound].chunks_mut(SAMPLES).map(|s| draw_sound(&mut random, s)).collect();
        p[word].copy_from_slice(&words);
        p.run(learn)?;
    }
    Ok([before, listen(&mut p)?])
}

#[allow(dead_code, reason = "a test includes this file")]
fn main() -> Result<()> {
    let [before, after] = learn(300)?;
    println!("{} held-out sounds", HELD_OUT * BATCH);
    println!("accuracy {:.3} before training, {:.3} after it", accuracy(&before), accuracy(&after));
    println!("{:>10}{}", "", WORDS.map(|w| format!("{w:>8}")).concat());
    for (word, row) in WORDS.iter().zip(&after) {
        println!("{word:>10}{}", row.map(|n| format!("{n:>8}")).concat());
    }
    Ok(())
}
