//! Low-rank adaptations: merging, scales that stay with the factors, and adapters of PEFT.

use crate::files::{Folder, floats, loose, message, write};
use arenagrad::graph::{Builder, DType};
use arenagrad::nn::{self, Lora};
use arenagrad::session::{Program, Session};
use arenagrad::train::{Adapter, Load, Tensor, Unmatched, Weights, merge, peft_name, set_params};

/// Two adapted layers, 2 → 2 → 1, of these options.
fn adapted(options: [Lora; 2]) -> Program {
    let g = Builder::new("adapted");
    let h = nn::lora_linear(&g, "fc1", g.input("x", [1, 2], DType::F32), 2, options[0].bias(false));
    let y = nn::lora_linear(&g, "fc2", h, 1, options[1].bias(false)).named("y");
    let mut p = Session::new().compile(&g.finish([y]).unwrap()).unwrap();
    p.init(1).unwrap();
    p
}

/// The same network without adaptations.
fn plain() -> Program {
    let g = Builder::new("plain");
    let no_bias = nn::Linear::default().bias(false);
    let h = nn::linear_with(&g, "fc1", g.input("x", [1, 2], DType::F32), 2, no_bias);
    let y = nn::linear_with(&g, "fc2", h, 1, no_bias).named("y");
    Session::new().compile(&g.finish([y]).unwrap()).unwrap()
}

/// Weights and factors of both layers, by name: fc1 is the identity and a tenth of it, fc2 a sum and a quarter of h₀.
const NUMBERS: [(&str, [usize; 2], &[f32]); 6] = [
    ("fc1.weight", [2, 2], &[1.0, 0.0, 0.0, 1.0]),
    ("fc1.lora_A", [2, 2], &[1.0, 0.0, 0.0, 1.0]),
    ("fc1.lora_B", [2, 2], &[0.1, 0.0, 0.0, 0.1]),
    ("fc2.weight", [1, 2], &[1.0, 1.0]),
    ("fc2.lora_A", [1, 2], &[1.0, 0.0]),
    ("fc2.lora_B", [1, 1], &[0.25]),
];

fn output(p: &mut Program) -> f32 {
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, 0.5]);
    p.step().unwrap();
    p.values::<f32>("y").unwrap()[0]
}

/// The output of the plain network with the merged weights.
fn merged_output(p: &Program) -> f32 {
    let (merged, mut plain) = (merge(p).unwrap(), plain());
    assert_eq!(merged.iter().map(|t| t.entry().name).collect::<Vec<_>>(), ["fc1.weight", "fc2.weight"]);
    set_params(&merged.iter().map(Tensor::entry).collect::<Vec<_>>(), &mut plain).unwrap();
    output(&mut plain)
}

fn near(a: f32, b: f32) {
    assert!((a - b).abs() < 1e-6, "{a} {b}");
}

/// h = 1.2·x and y = 3·h₀ + h₁ = 4.2; with alpha 4 for both it would be 3, with 8 for both 4.9.
#[test]
fn each_layer_is_merged_by_its_own_alpha() {
    let mut p = adapted([Lora::new(2, 4.0), Lora::new(1, 8.0)]);
    NUMBERS.iter().for_each(|(name, _, numbers)| p.values_mut::<f32>(name).unwrap().copy_from_slice(numbers));
    near(output(&mut p), 4.2);
    near(merged_output(&p), 4.2);
    // A file keeps the scales, so a program that was built with other ones merges by those of the file.
    let folder = Folder::new("scales");
    p.save_weights(folder.at("w")).unwrap();
    let mut other = adapted([Lora::new(2, 1.0), Lora::new(1, 1.0)]);
    assert_eq!(other.load_weights(&Weights::open(folder.at("w")).unwrap(), Load::default()).unwrap().loaded.len(), 8);
    near(output(&mut other), 4.2);
    near(merged_output(&other), 4.2);
}

#[test]
fn rslora_scales_by_the_root_of_the_rank() {
    assert_eq!(Lora::new(4, 6.0).scale(), 1.5);
    assert_eq!(Lora::new(4, 6.0).rslora(true).scale(), 3.0);
    let p = adapted([Lora::new(2, 4.0).rslora(true), Lora::new(1, 8.0)]);
    assert_eq!(p.values::<f32>("fc1.lora_scale").unwrap(), [8f32.sqrt()]);
    assert!(message(merge(&plain())).contains("no params lora_A and lora_B"));
}

/// Writes an adapter as PEFT does: with `end` behind the names of factors, `config` beside `"r": 2, "lora_alpha": 4`,
/// and `more` tensors.
fn write_adapter(folder: &Folder, end: &str, config: &str, more: &[Tensor]) {
    let text = format!(r#"{{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none"{config}}}"#);
    std::fs::write(folder.at("adapter_config.json"), text).unwrap();
    let factors = NUMBERS.iter().filter(|n| n.0.contains("lora"));
    let factors = factors.map(|(name, dims, numbers)| floats(&format!("base_model.model.{name}{end}"), dims, numbers));
    write(&folder.at("adapter_model.safetensors"), &factors.chain(more.iter().cloned()).collect::<Vec<_>>());
}

const SECOND: &str = r#", "rank_pattern": {"fc2": 1}, "alpha_pattern": {"^fc2": 8}"#;

fn base() -> Program {
    let mut p = adapted([Lora::new(2, 1.0), Lora::new(1, 1.0)]);
    for (name, _, numbers) in NUMBERS.iter().filter(|n| n.0.ends_with("weight")) {
        p.values_mut::<f32>(name).unwrap().copy_from_slice(numbers);
    }
    p
}

#[test]
fn adapters_of_peft_bring_their_scales() {
    let folder = Folder::new("peft");
    for end in [".weight", ".default.weight", ".french.weight"] {
        write_adapter(&folder, end, SECOND, &[]);
        let adapter = Adapter::open(folder.at("")).unwrap();
        let layers: Vec<_> = adapter.layers().map(|(name, lora)| (name.to_string(), lora)).collect();
        assert_eq!(layers, [("fc1".into(), Lora::new(2, 4.0)), ("fc2".into(), Lora::new(1, 8.0))]);
        let mut p = base();
        let report = p.load_adapter(&adapter, Load::default()).unwrap();
        assert_eq!((report.loaded.len(), report.missing.len()), (6, 0));
        near(output(&mut p), 4.2);
        near(merged_output(&p), 4.2);
    }
    let root = format!("{SECOND}, \"use_rslora\": true");
    write_adapter(&folder, ".weight", &root, &[]);
    let mut p = base();
    let adapter = Adapter::open(folder.at("adapter_model.safetensors")).unwrap();
    let _all = p.load_adapter(&adapter, Load::default()).unwrap();
    assert_eq!(p.values::<f32>("fc1.lora_scale").unwrap(), [8f32.sqrt()]);
    near(output(&mut p), merged_output(&p));
    // A layer that the adapter does not have.
    let g = Builder::new("three");
    let x = g.input("x", [1, 2], DType::F32);
    let y = ["fc1", "fc3"].map(|name| nn::lora_linear(&g, name, x, 2, Lora::new(2, 1.0)));
    let mut three = Session::new().compile(&g.finish(y).unwrap()).unwrap();
    let some = Load::default().unexpected(Unmatched::Allow);
    let e = message(three.load_adapter(&adapter, some));
    assert!(e.contains("no tensors for fc3.lora_A, fc3.lora_B, fc3.lora_scale"), "{e}");
    let report = three.load_adapter(&adapter, loose()).unwrap();
    assert_eq!(report.loaded, ["fc1.lora_A", "fc1.lora_B", "fc1.lora_scale"]);
    let short = |name: &str| name.strip_prefix("fc").map(|rest| format!("none{rest}"));
    assert!(message(p.load_adapter(&adapter, loose().rename(&short))).contains("no name matches"));
}

#[test]
fn modules_that_are_saved_whole_are_loaded() {
    let folder = Folder::new("modules");
    let config = format!("{SECOND}, \"modules_to_save\": [\"head\"]");
    write_adapter(&folder, ".weight", &config, &[]);
    assert!(message(Adapter::open(folder.at(""))).ends_with("no tensor is of \"head\", one of modules_to_save"));
    for name in ["base_model.model.head.weight", "base_model.model.head.modules_to_save.french.weight"] {
        let original = floats("base_model.model.head.original_module.weight", &[1, 2], &[0.0; 2]);
        write_adapter(&folder, ".weight", &config, &[floats(name, &[1, 2], &[3.0, 4.0]), original]);
        let g = Builder::new("headed");
        let h = nn::lora_linear(&g, "fc1", g.input("x", [1, 2], DType::F32), 2, Lora::new(2, 1.0));
        let y = nn::linear(&g, "head", h, 1).named("y");
        let mut p = Session::new().compile(&g.finish([y]).unwrap()).unwrap();
        let how = Load::default().unexpected(Unmatched::Allow);
        let report = p.load_adapter(&Adapter::open(folder.at("")).unwrap(), how).unwrap();
        assert_eq!(report.loaded, ["fc1.lora_A", "fc1.lora_B", "head.weight", "fc1.lora_scale"]);
        assert_eq!(p.values::<f32>("head.weight").unwrap(), [3.0, 4.0]);
    }
}

#[test]
fn parts_that_are_not_built_are_refused_by_name_and_never_dropped() {
    let folder = Folder::new("parts");
    for part in ["fc1.lora_magnitude_vector", "fc1.lora_magnitude_vector.french.weight", "fc1.lora_B.bias"] {
        let name = format!("base_model.model.{part}");
        write_adapter(&folder, ".weight", SECOND, &[floats(&name, &[2], &[1.0; 2])]);
        assert!(message(Adapter::open(folder.at(""))).contains(&format!("{name:?}")), "{part}");
        // As weights, whatever is allowed.
        let file = Weights::open(folder.at("adapter_model.safetensors")).unwrap();
        let e = message(base().load_weights(&file, loose().rename(&peft_name)));
        assert!(e.contains(&format!("{name:?} is a part of an adaptation")), "{e}");
    }
    write_adapter(&folder, ".weight", r#", "use_dora": true"#, &[]);
    assert!(message(Adapter::open(folder.at(""))).contains("adapter_config.json: use_dora is set"));
    write_adapter(&folder, ".weight", "", &[]);
    let e = message(Adapter::open(folder.at("")));
    assert!(e.contains("\"base_model.model.fc2.lora_A.weight\" is f32[1, 2]; the configuration says rank 2"), "{e}");
    let half = floats("base_model.model.fc3.lora_A.weight", &[2, 2], &[0.0; 4]);
    write_adapter(&folder, ".weight", SECOND, &[half]);
    assert!(message(Adapter::open(folder.at(""))).ends_with("layer \"fc3\" has no tensor \"lora_B\""));
    let second = floats("base_model.model.fc1.lora_A.german.weight", &[2, 2], &[0.0; 4]);
    write_adapter(&folder, ".french.weight", SECOND, &[second]);
    assert!(message(Adapter::open(folder.at(""))).contains("are both for \"fc1.lora_A\""));
    assert!(message(Adapter::open(folder.at("none"))).contains("none"));
}

/// A scale that the leaf's type cannot hold, or a layer whose scale is not there, changes nothing.
#[test]
fn an_adapter_that_does_not_fit_changes_nothing() {
    let folder = Folder::new("unfit");
    write_adapter(&folder, ".weight", r#", "rank_pattern": {"fc2": 1}, "alpha_pattern": {"fc2": 1e300}"#, &[]);
    let mut p = base();
    let kept = |p: &Program| p.persistent().map(|(_, bytes)| bytes.to_vec()).collect::<Vec<_>>();
    let before = kept(&p);
    let e = message(p.load_adapter(&Adapter::open(folder.at("")).unwrap(), Load::default()));
    assert!(e.contains("of \"fc2.lora_scale\" is no f32"), "{e}");
    assert_eq!(kept(&p), before);
}
