//! `adapter_config.json` of PEFT: rank and scale of each adapted layer.
//!
//! Invariant: what would change the layers' numbers and is not built here is refused by its key, never left out.

use super::header::bad_checkpoint_header;
use crate::error::Result;
use crate::names::list_names;
use crate::nn::Lora;
use serde_json::{Map, Value};

/// Largest file, in bytes.
pub(super) const CONFIG_LIMIT: u64 = 1 << 20;

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
    /// out of range; a pattern is no layer's name and no regular expression that is supported.
    pub fn parse(text: &[u8]) -> Result<AdapterConfig> {
        let json: Value = serde_json::from_slice(text).map_err(|e| bad_checkpoint_header(e.to_string()))?;
        let map = json.as_object().ok_or_else(|| bad_checkpoint_header("an adapter's configuration is an object"))?;
        let kind = map.get("peft_type").and_then(Value::as_str).unwrap_or("missing");
        if !kind.eq_ignore_ascii_case("lora") {
            return Err(bad_checkpoint_header(format!("peft_type is {kind}; only LORA is read")));
        }
        let set = |key: &&str| match map.get(*key) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::Array(list)) => !list.is_empty(),
            Some(Value::Object(object)) => !object.is_empty(),
            Some(_) => true,
        };
        if let Some(key) = NOT_BUILT.iter().find(|key| set(key)) {
            return Err(bad_checkpoint_header(format!("{key} is set; such adapters are not built here")));
        }
        let init = map.get("init_lora_weights").and_then(Value::as_str).unwrap_or_default();
        if CHANGES_BASE.iter().any(|name| init.starts_with(name)) {
            let text =
                format!("init_lora_weights is {init:?}: it changes the weights of the base; convert the adapter");
            return Err(bad_checkpoint_header(text));
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
            ranks: adapter_patterns(map, "rank_pattern")?,
            alphas: adapter_patterns(map, "alpha_pattern")?,
            rslora,
            dropout: map.get("lora_dropout").and_then(Value::as_f64).unwrap_or(0.0),
            modules_to_save: modules.ok_or_else(|| bad_checkpoint_header("modules_to_save is a list of names"))?,
        })
    }

    /// Rank and alpha of the layer of this name.
    pub fn layer(&self, name: &str) -> Result<Lora> {
        let rank = match pattern_value(&self.ranks, "rank_pattern", name)? {
            Some(rank) => adapter_rank("rank_pattern", rank)?,
            None => self.rank,
        };
        let alpha = pattern_value(&self.alphas, "alpha_pattern", name)?.unwrap_or(self.alpha);
        Ok(Lora { dropout: self.dropout, rslora: self.rslora, ..Lora::new(rank, alpha) })
    }
}

fn adapter_flag(map: &Map<String, Value>, key: &str) -> Result<bool> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(bad_checkpoint_header(format!("{key} is {other}; it is true or false"))),
    }
}

fn adapter_number(key: &str, value: Option<&Value>) -> Result<f64> {
    let number = value.and_then(Value::as_f64).filter(|x| x.is_finite());
    number.ok_or_else(|| bad_checkpoint_header(format!("{key} has no finite number")))
}

fn adapter_rank(key: &str, rank: f64) -> Result<usize> {
    match rank >= 1.0 && rank.fract() == 0.0 && rank <= f64::from(u32::MAX) {
        true => Ok(rank as usize),
        false => Err(bad_checkpoint_header(format!("{key} has rank {rank}; a rank is a whole number from 1"))),
    }
}

/// The numbers under `key`, each with the pattern of its layers.
fn adapter_patterns(map: &Map<String, Value>, key: &str) -> Result<Vec<(LayerPattern, f64)>> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(object)) => {
            let one = |(pattern, value): (&String, &Value)| {
                let number = adapter_number(key, Some(value))?;
                Ok((LayerPattern::parse(pattern).map_err(|e| e.context(key))?, number))
            };
            object.iter().map(one).collect()
        }
        Some(_) => Err(bad_checkpoint_header(format!("{key} is no object"))),
    }
}

/// The number of the patterns that match `name`. PEFT takes the first of the file; patterns that disagree are refused.
fn pattern_value(patterns: &[(LayerPattern, f64)], key: &str, name: &str) -> Result<Option<f64>> {
    let matching: Vec<&(LayerPattern, f64)> = patterns.iter().filter(|p| p.0.matches(name)).collect();
    if matching.iter().any(|p| p.1 != matching[0].1) {
        let all = list_names(matching.iter().map(|p| p.0.text.as_str()));
        return Err(bad_checkpoint_header(format!("{key}: {all} match {name:?} and have different numbers")));
    }
    Ok(matching.first().map(|p| p.1))
}

/// What one character of a name may be.
#[derive(Clone, Copy)]
enum Atom {
    Char(char),
    Any,
    Digit,
}

/// A regular expression of PEFT for the ends of layers' names: characters, `.`, `\d`, `*`, `+`, `?`, `|` and a `^` at
/// the start. It matches from the start of a name or behind one of its dots, to its end.
struct LayerPattern {
    text: String,
    /// Of each alternative: whether it begins at the start of the name, and its atoms, each with whether it may be
    /// absent and whether it may come again.
    alternatives: Vec<(bool, Vec<(Atom, bool, bool)>)>,
}

impl LayerPattern {
    fn parse(text: &str) -> Result<LayerPattern> {
        let alternatives = text.split('|').map(|part| {
            let (anchored, part) = part.strip_prefix('^').map_or((false, part), |rest| (true, rest));
            let mut atoms: Vec<(Atom, bool, bool)> = Vec::new();
            let mut chars = part.strip_suffix('$').unwrap_or(part).chars();
            while let Some(c) = chars.next() {
                let atom = match c {
                    '.' => Some(Atom::Any),
                    '\\' => match chars.next() {
                        Some('d') => Some(Atom::Digit),
                        Some(c) if !c.is_alphanumeric() => Some(Atom::Char(c)),
                        _ => None,
                    },
                    '*' | '+' | '?' => {
                        let last = atoms.last_mut().filter(|last| !last.1 && !last.2);
                        let last = last.ok_or_else(|| unsupported_pattern(text))?;
                        (last.1, last.2) = (c != '+', c != '?');
                        continue;
                    }
                    '(' | ')' | '[' | ']' | '{' | '}' | '^' | '$' => None,
                    c => Some(Atom::Char(c)),
                };
                atoms.push((atom.ok_or_else(|| unsupported_pattern(text))?, false, false));
            }
            Ok((anchored, atoms))
        });
        Ok(LayerPattern { text: text.to_string(), alternatives: alternatives.collect::<Result<_>>()? })
    }

    fn matches(&self, name: &str) -> bool {
        self.alternatives.iter().any(|(anchored, atoms)| {
            let mut at = vec![false; atoms.len() + 1];
            let mut next = at.clone();
            let mut before = None;
            for c in name.chars().map(Some).chain([None]) {
                at[0] |= before.is_none() || (!anchored && before == Some('.'));
                for (i, atom) in atoms.iter().enumerate() {
                    at[i + 1] |= at[i] && atom.1;
                }
                let Some(c) = c else { break };
                next.fill(false);
                for (i, &(atom, _, again)) in atoms.iter().enumerate().filter(|(i, _)| at[*i]) {
                    let fits = match atom {
                        Atom::Char(own) => own == c,
                        Atom::Any => true,
                        Atom::Digit => c.is_ascii_digit(),
                    };
                    next[i] |= fits && again;
                    next[i + 1] |= fits;
                }
                std::mem::swap(&mut at, &mut next);
                before = Some(c);
            }
            at[atoms.len()]
        })
    }
}

fn unsupported_pattern(text: &str) -> crate::error::Error {
    bad_checkpoint_header(format!("the pattern {text:?} has more than characters, `.`, `\\d`, `*`, `+`, `?`, `|`, `^`"))
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
        ] {
            assert_eq!(LayerPattern::parse(pattern).unwrap().matches(name), fits, "{pattern} {name}");
        }
        for pattern in ["(a)", "[ab]", "a{2}", "*a", "a**", r"\w", "a^", "a\\"] {
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
        let twice = r#"{"peft_type":"LORA","r":2,"lora_alpha":4,"alpha_pattern":{"fc2":8,"^net.fc2":7}}"#;
        let e = AdapterConfig::parse(twice.as_bytes()).unwrap().layer("net.fc2").unwrap_err().message;
        assert_eq!(e, "alpha_pattern: ^net.fc2, fc2 match \"net.fc2\" and have different numbers");
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
            (r#","alpha_pattern":{"(a)":1}"#, "alpha_pattern: the pattern \"(a)\""),
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
