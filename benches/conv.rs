//! Convolutions of image and signal networks: the forward pass, the input gradient, the weight gradient.
//!
//! `cargo bench -p arenagrad-benches --bench conv -- [OPTIONS]` prints one line for each shape, in milliseconds and
//! GFLOP/s: the least time of a program of one node. Options: `--threads N`, `--only TEXT` (shapes whose name contains
//! it), `--seconds S` (for each figure), `--json` (one line for each figure; `benches/peers/conv_torch.py` reads them).
#![allow(missing_docs)]

use arenagrad::graph::{Builder, DType};
use arenagrad::session::{Program, Session};
use arenagrad::tools::ir::opdef::Op;
use arenagrad::tools::ops::conv::attrs::ConvAttrs;
use std::time::Instant;

/// A name, and n, c_in, h, w, c_out, kh, kw, strides (2), padding (top, bottom, left, right), groups. The forward pass
/// of a transposed convolution is the input gradient of the convolution that it transposes.
type Shape = (&'static str, [usize; 14]);

/// ResNet-18 on small and on large images, MobileNetV2, a variational autoencoder, EEGNet.
const SHAPES: &[Shape] = &[
    ("resnet64 3@64 7x7 s2", [8, 3, 64, 64, 64, 7, 7, 2, 2, 3, 3, 3, 3, 1]),
    ("resnet64 64@16 3x3", [8, 64, 16, 16, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1]),
    ("resnet64 64@16 3x3 s2", [8, 64, 16, 16, 128, 3, 3, 2, 2, 1, 1, 1, 1, 1]),
    ("resnet64 64@16 1x1 s2", [8, 64, 16, 16, 128, 1, 1, 2, 2, 0, 0, 0, 0, 1]),
    ("resnet64 128@8 3x3", [8, 128, 8, 8, 128, 3, 3, 1, 1, 1, 1, 1, 1, 1]),
    ("resnet64 128@8 3x3 s2", [8, 128, 8, 8, 256, 3, 3, 2, 2, 1, 1, 1, 1, 1]),
    ("resnet64 128@8 1x1 s2", [8, 128, 8, 8, 256, 1, 1, 2, 2, 0, 0, 0, 0, 1]),
    ("resnet64 256@4 3x3", [8, 256, 4, 4, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1]),
    ("resnet64 256@4 3x3 s2", [8, 256, 4, 4, 512, 3, 3, 2, 2, 1, 1, 1, 1, 1]),
    ("resnet64 256@4 1x1 s2", [8, 256, 4, 4, 512, 1, 1, 2, 2, 0, 0, 0, 0, 1]),
    ("resnet64 512@2 3x3", [8, 512, 2, 2, 512, 3, 3, 1, 1, 1, 1, 1, 1, 1]),
    ("resnet224 3@224 7x7 s2", [4, 3, 224, 224, 64, 7, 7, 2, 2, 3, 3, 3, 3, 1]),
    ("resnet224 64@56 3x3", [4, 64, 56, 56, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1]),
    ("resnet224 64@56 3x3 s2", [4, 64, 56, 56, 128, 3, 3, 2, 2, 1, 1, 1, 1, 1]),
    ("resnet224 64@56 1x1 s2", [4, 64, 56, 56, 128, 1, 1, 2, 2, 0, 0, 0, 0, 1]),
    ("resnet224 128@28 3x3", [4, 128, 28, 28, 128, 3, 3, 1, 1, 1, 1, 1, 1, 1]),
    ("resnet224 256@14 3x3", [4, 256, 14, 14, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1]),
    ("resnet224 256@14 3x3 s2", [4, 256, 14, 14, 512, 3, 3, 2, 2, 1, 1, 1, 1, 1]),
    ("resnet224 512@7 3x3", [4, 512, 7, 7, 512, 3, 3, 1, 1, 1, 1, 1, 1, 1]),
    ("mobilenet 32@112 3x3 each", [4, 32, 112, 112, 32, 3, 3, 1, 1, 1, 1, 1, 1, 32]),
    ("mobilenet 96@112 3x3 s2 each", [4, 96, 112, 112, 96, 3, 3, 2, 2, 1, 1, 1, 1, 96]),
    ("mobilenet 384@14 3x3 each", [4, 384, 14, 14, 384, 3, 3, 1, 1, 1, 1, 1, 1, 384]),
    ("mobilenet 24@56 1x1", [4, 24, 56, 56, 144, 1, 1, 1, 1, 0, 0, 0, 0, 1]),
    ("mobilenet 384@14 1x1", [4, 384, 14, 14, 96, 1, 1, 1, 1, 0, 0, 0, 0, 1]),
    ("mobilenet 960@7 1x1", [4, 960, 7, 7, 160, 1, 1, 1, 1, 0, 0, 0, 0, 1]),
    ("vae 3@32 4x4 s2", [32, 3, 32, 32, 32, 4, 4, 2, 2, 1, 1, 1, 1, 1]),
    ("vae 32@16 4x4 s2", [32, 32, 16, 16, 64, 4, 4, 2, 2, 1, 1, 1, 1, 1]),
    ("vae 64@8 4x4 s2", [32, 64, 8, 8, 128, 4, 4, 2, 2, 1, 1, 1, 1, 1]),
    ("eegnet 22@512 1", [16, 22, 1, 512, 32, 1, 1, 1, 1, 0, 0, 0, 0, 1]),
    ("eegnet 32@512 63 each", [16, 32, 1, 512, 64, 1, 63, 1, 1, 0, 0, 31, 31, 32]),
    ("eegnet 64@128 15 each", [16, 64, 1, 128, 64, 1, 15, 1, 1, 0, 0, 7, 7, 64]),
];

/// A convolution.
struct Case {
    name: &'static str,
    x: [usize; 4],
    w: [usize; 4],
    y: [usize; 4],
    attrs: ConvAttrs,
}

/// The results of a convolution and its gradients.
const PASSES: [&str; 3] = ["forward", "input", "weight"];

impl Case {
    fn new((name, sizes): Shape) -> Case {
        let [n, c_in, h, w, c_out, kh, kw, s0, s1, top, bottom, left, right, groups] = sizes;
        let out = |size: usize, pad: usize, k: usize, s: usize| (size + pad - k) / s + 1;
        let attrs = ConvAttrs {
            stride: vec![s0 as i64, s1 as i64],
            pad: [top, bottom, left, right].map(|p| p as i64).to_vec(),
            dilation: vec![1, 1],
            groups: groups as i64,
        };
        Case {
            name,
            x: [n, c_in, h, w],
            w: [c_out, c_in / groups, kh, kw],
            y: [n, c_out, out(h, top + bottom, kh, s0), out(w, left + right, kw, s1)],
            attrs,
        }
    }

    /// Operations of each pass.
    fn flops(&self) -> f64 {
        let of = |dims: &[usize]| dims.iter().product::<usize>() as f64;
        2.0 * of(&self.y) * of(&self.w[1..])
    }

    /// The program of a pass.
    fn program(&self, pass: &str, threads: usize) -> Program {
        let graph = Builder::new("convolution");
        let input = |name: &str, dims: [usize; 4]| graph.input(name, dims, DType::F32);
        let out = match pass {
            "forward" => {
                let args = [input("a", self.x), input("b", self.w)];
                graph.emit1(Op::CONV2D, &args, &self.attrs.list())
            }
            "input" => {
                let args = [input("a", self.y), input("b", self.w)];
                let attrs = self.attrs.clone().input_grad([self.x[2], self.x[3]]);
                graph.emit1(Op::CONV2D_INPUT_GRAD, &args, &attrs.list())
            }
            _ => {
                let args = [input("a", self.x), input("b", self.y)];
                let attrs = self.attrs.clone().weight_grad([self.w[2], self.w[3]]);
                graph.emit1(Op::CONV2D_WEIGHT_GRAD, &args, &attrs.list())
            }
        };
        let graph = graph.finish([out.named("c")]).expect("a graph");
        let mut p = Session::new().threads(threads).compile(&graph).expect("a program");
        for name in ["a", "b"] {
            let numbers = p.values_mut::<f32>(name).expect("an input");
            numbers.iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 * 0.7).sin());
        }
        p
    }

    /// The least time of a pass in seconds.
    fn time(&self, pass: &str, threads: usize, seconds: f64) -> f64 {
        let mut p = self.program(pass, threads);
        p.step().expect("a step");
        let (start, mut best, mut steps) = (Instant::now(), f64::INFINITY, 0);
        while steps < 5 || start.elapsed().as_secs_f64() < seconds {
            let from = Instant::now();
            p.step().expect("a step");
            best = best.min(from.elapsed().as_secs_f64());
            steps += 1;
        }
        best
    }

    /// Measures all passes and prints the results.
    fn measure(&self, threads: usize, seconds: f64, json: bool) {
        let times = PASSES.map(|pass| self.time(pass, threads, seconds));
        if !json {
            let figures = times.map(|t| format!("{:9.4} ms {:6.1}", t * 1e3, self.flops() / t / 1e9));
            let [forward, input, weight] = figures;
            println!("{:30} thr {threads}  forward {forward}  input {input}  weight {weight}", self.name);
            return;
        }
        let ([n, c_in, h, w], [c_out, _, kh, kw], a) = (self.x, self.w, &self.attrs);
        for (pass, t) in PASSES.iter().zip(times) {
            println!(
                r#"{{"bench":"conv","shape":"{}","pass":"{pass}","n":{n},"c_in":{c_in},"h":{h},"w":{w},"c_out":{c_out},"kh":{kh},"kw":{kw},"stride":{:?},"pad":{:?},"groups":{},"threads":{threads},"ms":{:.5},"gflops":{:.2}}}"#,
                self.name,
                a.stride,
                a.pad,
                a.groups,
                t * 1e3,
                self.flops() / t / 1e9
            );
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1)).cloned();
    let threads = value("--threads").map_or(1, |v| v.parse().expect("a number"));
    let seconds = value("--seconds").map_or(0.03, |v| v.parse().expect("a number"));
    let (only, json) = (value("--only").unwrap_or_default(), args.iter().any(|a| a == "--json"));
    for shape in SHAPES.iter().filter(|s| s.0.contains(&only)) {
        Case::new(*shape).measure(threads, seconds, json);
    }
}
