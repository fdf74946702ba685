//! Any two files opened as an adapter of PEFT: its configuration and its tensors. What opens has ranks that are those
//! of its factors; a load changes all or nothing; what is loaded can be merged.

use super::{READERS, Target};
use crate::files::file_path;
use arenagrad::graph::{Builder, DType};
use arenagrad::nn::{self, Lora};
use arenagrad::session::{Program, Session};
use arenagrad::train::checkpoint::{Entry, encode};
use arenagrad::train::{Adapter, Load, Unmatched, merge, peft_name};

pub const TARGET: Target = Target {
    name: "adapters",
    about: "any two files opened as an adapter: ranks are those of the factors; a load changes all or nothing",
    run,
    seeds,
    words: WORDS,
    max_len: 4096,
    memory: super::MemoryLimit { base: 4 << 20, each: READERS.each },
};

const WORDS: &[&str] = &[
    "\"peft_type\":\"LORA\"",
    "\"r\":2",
    "\"lora_alpha\":4",
    "\"rank_pattern\":{\"fc2\":1}",
    "\"alpha_pattern\":{\"fc2\":8}",
    "\"use_rslora\":true",
    "\"use_dora\":true",
    "\"modules_to_save\":[\"head\"]",
    "base_model.model.fc1.lora_A.weight",
    "base_model.model.fc2.lora_B.default.weight",
    "fc1.lora_magnitude_vector",
    ".base_layer.",
    ".modules_to_save.",
    "\\\\d+",
    ".*",
];

/// Runs the target. The first byte chooses how the adapter is loaded, and the next two are the length of the
/// configuration; the tensors follow it.
pub fn run(data: &[u8]) {
    let Some(([how, low, high], rest)) = data.split_first_chunk::<3>() else { return };
    let (config, file) = rest.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(rest.len()));
    let folder = file_path("adapters");
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes);
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| write("adapter_config.json", config))
        .and_then(|()| write("adapter_model.safetensors", file));
    written.unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    match Adapter::open(&folder) {
        Ok(adapter) => load(&adapter, *how),
        Err(e) => assert!(!e.message.is_empty()),
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// Two adapted layers, of ranks 2 and 1.
fn program() -> Program {
    let g = Builder::new("adapted");
    let h = nn::lora_linear(&g, "fc1", g.input_or("x", [1, 2], DType::F32, 1.0), 2, Lora::new(2, 1.0));
    let y = nn::lora_linear(&g, "fc2", h, 1, Lora::new(1, 1.0)).named("y");
    let compiled = g.finish([y]).and_then(|graph| Session::new().compile(&graph));
    compiled.and_then(|mut p| p.init(1).map(|()| p)).unwrap_or_else(|e| panic!("{e}"))
}

fn load(adapter: &Adapter, how: u8) {
    let tensors = adapter.weights().tensors();
    for (layer, lora) in adapter.layers() {
        let is = |t: &&arenagrad::train::Stored| peft_name(&t.name).is_some_and(|n| n == format!("{layer}.lora_A"));
        let factor = tensors.iter().find(is).unwrap_or_else(|| panic!("{layer:?} has no factor"));
        assert_eq!(factor.dims[0], lora.rank, "{layer:?}");
    }
    let mut p = program();
    let kept = |p: &Program| p.persistent().map(|(_, bytes)| bytes.to_vec()).collect::<Vec<_>>();
    let before = kept(&p);
    let choice = |bit: u8| if how & bit == bit { Unmatched::Refuse } else { Unmatched::Allow };
    let how = Load::default().missing(choice(1)).unexpected(choice(2)).cast(how & 4 == 4);
    match p.load_adapter(adapter, how) {
        Err(e) => assert!(kept(&p) == before && !e.message.is_empty(), "{e}"),
        Ok(report) => {
            for (layer, lora) in adapter.layers() {
                let name = format!("{layer}.lora_scale");
                if report.loaded.contains(&name) {
                    let values = p.values::<f32>(&name).unwrap_or_else(|e| panic!("{e}"));
                    assert_eq!(values, [lora.scale() as f32], "{name}");
                }
            }
        }
    }
    // A file may have scales of its own, of any value.
    match merge(&p) {
        Ok(merged) => assert_eq!(merged.len(), 4),
        Err(e) => assert!(e.message.contains("finite"), "{e}"),
    }
    p.step().unwrap_or_else(|e| panic!("{e}"));
}

/// Adapters as PEFT writes them, each with one thing of its own.
fn seeds() -> Vec<Vec<u8>> {
    let tensors = [("fc1.lora_A", [2, 2]), ("fc1.lora_B", [2, 2]), ("fc2.lora_A", [1, 2]), ("fc2.lora_B", [1, 1])];
    let second = r#","rank_pattern":{"fc2":1}"#;
    let more = [
        ("", ".weight", None),
        (r#","alpha_pattern":{"^fc2|net.fc\\d+":8.5}"#, ".french.weight", None),
        (r#","use_rslora":true,"modules_to_save":["head"]"#, ".weight", Some("base_model.model.head.weight")),
        ("", ".weight", Some("base_model.model.fc1.base_layer.weight")),
        ("", ".weight", Some("base_model.model.fc1.lora_magnitude_vector")),
        (r#","use_dora":true"#, ".weight", None),
        (r#","init_lora_weights":"pissa""#, ".weight", None),
    ];
    let seed = |(how, (config, end, extra)): (usize, (&str, &str, Option<&str>))| {
        let config = format!(r#"{{"peft_type":"LORA","r":2,"lora_alpha":4{second}{config}}}"#);
        let names: Vec<String> = tensors.iter().map(|t| format!("base_model.model.{}{end}", t.0)).collect();
        let mut entries: Vec<Entry<'_>> = Vec::new();
        let bytes = [0, 0, 0, 63].repeat(4);
        for (name, (_, dims)) in names.iter().zip(&tensors) {
            entries.push(Entry::new(name, DType::F32, dims, &bytes[..4 * dims[0] * dims[1]]));
        }
        entries.extend(extra.map(|name| Entry::new(name, DType::F32, &[2, 2], &bytes)));
        let file = encode(&entries).unwrap_or_default();
        let len = (config.len() as u16).to_le_bytes();
        [&[how as u8], &len[..], config.as_bytes(), &file].concat()
    };
    more.into_iter().enumerate().map(seed).collect()
}
