//! Buffers of layers go wherever params go: files, copies and averages, here and in torch.

use crate::files::{Folder, message};
use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::nn::{self, BatchNorm, Conv1d, Recurrent};
use arenagrad::optim::{self, train};
use arenagrad::session::{Program, Session};
use arenagrad::train::{
    Batches, Load, Schedule, Trainer, Weights, averages, copy_averages, copy_params, merge, set_params,
};
use std::path::PathBuf;

fn torch(name: &str) -> Weights {
    Weights::open(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/torch").join(name)).unwrap()
}

/// Torch's net of `tests/torch/buffers.py`.
fn net(training: bool) -> GraphBuf {
    let g = Builder::new("net");
    g.training(training);
    let x = g.input("x", [4, 3, 10], DType::F32);
    let h = nn::conv1d(&g, "conv", x, 5, [3], Conv1d::default().padding(1));
    let h = nn::batch_norm(&g, "bn", h, BatchNorm::default());
    let y = nn::lstm_with(&g, "lstm", h.transpose(&[2, 0, 1]), 6, Recurrent::default()).output;
    g.output("loss", y.square().mean(..));
    g.finish([y.named("y")]).unwrap()
}

fn evaluating() -> Program {
    Session::new().compile(&net(false)).unwrap()
}

fn near(ours: &[f32], theirs: &str) {
    let theirs = torch("buffers_io.safetensors").values::<f32>(theirs).unwrap();
    let far = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(ours.len() == theirs.len() && far <= 3e-7, "{far:e}");
}

fn step(p: &mut Program) -> Vec<f32> {
    let x = torch("buffers_io.safetensors").values::<f32>("x").unwrap();
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&x);
    p.step().unwrap();
    p.values::<f32>("y").unwrap().to_vec()
}

/// A step of rate 0 moves the statistics alone, as torch's forward pass in training does.
fn learnt() -> Program {
    let graph = train(&net(true), "loss", optim::Sgd::new(0.0).ema(0.5)).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    let report = p.load_weights(&torch("buffers.safetensors"), Load::default()).unwrap();
    assert_eq!((report.loaded.len(), report.missing.len(), report.unexpected.len()), (11, 0, 0));
    near(&step(&mut p), "train");
    p
}

#[test]
fn torchs_state_dict_loads_strictly_into_training_and_evaluation() {
    let mut p = evaluating();
    let report = p.load_weights(&torch("buffers.safetensors"), Load::default()).unwrap();
    assert_eq!((report.loaded.len(), report.missing.len(), report.unexpected.len()), (11, 0, 0));
    near(&step(&mut p), "eval");
    let p = learnt();
    near(p.values("bn.running_mean").unwrap(), "after.bn.running_mean");
    near(p.values("bn.running_var").unwrap(), "after.bn.running_var");
    assert_eq!(p.values::<i64>("bn.num_batches_tracked").unwrap(), [4]);
}

#[test]
fn a_file_is_not_called_what_it_is_not() {
    let (folder, p) = (Folder::new("buffers_named"), learnt());
    for name in ["w.pt", "w.PTH", "w.npz"] {
        let path = folder.at(name);
        for saved in [p.save(&path), p.save_weights(&path)] {
            let e = saved.unwrap_err().to_string();
            assert!(e.contains(name) && e.contains("w.safetensors"), "{e}");
        }
        assert!(!path.exists());
    }
    p.save_weights(folder.at("w.bin")).unwrap();
}

#[test]
fn weights_without_values_are_neither_written_nor_copied() {
    let folder = Folder::new("buffers_empty");
    let (mut p, mut to) = (
        Session::new().compile(&train(&net(true), "loss", optim::Sgd::new(0.1).ema(0.5)).unwrap()).unwrap(),
        evaluating(),
    );
    let refused = |p: &Program, to: &mut Program, first: &str| {
        let path = folder.at("w");
        for done in [p.save(&path), p.save_weights(&path), copy_params(p, to), copy_averages(p, to)] {
            let e = done.unwrap_err().to_string();
            assert!(e.contains("neither initialised nor loaded") && e.contains(first), "{e}");
        }
        assert!(!path.exists() && !to.holds_value("conv.weight"));
    };
    refused(&p, &mut to, "conv.weight");
    p.values_mut::<f32>("conv.weight").unwrap().fill(1.0);
    refused(&p, &mut to, "conv.bias");
    p.init_rest(0).unwrap();
    p.save(folder.at("all")).unwrap();
    // No step has made an average yet.
    copy_averages(&p, &mut to).unwrap();
    assert_eq!(to.values::<f32>("conv.weight").unwrap(), [1.0; 45]);
}

#[test]
fn copies_and_files_bring_the_statistics() {
    let (folder, from) = (Folder::new("buffers"), learnt());
    let mut to = evaluating();
    copy_params(&from, &mut to).unwrap();
    near(&step(&mut to), "eval_after");
    let mut to = evaluating();
    copy_averages(&from, &mut to).unwrap();
    near(&step(&mut to), "eval_after");
    let mut to = evaluating();
    set_params(&averages(&from), &mut to).unwrap();
    near(&step(&mut to), "eval_after");
    // What trains writes, what evaluates reads, strictly.
    from.save(folder.at("all")).unwrap();
    from.save_weights(folder.at("weights")).unwrap();
    for file in ["all", "weights"] {
        let mut to = evaluating();
        let report = to.load_weights(&Weights::open(folder.at(file)).unwrap(), Load::default()).unwrap();
        assert_eq!((report.kept.len(), report.unexpected.len()), (0, 0), "{file}");
        near(&step(&mut to), "eval_after");
        let mut to = evaluating();
        to.load(folder.at(file)).unwrap();
        near(&step(&mut to), "eval_after");
    }
    let batches = Batches::new(4, 4, 1).unwrap();
    let trainer = Trainer::new(from, "loss", Schedule::Constant { lr: 0.1 }, batches, 1).unwrap();
    let mut to = evaluating();
    set_params(&trainer.weights(), &mut to).unwrap();
    near(&step(&mut to), "eval_after");
    trainer.save(folder.at("checkpoint")).unwrap();
    let mut to = evaluating();
    to.load(folder.at("checkpoint")).unwrap();
    near(&step(&mut to), "eval_after");
}

/// Written by a program of training or evaluation, the file has the keys, types and shapes of torch's.
#[test]
fn our_weights_have_all_keys_of_torchs_state_dict() {
    let folder = Folder::new("keys");
    let keys = |w: &Weights| w.tensors().iter().map(|t| (t.name.clone(), t.dtype, t.dims.clone())).collect::<Vec<_>>();
    let mut p = evaluating();
    copy_params(&learnt(), &mut p).unwrap();
    for (name, p) in [("trained", &learnt()), ("evaluated", &p)] {
        p.save_weights(folder.at(name)).unwrap();
        let ours = Weights::open(folder.at(name)).unwrap();
        assert_eq!(keys(&ours), keys(&torch("buffers.safetensors")));
        assert_eq!(ours.values::<i64>("bn.num_batches_tracked").unwrap(), [4]);
        if let Some(kept) = std::env::var_os("ARENAGRAD_KEEP_WEIGHTS") {
            std::fs::copy(folder.at(name), kept).unwrap();
        }
    }
}

#[test]
fn statistics_that_are_missing_are_an_error_and_the_count_is_none() {
    let folder = Folder::new("lacking");
    let p = learnt();
    p.save_weights(folder.at("w")).unwrap();
    let without = |end: &'static str| move |name: &str| (!name.ends_with(end)).then(|| name.to_string());
    let (count, mean) = (without("num_batches_tracked"), without("running_mean"));
    let file = Weights::open(folder.at("w")).unwrap();
    let mut to = evaluating();
    let e = message(to.load_weights(&file, Load::default().rename(&mean)));
    assert!(e.ends_with("there are no tensors for bn.running_mean"), "{e}");
    let report = to.load_weights(&file, Load::default().rename(&count)).unwrap();
    assert_eq!((report.kept, report.missing), (vec!["bn.num_batches_tracked".to_string()], vec![]));
    near(&step(&mut to), "eval_after");
    let entries = averages(&p);
    let some: Vec<_> = entries.into_iter().filter(|e| !e.name.ends_with("running_var")).collect();
    assert!(message(set_params(&some, &mut evaluating())).contains("no values for \"bn.running_var\""));
    // A program that holds values is not told to start all over.
    let some = Load::default().missing(arenagrad::train::Unmatched::Allow).rename(&mean);
    let var = without("running_var");
    let mut to = evaluating();
    let _some = to.load_weights(&file, some.rename(&var)).unwrap();
    to.values_mut::<f32>("x").unwrap().fill(0.0);
    assert!(
        message(to.step()).contains("\"bn.running_var\" (f32[5]) was neither initialised nor loaded: call init_rest")
    );
}

/// A state of one's own stays where it is; a buffer goes along, through files, text and merging.
#[test]
fn buffers_of_ones_own_go_along_and_states_do_not() {
    let graph = |buffer: bool| {
        let g = Builder::new("own");
        let x = nn::lora_linear(&g, "fc", g.input("x", [2, 2], DType::F32), 2, nn::Lora::new(1, 2.0));
        let scale = match buffer {
            true => g.buffer("scale", [2], DType::F32, Init::Ones),
            false => g.state("scale", [2], DType::F32, Init::Ones),
        };
        g.finish([(x * scale).named("y")]).unwrap()
    };
    let text = arenagrad::tools::ir::text::print(graph(true).view());
    assert!(text.contains("%scale = state init=ones scale=0.0 owner=layer : f32[2]"), "{text}");
    let again = arenagrad::tools::ir::text::parse(&text).unwrap();
    let mut p = Session::new().compile(&again).unwrap();
    p.init(0).unwrap();
    let folder = Folder::new("own");
    p.save_weights(folder.at("w")).unwrap();
    assert!(Weights::open(folder.at("w")).unwrap().find("scale").is_some());
    assert!(merge(&p).unwrap().iter().any(|t| t.entry().name == "scale"));
    let mut p = Session::new().compile(&graph(false)).unwrap();
    p.init(0).unwrap();
    p.save_weights(folder.at("w")).unwrap();
    assert!(Weights::open(folder.at("w")).unwrap().find("scale").is_none());
    let e = message(Session::new().compile_all(&[("a", &graph(false)), ("b", &graph(true))]));
    assert!(e.contains("a state f32[2] starting with ones") && e.contains("a buffer f32[2]"), "{e}");
}
