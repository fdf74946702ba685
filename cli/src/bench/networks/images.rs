//! Networks on images and signals.

use super::class_loss;
use arenagrad::graph::window::{Conv1d, Conv2d, ConvTranspose2d, Pool1d, Pool2d};
use arenagrad::graph::{Attention, Builder, DType, Init, Layout, Reduction, Var};
use arenagrad::nn;

const F32: DType = DType::F32;

fn batch_norm<'g>(g: &'g Builder, name: &str, x: Var<'g>) -> Var<'g> {
    nn::batch_norm(g, name, x, nn::BatchNorm::default())
}

/// LeNet on images of 28×28.
pub fn lenet(g: &Builder) -> Var<'_> {
    let x = g.input("x", [64, 1, 28, 28], F32);
    let padded = Conv2d::default().pad([2, 2, 2, 2]);
    let h = nn::conv2d(g, "conv1", x, 6, [5, 5], padded).relu().max_pool2d(Pool2d::new([2, 2]));
    let h = nn::conv2d(g, "conv2", h, 16, [5, 5], Conv2d::default()).relu().max_pool2d(Pool2d::new([2, 2]));
    let h = nn::linear(g, "fc1", h.reshape([64, 400]), 120).relu();
    let h = nn::linear(g, "fc2", h, 84).relu();
    class_loss(g, nn::linear(g, "fc3", h, 10))
}

/// Three residual blocks of 16 channels with group norm, on images of 3×32×32.
pub fn group_normed(g: &Builder) -> Var<'_> {
    let conv = |name: &str, x| nn::conv2d(g, name, x, 16, 3, Conv2d::default().padding(1).bias(false));
    let norm = |name: &str, x| nn::group_norm(g, name, x, 4, 1e-5);
    let mut h = norm("stem_gn", conv("stem", g.input("x", [32, 3, 32, 32], F32))).relu();
    for block in 0..3 {
        let at = |what: &str| format!("b{block}.{what}");
        let f = norm(&at("gn1"), conv(&at("conv1"), h)).relu();
        h = (h + norm(&at("gn2"), conv(&at("conv2"), f))).relu();
    }
    class_loss(g, nn::linear(g, "fc", h.mean([2, 3]), 10))
}

/// EEGNet's form: depthwise-separable convolutions in one dimension, on 22 channels of 512 samples.
pub fn eeg(g: &Builder) -> Var<'_> {
    let conv = |name: &str, x, outputs, kernel: usize, groups| {
        let o = Conv1d::default().padding(kernel / 2).groups(groups).bias(false);
        nn::conv1d(g, name, x, outputs, kernel, o)
    };
    let pooled = |name: &str, x| batch_norm(g, name, x).elu(1.0).avg_pool1d(Pool1d::new([4]));
    let x = g.input("x", [16, 22, 512], F32);
    let h = batch_norm(g, "bn0", conv("conv0", x, 32, 1, 1));
    let h = pooled("bn1", conv("dw1", h, 64, 63, 32));
    let h = pooled("bn2", conv("pw2", conv("dw2", h, 64, 15, 64), 64, 1, 1));
    let h = pooled("bn3", conv("pw3", conv("dw3", h, 64, 15, 64), 128, 1, 1));
    class_loss(g, nn::linear(g, "fc", h.reshape([16, 1024]), 4))
}

/// A vision transformer with a class token, on images of 64×64 in patches of 8.
pub fn vit(g: &Builder) -> Var<'_> {
    let x = g.input("x", [16, 3, 64, 64], F32);
    let t = nn::conv2d(g, "patch", x, 192, 8, Conv2d::default().stride(8)).reshape([16, 192, 64]).transpose(&[0, 2, 1]);
    let token = g.param("cls", [1, 1, 192], F32, Init::Normal(0.02)).broadcast([16, 1, 192]);
    let mut t = token.concat(&[t], 1) + g.param("pos", [1, 65, 192], F32, Init::Normal(0.02));
    for layer in 0..12 {
        let at = |what: &str| format!("h.{layer}.{what}");
        let all = nn::linear(g, &at("qkv"), nn::layer_norm(g, &at("ln1"), t, 1e-5), 576);
        let [q, k, v] = [0, 1, 2].map(|i| all.narrow(-1, i * 192, 192));
        let y = q.attention(k, v, Attention::default().layout(Layout::Bsd).heads(3));
        t = t + nn::linear(g, &at("proj"), y, 192);
        let f = nn::linear(g, &at("fc"), nn::layer_norm(g, &at("ln2"), t, 1e-5), 768).gelu();
        t = t + nn::linear(g, &at("fcproj"), f, 192);
    }
    let first = nn::layer_norm(g, "lnf", t.narrow(1, 0, 1).squeeze([1]), 1e-5);
    class_loss(g, nn::linear(g, "head", first, 100))
}

/// A variational autoencoder of convolutions on images of 3×32×32. Input `eps` is the noise of the 64 latents.
pub fn vae(g: &Builder) -> Var<'_> {
    let (x, eps) = (g.input("x", [32, 3, 32, 32], F32), g.input("eps", [32, 64], F32));
    let down = |name: &str, x, o| nn::conv2d(g, name, x, o, 4, Conv2d::default().stride(2).padding(1));
    let up = |name: &str, x, o| nn::conv_transpose2d(g, name, x, o, 4, ConvTranspose2d::default().stride(2).padding(1));
    let h = batch_norm(g, "be1", down("e1", x, 32)).relu();
    let h = batch_norm(g, "be2", down("e2", h, 64)).relu();
    let h = batch_norm(g, "be3", down("e3", h, 128)).relu().reshape([32, 2048]);
    let (mu, log_var) = (nn::linear(g, "mu", h, 64), nn::linear(g, "lv", h, 64));
    let z = mu + (log_var * 0.5).exp() * eps;
    let h = nn::linear(g, "dec", z, 2048).relu().reshape([32, 128, 4, 4]);
    let h = batch_norm(g, "bd1", up("d1", h, 64)).relu();
    let h = batch_norm(g, "bd2", up("d2", h, 32)).relu();
    let rec = up("d3", h, 3).bce_with_logits_with(x, Reduction::Sum);
    let kl = (1.0 + log_var - mu * mu - log_var.exp()).sum(..) * -0.5;
    (rec + kl) / 32.0
}

/// ResNet-18, with torchvision's names, on images of 3×64×64.
pub fn resnet18(g: &Builder) -> Var<'_> {
    let conv = |name: &str, x, outputs, kernel: usize, stride: usize| {
        let o = Conv2d::default().stride(stride).padding(kernel / 2).bias(false);
        nn::conv2d(g, name, x, outputs, kernel, o)
    };
    let norm = |name: &str, x| batch_norm(g, name, x);
    let x = g.input("x", [8, 3, 64, 64], F32);
    let pool = Pool2d::new([3, 3]).stride([2; 2]).pad([1; 4]);
    let mut h = norm("bn1", conv("conv1", x, 64, 7, 2)).relu().max_pool2d(pool);
    for layer in 0..4 {
        for block in 0..2 {
            let at = |what: &str| format!("layer{}.{block}.{what}", layer + 1);
            let (outputs, stride) = (64 << layer, if layer > 0 && block == 0 { 2 } else { 1 });
            let y = norm(&at("bn1"), conv(&at("conv1"), h, outputs, 3, stride)).relu();
            let y = norm(&at("bn2"), conv(&at("conv2"), y, outputs, 3, 1));
            let skip = match stride {
                1 => h,
                _ => norm(&at("downsample.1"), conv(&at("downsample.0"), h, outputs, 1, stride)),
            };
            h = (y + skip).relu();
        }
    }
    class_loss(g, nn::linear(g, "fc", h.mean([2, 3]), 1000))
}
