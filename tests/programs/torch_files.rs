//! Files of `torch.save`: each tensor has the bits that torch has written to a safetensors file beside it. What is no
//! state dict is refused by name. Fixtures: `tests/torch/torch_files.py`.

use crate::files::Folder;
use arenagrad::error::Result;
use arenagrad::graph::{Builder, DType, Init};
use arenagrad::session::{Program, Session};
use arenagrad::train::{Digest, Load, Unmatched, Weights, checkpoint};
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch/torch_files").join(name)
}

fn bytes(file: &Weights, name: &str) -> Vec<u8> {
    let t = file.find(name).unwrap_or_else(|| panic!("there is no {name}"));
    let mut bytes = vec![0; t.bytes];
    file.read(t, 0, &mut bytes).unwrap();
    bytes
}

/// Asserts that two files have equal tensors.
fn same(ours: &Weights, theirs: &Weights) {
    let names = |file: &Weights| file.tensors().iter().map(|t| t.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(ours), names(theirs));
    for (a, b) in ours.tensors().iter().zip(theirs.tensors()) {
        assert_eq!((a.dtype, &a.dims), (b.dtype, &b.dims), "{}", a.name);
        assert_eq!(bytes(ours, &a.name), bytes(theirs, &b.name), "{}", a.name);
    }
}

fn refused(path: &Path, parts: &[&str]) {
    let e = Weights::open(path).map(|_| ()).unwrap_err();
    let name = path.file_name().unwrap().to_string_lossy();
    assert!(e.message.contains(&*name) && !e.message.contains('\n'), "{e}");
    parts.iter().for_each(|part| assert!(e.message.contains(part), "{part:?}: {e}"));
}

#[test]
fn tensors_have_the_bits_of_torch() {
    for (ours, theirs) in [("state", "state"), ("protocol5", "state"), ("checkpoint", "checkpoint")] {
        let ours = Weights::open(fixture(&format!("{ours}.pt"))).unwrap();
        assert_eq!((ours.digest(), ours.format(), ours.unusable().len()), (Digest::Fits, "torch", 0));
        same(&ours, &Weights::open(fixture(&format!("{theirs}.safetensors"))).unwrap());
    }
    let file = Weights::open(fixture("no_crc.pt")).unwrap();
    assert_eq!((file.digest(), file.values::<f32>("w").unwrap()), (Digest::Absent, vec![1.0; 2]));
}

#[test]
fn tensors_that_are_not_row_major_are_read_in_pieces() {
    let file = Weights::open(fixture("state.pt")).unwrap();
    for name in ["transposed", "columns", "channels_last", "expanded"] {
        let (t, all) = (file.find(name).unwrap(), bytes(&file, name));
        for at in (0..t.bytes).step_by(7) {
            let mut part = vec![0; 7.min(t.bytes - at)];
            file.read(t, at, &mut part).unwrap();
            assert_eq!(part, all[at..at + part.len()], "{name} from byte {at}");
        }
    }
}

#[test]
fn a_prefix_chooses_a_part() {
    let model = Weights::open_part(fixture("with_args.pt"), "model").unwrap();
    let names: Vec<&str> = model.tensors().iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names.len(), 9, "{names:?}");
    let whole = Weights::open(fixture("checkpoint.safetensors")).unwrap();
    names.iter().for_each(|name| assert_eq!(bytes(&model, name), bytes(&whole, &format!("model.{name}")), "{name}"));
    // The same of a safetensors file, and of a prefix with a dot in it.
    same(&Weights::open_part(fixture("checkpoint.safetensors"), "model").unwrap(), &model);
    assert_eq!(Weights::open_part(fixture("with_args.pt"), "model.0").unwrap().tensors().len(), 2);
    for (file, prefix) in [("with_args.pt", "mod"), ("checkpoint.safetensors", "nothing"), ("state.pt", "whole")] {
        let e = Weights::open_part(fixture(file), prefix).map(|_| ()).unwrap_err();
        assert!(e.message.contains(&format!("no name of a tensor begins with \"{prefix}.\"")), "{e}");
    }
    refused(&fixture("with_args.pt"), &["\"args\" is a \"argparse.Namespace\"", "a prefix chooses another part"]);
}

#[test]
fn what_is_no_state_dict_is_refused_by_name() {
    for (file, parts) in [
        ("legacy.pt", &["before torch 1.6", "torch.save(torch.load(path), path)"][..]),
        ("script.pt", &["TorchScript", "torch.jit.load(path).state_dict()"]),
        ("module.pt", &["torch.nn.modules.container.Sequential", "module.state_dict()"]),
        ("sparse.pt", &["\"s\" is a \"torch._utils._rebuild_sparse_tensor\""]),
        ("bare.pt", &["one tensor without a name"]),
    ] {
        refused(&fixture(file), parts);
    }
    let odd = Weights::open(fixture("odd.pt")).unwrap();
    let why = |name: &str| odd.unusable().iter().find(|t| t.name == name).unwrap().error().message;
    assert!(why("f8").contains("\"f8\" is float8_e4m3fn[2]: there is no such type"), "{}", why("f8"));
    assert!(why("conj").contains("resolve_conj"), "{}", why("conj"));
    assert_eq!(odd.find("c").map(|t| (t.dtype, t.dims.len())), Some((DType::C128, 1)));
    assert_eq!(bytes(&odd, "c"), [1f64.to_le_bytes(), 2f64.to_le_bytes()].concat());
}

/// A program with a param `w` of this shape.
fn program(dims: [usize; 2]) -> Program {
    let g = Builder::new("one");
    let graph = g.finish([g.param("w", dims, DType::F32, Init::Zeros).sum(..).named("y")]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.init(1).unwrap();
    p
}

#[test]
fn matrices_are_transposed_by_a_rule() {
    let file = Weights::open(fixture("state.pt")).unwrap();
    let load = |dims, from: &str, transpose: &[&str]| -> Result<(Vec<f32>, Vec<String>)> {
        let mut p = program(dims);
        let only = |name: &str| (name == from).then(|| "w".to_string());
        let report = p.load_weights(&file, Load::default().rename(&only).transpose(transpose))?;
        let values = bytemuck::cast_slice(p.persistent().next().unwrap().1).to_vec();
        Ok((values, report.transposed))
    };
    let (whole, turned) = (file.values::<f32>("whole").unwrap(), file.values::<f32>("transposed").unwrap());
    assert_ne!(whole, turned);
    assert_eq!(load([6, 4], "whole", &[]).unwrap(), (whole.clone(), vec![]));
    assert_eq!(load([4, 6], "whole", &["who*"]).unwrap(), (turned, vec!["w".to_string()]));
    assert_eq!(load([6, 4], "transposed", &["transposed"]).unwrap().0, whole);
    let refused = |dims, from: &str, rule: &str, part: &str| {
        let e = load(dims, from, &[rule]).unwrap_err();
        assert!(e.message.contains(part), "{e}");
    };
    refused([6, 4], "whole", "whole", "after `transpose`: \"whole\" is f32[4, 6] in the file, not f32[6,4]");
    refused([6, 4], "whole", "*.weight", "transpose \"*.weight\" matches no tensor that is loaded; there are whole");
    refused([6, 4], "whole", "tied", "matches no tensor that is loaded");
    refused([1, 1], "scalar", "scalar", "`transpose` exchanges the last two axes");
}

#[test]
fn a_folder_is_opened_by_the_names_of_its_files() {
    let folder = Folder::new("hugging_face");
    let write = |name: &str, file: &[u8]| std::fs::write(folder.at(name), file).unwrap();
    let dir = folder.at("config.json").parent().unwrap().to_path_buf();
    write("config.json", b"{}");
    let e = Weights::open(&dir).map(|_| ()).unwrap_err();
    assert!(e.message.contains("a folder with none of model.safetensors"), "{e}");
    let state = std::fs::read(fixture("state.pt")).unwrap();
    // Shards of torch.save, listed.
    write("part.bin", &state);
    write("pytorch_model.bin.index.json", br#"{"weight_map":{"whole":"part.bin","tied":"part.bin"}}"#);
    let shards = Weights::open(&dir).unwrap();
    assert_eq!((shards.tensors().len(), shards.format(), shards.notes().len()), (2, "torch", 0));
    assert_eq!(bytes(&shards, "tied"), bytes(&Weights::open(fixture("state.pt")).unwrap(), "whole"));
    write("pytorch_model.bin", &state);
    same(&Weights::open(&dir).unwrap(), &Weights::open(fixture("state.safetensors")).unwrap());
    // Safetensors win.
    let w = checkpoint::encode(&[]).unwrap();
    write("model.safetensors", &w);
    let chosen = Weights::open(&dir).unwrap();
    assert_eq!((chosen.tensors().len(), chosen.format()), (0, "safetensors"));
    let said = chosen.notes().join("\n");
    assert!(
        said.contains("model.safetensors is read, and pytorch_model.bin, pytorch_model.bin.index.json is not"),
        "{said}"
    );
}

#[test]
fn a_program_loads_a_state_dict() {
    let g = Builder::new("net");
    let x = g.input("x", [5, 3], DType::F32);
    let y = arenagrad::nn::batch_norm(&g, "1", arenagrad::nn::linear(&g, "0", x, 4), Default::default());
    let graph = g.finish([arenagrad::nn::linear(&g, "2", y, 2).named("y")]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.init(3).unwrap();
    let file = Weights::open_part(fixture("checkpoint.pt"), "model").unwrap();
    let report = p.load_weights(&file, Load::default().missing(Unmatched::Refuse)).unwrap();
    assert!(report.loaded.len() >= 8 && report.unexpected.is_empty(), "{report:?}");
    let (leaf, kept) = p.persistent().find(|(b, _)| b.name == "2.weight").unwrap();
    assert_eq!((kept, &leaf.dims[..]), (&bytes(&file, "2.weight")[..], &[2, 4][..]));
}
