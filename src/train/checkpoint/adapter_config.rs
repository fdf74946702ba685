//! `adapter_config.json` of PEFT: rank and scale of each adapted layer.
//!
//! Invariant: what would change the layers' numbers and is not built here is refused by its key, never left out.

use super::header::bad_checkpoint;
use crate::error::Result;
use crate::nn::Lora;
use regex_lite::{Regex, RegexBuilder};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Largest file, in bytes.
pub(super) const CONFIG_LIMIT: u64 = 1 << 20;
/// Largest number of patterns under one key.
const PATTERNS: usize = 4096;
/// Largest size of a compiled pattern: this many bytes, and more for each byte of its text.
const PATTERN_BYTES: usize = 4096;
const PATTERN_BYTES_PER_BYTE: usize = 128;

/// Start values that change the weights of the base, too.
const CHANGES_BASE: [&str; 4] = ["pissa", "olora", "corda", "loftq"];
/// Keys of other ways to adapt.
const NOT_BUILT: [&str; 7] = [
    "use_dora",
    "lora_bias",
    "use_qalora",
    "layer_replication",
    "target_parameters",
    "trainable_token_indices",
    "alora_invocation_tokens",
];

/// What the file says, checked.
pub(super) struct AdapterConfig {
    rank: usize,
    alpha: f64,
    ranks: Vec<(LayerPattern, f64)>,
    alphas: Vec<(LayerPattern, f64)>,
    rslora: bool,
    dropout: f64,
    /// Modules whose params were trained as they are.
    pub modules_to_save: Vec<String>,
}

impl AdapterConfig {
    /// Errors: the text is no JSON object; its type is not LoRA; it asks for what is not built; a number is missing or
    /// out of range; a pattern is no regular expression that `regex-lite` reads, or a very large one.
    pub fn parse(text: &[u8]) -> Result<AdapterConfig> {
        let json: Value = serde_json::from_slice(text).map_err(|e| bad_checkpoint(e.to_string()))?;
        let map = json.as_object().ok_or_else(|| bad_checkpoint("an adapter's configuration is an object"))?;
        let kind = map.get("peft_type").and_then(Value::as_str).unwrap_or("missing");
        if !kind.eq_ignore_ascii_case("lora") {
            return Err(bad_checkpoint(format!("peft_type is {kind}; only LORA is read")));
        }
        let set = |key: &&str| match map.get(*key) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::Array(list)) => !list.is_empty(),
            Some(Value::Object(object)) => !object.is_empty(),
            Some(_) => true,
        };
        if let Some(key) = NOT_BUILT.iter().find(|key| set(key)) {
            return Err(bad_checkpoint(format!("{key} is set; such adapters are not built here")));
        }
        let init = map.get("init_lora_weights").and_then(Value::as_str).unwrap_or_default();
        if CHANGES_BASE.iter().any(|name| init.starts_with(name)) {
            let text =
                format!("init_lora_weights is {init:?}: it changes the weights of the base; convert the adapter");
            return Err(bad_checkpoint(text));
        }
        let rslora = adapter_flag(map, "use_rslora")?;
        let modules = match map.get("modules_to_save") {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::Array(list)) => list.iter().map(|m| m.as_str().map(str::to_string)).collect(),
            Some(_) => None,
        };
        Ok(AdapterConfig {
            rank: adapter_number("r", map.get("r")).and_then(|r| adapter_rank("r", r))?,
            alpha: adapter_number("lora_alpha", map.get("lora_alpha"))?,
            ranks: adapter_patterns(text, "rank_pattern")?,
            alphas: adapter_patterns(text, "alpha_pattern")?,
            rslora,
            dropout: map.get("lora_dropout").and_then(Value::as_f64).unwrap_or(0.0),
            modules_to_save: modules.ok_or_else(|| bad_checkpoint("modules_to_save is a list of names"))?,
        })
    }

    /// Rank and alpha of the layer of this name.
    pub fn layer(&self, name: &str) -> Result<Lora> {
        let rank = match pattern_value(&self.ranks, name) {
            Some(rank) => adapter_rank("rank_pattern", rank)?,
            None => self.rank,
        };
        let alpha = pattern_value(&self.alphas, name).unwrap_or(self.alpha);
        Ok(Lora { dropout: self.dropout, rslora: self.rslora, ..Lora::new(rank, alpha) })
    }
}

fn adapter_flag(map: &Map<String, Value>, key: &str) -> Result<bool> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(bad_checkpoint(format!("{key} is {other}; it is true or false"))),
    }
}

fn adapter_number(key: &str, value: Option<&Value>) -> Result<f64> {
    let number = value.and_then(Value::as_f64).filter(|x| x.is_finite());
    number.ok_or_else(|| bad_checkpoint(format!("{key} has no finite number")))
}

fn adapter_rank(key: &str, rank: f64) -> Result<usize> {
    match rank >= 1.0 && rank.fract() == 0.0 && rank <= f64::from(u32::MAX) {
        true => Ok(rank as usize),
        false => Err(bad_checkpoint(format!("{key} has rank {rank}; a rank is a whole number from 1"))),
    }
}

/// The numbers under `key`, each with the pattern of its layers, in the file's order.
fn adapter_patterns(text: &[u8], key: &str) -> Result<Vec<(LayerPattern, f64)>> {
    let parsed = |e: serde_json::Error| bad_checkpoint(format!("{key}: {e}"));
    let file: BTreeMap<String, &RawValue> = serde_json::from_slice(text).map_err(parsed)?;
    let Some(own) = file.get(key).filter(|own| own.get() != "null") else { return Ok(Vec::new()) };
    if !own.get().starts_with('{') {
        return Err(bad_checkpoint(format!("{key} is no object")));
    }
    let object: BTreeMap<String, &RawValue> = serde_json::from_str(own.get()).map_err(parsed)?;
    if object.len() > PATTERNS {
        return Err(bad_checkpoint(format!("{key} has {} patterns; {PATTERNS} are read", object.len())));
    }
    let mut entries: Vec<(String, &RawValue)> = object.into_iter().collect();
    // The map is sorted. Each value is a part of the text, so that addresses have the file's order.
    entries.sort_by_key(|(_, value)| value.get().as_ptr());
    let one = |(pattern, value): (String, &RawValue)| {
        let value: Value = serde_json::from_str(value.get()).map_err(parsed)?;
        let number = adapter_number(key, Some(&value))?;
        Ok((LayerPattern::parse(&pattern).map_err(|e| e.context(key))?, number))
    };
    entries.into_iter().map(one).collect()
}

/// The number of the first pattern that matches `name`.
fn pattern_value(patterns: &[(LayerPattern, f64)], name: &str) -> Option<f64> {
    patterns.iter().find(|p| p.0.matches(name)).map(|p| p.1)
}

/// The names of layers that PEFT finds by a pattern: those for which Python's `re.match(rf"(.*\.)?({pattern})$", name)`
/// finds something.
struct LayerPattern(Regex);

impl LayerPattern {
    fn parse(text: &str) -> Result<LayerPattern> {
        // A count such as `{1000}` makes much of a short text: the compiled pattern is limited by the text's length.
        let regex = RegexBuilder::new(&format!(r"^(?:(.*\.)?({text})$)"))
            .size_limit(PATTERN_BYTES.saturating_add(text.len().saturating_mul(PATTERN_BYTES_PER_BYTE)))
            .build()
            .map_err(|e| bad_checkpoint(format!("the pattern {text:?} is no regular expression here: {e}")))?;
        Ok(LayerPattern(regex))
    }

    fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_those_of_peft() {
        for (pattern, name, fits) in [
            ("q_proj", "model.layers.0.q_proj", true),
            ("q_proj", "q_proj", true),
            ("q_proj", "model.layers.0.my_q_proj", false),
            ("q_proj", "q_proj.inner", false),
            ("^q_proj", "a.q_proj", false),
            ("^q_proj", "q_proj", true),
            ("layers.1.q", "layers.1.q", true),
            ("layers.1.q", "layers.11.q", false),
            (r"layers\.\d+\.q", "model.layers.17.q", true),
            (r"layers\.\d+\.q", "model.layers.x.q", false),
            ("layers.*q", "layers.3.k.q", true),
            ("fc1|fc2$", "net.fc2", true),
            ("fc1|fc2", "net.fc3", false),
            ("fc?1+", "f11", true),
            ("fc?1+", "fc", false),
            ("(q|k)_proj", "a.k_proj", true),
            ("[qk]_proj", "a.v_proj", false),
            (r"layers\.([0-9]|1[0-5])\.q", "model.layers.15.q", true),
            (r"layers\.([0-9]|1[0-5])\.q", "model.layers.16.q", false),
            (r"layers\.\d{2}\.\w+", "model.layers.16.q_proj", true),
            (".*", "a.b", true),
        ] {
            assert_eq!(LayerPattern::parse(pattern).unwrap().matches(name), fits, "{pattern} {name}");
        }
        for pattern in ["(a", "[ab", "*a", "a\\", "(?=a)b", r"(a)\1", "a{9}{99}{99}"] {
            assert!(LayerPattern::parse(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn ranks_and_alphas_are_those_of_their_layer() {
        let text = r#"{"peft_type":"LORA","r":2,"lora_alpha":4,"lora_dropout":0.1,"use_rslora":true,
            "rank_pattern":{"fc2":1},"alpha_pattern":{"fc2":8.0,"head.*":8},"modules_to_save":["head"]}"#;
        let c = AdapterConfig::parse(text.as_bytes()).unwrap();
        let lora = |rank, alpha| Lora::new(rank, alpha).dropout(0.1).rslora(true);
        assert_eq!(c.layer("net.fc1").unwrap(), lora(2, 4.0));
        assert_eq!(c.layer("net.fc2").unwrap(), lora(1, 8.0));
        assert_eq!(c.modules_to_save, ["head"]);
        let twice = r#"{"peft_type":"LORA","r":2,"lora_alpha":4,"alpha_pattern":{"fc2":8,"^net.fc2":7,"fc.":6}}"#;
        let c = AdapterConfig::parse(twice.as_bytes()).unwrap();
        assert_eq!(c.layer("net.fc2").unwrap().alpha, 8.0, "the first of the file");
        assert_eq!(c.layer("net.fc1").unwrap().alpha, 6.0);
    }

    #[test]
    fn what_is_not_built_is_refused_by_its_key() {
        let refused = |more: &str| {
            let text = format!(r#"{{"peft_type":"LORA","r":2,"lora_alpha":4{more}}}"#);
            AdapterConfig::parse(text.as_bytes()).map(|_| ()).map_err(|e| e.message)
        };
        assert_eq!(refused(r#","use_dora":false,"target_parameters":[],"loftq_config":{},"revision":null"#), Ok(()));
        for (more, told) in [
            (r#","use_dora":true"#, "use_dora is set"),
            (r#","lora_bias":true"#, "lora_bias is set"),
            (r#","layer_replication":[[0,4]]"#, "layer_replication is set"),
            (r#","trainable_token_indices":{"embed":[1]}"#, "trainable_token_indices is set"),
            (r#","init_lora_weights":"pissa_niter_4""#, "init_lora_weights is \"pissa_niter_4\""),
            (r#","use_rslora":1"#, "use_rslora is 1"),
            (r#","modules_to_save":"head""#, "modules_to_save is a list"),
            (r#","rank_pattern":[1]"#, "rank_pattern is no object"),
            (r#","alpha_pattern":{"a":"x"}"#, "alpha_pattern has no finite number"),
            (r#","alpha_pattern":{"(a":1}"#, "alpha_pattern: the pattern \"(a\""),
        ] {
            assert!(refused(more).unwrap_err().contains(told), "{more}");
        }
        for (text, told) in [
            ("[]", "is an object"),
            ("{", "EOF"),
            ("{}", "peft_type is missing"),
            (r#"{"peft_type":"IA3"}"#, "peft_type is IA3"),
            (r#"{"peft_type":"LORA"}"#, "r has no finite number"),
            (r#"{"peft_type":"LORA","r":2.5,"lora_alpha":1}"#, "r has rank 2.5"),
            (r#"{"peft_type":"LORA","r":0,"lora_alpha":1}"#, "r has rank 0"),
            (r#"{"peft_type":"LORA","r":1}"#, "lora_alpha has no finite number"),
        ] {
            let e = AdapterConfig::parse(text.as_bytes()).map(|_| ()).unwrap_err().to_string();
            assert!(e.contains(told), "{text}: {e}");
        }
    }
}
