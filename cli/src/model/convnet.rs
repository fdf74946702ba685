//! The convnet: 3×3 convolutions with ReLU, one 2×2 max pooling, two linear layers.
//!
//! Invariant: names and layouts of params are torch's (`conv1.weight` … `fc2.bias`), and the training graph and the
//! inference graph have the same params.

use super::{LOGITS, LOSS};
use crate::config::Model;
use arenagrad::error::Result;
use arenagrad::graph::window::{Conv2d, Pool2d};
use arenagrad::graph::{Builder, CrossEntropy, DType, GraphBuf, Var};
use arenagrad::nn;

/// Name of the input of images, `[batch, 1, height, width]`.
pub const IMAGES: &str = "images";
/// Name of the input of classes, `[batch]`.
pub const LABELS: &str = "labels";

/// The sizes that follow from the data.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Images of a batch.
    pub batch: usize,
    /// Height and width of an image.
    pub image: [usize; 2],
    /// Number of classes.
    pub classes: usize,
}

/// The logits, `[batch, classes]`.
fn convnet_logits<'g>(g: &'g Builder, m: &Model, s: Sizes, dropout: f64) -> Var<'g> {
    let mut x = g.input(IMAGES, [s.batch, 1, s.image[0], s.image[1]], DType::F32);
    let same = Conv2d::default().pad([1; 4]);
    for (i, &channels) in m.channels.iter().enumerate() {
        x = nn::conv2d(g, &format!("conv{}", i + 1), x, channels, [3, 3], same).relu();
    }
    // An image of one row or one column has no 2×2 window.
    if s.image.iter().all(|&n| n >= 2) {
        x = x.max_pool2d(Pool2d::new([2, 2]));
    }
    let x = x.reshape([s.batch, usize::MAX]);
    let mut h = nn::linear(g, "fc1", x, m.hidden).relu();
    if dropout > 0.0 {
        h = h.dropout(dropout);
    }
    nn::linear(g, "fc2", h, s.classes)
}

/// The training graph: [`IMAGES`] and [`LABELS`] to the mean cross entropy [`LOSS`], in nats.
pub fn convnet_training(m: &Model, s: Sizes) -> Result<GraphBuf> {
    let g = Builder::new("convnet");
    let logits = convnet_logits(&g, m, s, m.dropout);
    let labels = g.input(LABELS, [s.batch], DType::I32);
    let loss = logits.cross_entropy_with(labels, CrossEntropy::default()).named(LOSS);
    g.finish([loss])
}

/// The inference graph: [`IMAGES`] to [`LOGITS`], `[batch, classes]`.
pub fn convnet_inference(m: &Model, s: Sizes) -> Result<GraphBuf> {
    let g = Builder::new("convnet");
    let logits = convnet_logits(&g, m, s, 0.0).named(LOGITS);
    g.finish([logits])
}

#[cfg(test)]
mod tests {
    use super::*;
    use arenagrad::tools::testing::bless;
    use std::path::Path;

    /// The example in C trains this net, from these files.
    #[test]
    fn the_graphs_of_the_example_in_c_are_this_net() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi/examples");
        let sizes = |batch| Sizes { batch, image: [8, 8], classes: 10 };
        let m = Model::default();
        for (name, graph) in [
            ("digits.ir", convnet_training(&m, sizes(64)).unwrap()),
            ("digits_logits.ir", convnet_inference(&m, sizes(120)).unwrap()),
        ] {
            let (path, text) = (folder.join(name), graph.to_string());
            if !bless(&path, &text).unwrap() {
                assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{name}: run with BLESS=1");
            }
        }
    }
}
