//! Adapters of PEFT: the factors of low-rank adaptations, and the file beside them that has their scales.
//!
//! Invariant: every tensor of an opened adapter belongs to a layer whose rank and scale are known, or is a plain param;
//! a failed load changes nothing.

use super::adapter_config::{AdapterConfig, CONFIG_LIMIT};
use super::bad_checkpoint;
use super::floats::{read_checkpoint_float, write_checkpoint_float};
use super::lora::{PARTS, is_unbuilt_part, peft_name};
use super::program_load::{Load, LoadReport, Unmatched, checkpoint_load_plan};
use super::stored::Stored;
use super::weights::Weights;
use crate::error::{Error, Kind, Result};
use crate::names::list_names;
use crate::nn::Lora;
use crate::session::Program;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The files of an adapter.
const FILES: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];

/// An adapter that PEFT wrote, opened: its factors, and rank and scale of each layer.
///
/// ```no_run
/// use arenagrad::prelude::*;
/// use arenagrad::train::{Adapter, Load, merge};
///
/// # fn adapt(program: &mut Program) -> Result<()> {
/// let adapter = Adapter::open("french")?; // a folder with adapter_config.json and adapter_model.safetensors
/// for (layer, lora) in adapter.layers() {
///     println!("{layer}: rank {}, alpha {}", lora.rank, lora.alpha); // what nn::lora_linear wants
/// }
/// let report = program.load_adapter(&adapter, Load::default().cast(true))?;
/// println!("{:?}", report.loaded);
/// let merged = merge(program)?; // the scales are the adapter's
/// # Ok(())
/// # }
/// ```
pub struct Adapter {
    weights: Weights,
    /// The layers by their names in the base model.
    layers: BTreeMap<String, Lora>,
}

impl Adapter {
    /// Opens the folder `path`, or the safetensors file `path` with the `adapter_config.json` of its folder.
    ///
    /// Rank and alpha are those of `rank_pattern` and `alpha_pattern`, or `r` and `lora_alpha`; `use_rslora` scales by
    /// alpha/√r. Patterns are regular expressions, as PEFT's: one matches the end of a layer's name, from its start or
    /// from behind a dot, and the first of the file that matches counts. Look-around and back-references are refused.
    ///
    /// Errors, which name the file: those of [`Weights::open`]; the configuration is not one of LoRA, or asks for what
    /// is not built (DoRA, biases of factors, replicated layers, start values that change the base), by its key; a
    /// tensor of such a kind is there; a layer has one factor, or another rank than the configuration says; two tensors
    /// are for one name, as of two adapters in a file; a module of `modules_to_save` has no tensor.
    pub fn open(path: impl AsRef<Path>) -> Result<Adapter> {
        let path = path.as_ref();
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
        let [config, model] = FILES.map(|name| folder.join(name));
        let config = read_config(&config).map_err(|e| e.context(config.display()))?;
        let model = if path.is_dir() { model } else { path.to_path_buf() };
        let weights = Weights::open(&model)?;
        let layers = read_layers(&config, &weights).map_err(|e| e.context(model.display()))?;
        Ok(Adapter { weights, layers })
    }

    /// The adapted layers, by their names in the base model, with the options that
    /// [`nn::lora_linear`](crate::nn::lora_linear) wants.
    pub fn layers(&self) -> impl Iterator<Item = (&str, Lora)> {
        self.layers.iter().map(|(name, lora)| (name.as_str(), *lora))
    }

    /// The tensors, under PEFT's names.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }
}

impl Program {
    /// Reads the factors of `adapter`, the scales of its layers and the modules that it saves whole. Names are those of
    /// [`peft_name`]; [`Load::rename`] then makes the program's of them. Ranks must be those of the program; scales are
    /// the adapter's, whatever the program was built with.
    ///
    /// [`Load::missing`] is about factors alone: the weights of the base come from another file. Errors are otherwise
    /// those of [`Program::load_weights`]; a layer has no state `lora_scale` of one float; a scale is too large for its
    /// type. The program is unchanged then.
    pub fn load_adapter(&mut self, adapter: &Adapter, how: Load<'_>) -> Result<LoadReport> {
        let own = |name: &str| how.rename.map_or_else(|| Some(name.to_string()), |f| f(name));
        let rename = |name: &str| own(&peft_name(name)?);
        let all = Load { missing: Unmatched::Allow, rename: Some(&rename), ..how };
        let (pairs, mut report) = self.load_pairs(&adapter.weights, &all)?;
        let plan = checkpoint_load_plan(&pairs);
        let mut scales = Vec::new();
        for (layer, lora) in adapter.layers() {
            let [factor, _, scale] = PARTS.map(|part| own(&format!("{layer}{part}")));
            if !factor.is_some_and(|factor| report.loaded.contains(&factor)) {
                continue;
            }
            let scale = scale.unwrap_or_default();
            scales.push((self.adapter_scale_bytes(&scale, lora)?, scale));
        }
        report.missing.retain(|name| PARTS.iter().any(|part| name.ends_with(part)));
        report.missing.retain(|name| scales.iter().all(|(_, scale)| scale != name));
        if how.missing == Unmatched::Refuse && !report.missing.is_empty() {
            let text = format!("there are no tensors for {}", list_names(report.missing.iter().map(String::as_str)));
            let at = adapter.weights.tensors().first().map_or(Path::new(""), |t| adapter.weights.path(t));
            return Err(Error::new(Kind::Name, text).context(at.display()));
        }
        self.load_into(&adapter.weights, plan)?;
        for (bytes, name) in scales {
            self.persistent_mut(&name)?.1.copy_from_slice(&bytes);
            report.loaded.push(name);
        }
        Ok(report)
    }

    /// The scale of `lora` as bytes of the state `name`.
    fn adapter_scale_bytes(&self, name: &str, lora: Lora) -> Result<Vec<u8>> {
        let leaf = self.persistent().map(|(b, _)| b).find(|b| b.name == name);
        let leaf = leaf.ok_or_else(|| {
            Error::new(Kind::Name, format!("the program has no state {name:?} for a scale; nn::lora_linear makes one"))
        })?;
        if !leaf.dtype.is_real_float() || !leaf.dims.is_empty() {
            let text = format!("{name:?} is {}{}; a scale is one float", leaf.dtype, leaf.dims);
            return Err(Error::new(Kind::Shape, text));
        }
        let mut bytes = vec![0; leaf.bytes];
        write_checkpoint_float(leaf.dtype, &mut bytes, lora.scale());
        match read_checkpoint_float(leaf.dtype, &bytes).is_finite() {
            true => Ok(bytes),
            false => Err(bad_checkpoint(format!("the scale {} of {name:?} is no {}", lora.scale(), leaf.dtype))),
        }
    }
}

fn read_config(path: &Path) -> Result<AdapterConfig> {
    let mut text = Vec::new();
    File::open(path)?.take(CONFIG_LIMIT + 1).read_to_end(&mut text)?;
    if text.len() as u64 > CONFIG_LIMIT {
        return Err(bad_checkpoint(format!("a configuration of more than {CONFIG_LIMIT} bytes")));
    }
    AdapterConfig::parse(&text)
}

/// The layers whose factors the file has, checked against the configuration.
fn read_layers(config: &AdapterConfig, weights: &Weights) -> Result<BTreeMap<String, Lora>> {
    let mut names: BTreeMap<String, &Stored> = BTreeMap::new();
    for t in weights.tensors() {
        if is_unbuilt_part(&t.name) {
            return Err(Error::new(Kind::Name, format!("tensor {:?}: such a part is not built here", t.name)));
        }
        let Some(name) = peft_name(&t.name) else { continue };
        if let Some(first) = names.insert(name.clone(), t) {
            let text = format!("{:?} and {:?} are both for {name:?}", first.name, t.name);
            return Err(Error::new(Kind::Name, text));
        }
    }
    let mut layers = BTreeMap::new();
    for (name, t) in &names {
        let Some((layer, axis)) =
            PARTS.iter().zip([0, 1]).find_map(|(end, axis)| Some((name.strip_suffix(end)?, axis)))
        else {
            continue;
        };
        if let Some(end) = PARTS[..2].iter().find(|end| !names.contains_key(&format!("{layer}{end}"))) {
            return Err(Error::new(Kind::Name, format!("layer {layer:?} has no tensor {:?}", &end[1..])));
        }
        let lora = config.layer(layer)?;
        if t.dims.len() != 2 || t.dims[axis] != lora.rank {
            let text = format!("{:?} is {}{:?}; the configuration says rank {}", t.name, t.dtype, t.dims, lora.rank);
            return Err(Error::new(Kind::Shape, text));
        }
        layers.insert(layer.to_string(), lora);
    }
    let holds = |module: &str| {
        let (start, inside) = (format!("{module}."), format!(".{module}."));
        names.keys().any(|name| name.starts_with(&start) || name.contains(&inside))
    };
    match config.modules_to_save.iter().find(|module| !holds(module)) {
        Some(module) => Err(Error::new(Kind::Name, format!("no tensor is of {module:?}, one of modules_to_save"))),
        None => Ok(layers),
    }
}
