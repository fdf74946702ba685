//! The tasks and the tables of their networks.
//!
//! Invariant of [`Task`]: every number is within its bounds.

use super::bounds::{SIZE_LIMIT, within_bounds};
use super::fault::{KeyRun, key_fault};
use arenagrad_tables::{key_types, table};
use serde::{Deserialize, Serialize};

/// The task's name in a file.
#[derive(Deserialize, Serialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum TaskKind {
    /// A convnet on labelled images.
    #[default]
    Images,
    /// A character model on a text.
    CharGpt,
}

key_types! { TaskKind = "name", }

impl TaskKind {
    /// The name in a file.
    pub fn name(self) -> &'static str {
        match self {
            TaskKind::Images => "images",
            TaskKind::CharGpt => "chargpt",
        }
    }
}

/// A task, with its network.
#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    /// A convnet on labelled images.
    Images(Model),
    /// A character model on a text.
    CharGpt(Network),
}

table! {
    /// The convnet: convolutions, one pooling, two linear layers. The table `[model]`.
    #[derive(Deserialize, Serialize, Debug, Clone, PartialEq)]
    #[serde(deny_unknown_fields, default, expecting = "the table [model]")]
    pub struct Model {
        /// channels after each 3×3 convolution; from 1 to 8 convolutions
        pub channels: Vec<usize> = Value("[16, 32]"), "[4]" in "channels";
        /// width of the hidden linear layer
        pub hidden: usize = Value("64"), "9" in "features";
        /// how often training drops an activation of the hidden layer, from 0 to 0.99
        pub dropout: f64 = Value("0.5"), "0.25" in "probability";
    }
}

impl Default for Model {
    fn default() -> Model {
        Model { channels: vec![16, 32], hidden: 64, dropout: 0.5 }
    }
}

table! {
    /// The character model. The table `[gpt]`; its defaults are nanoGPT's configuration for CPUs.
    #[derive(Deserialize, Serialize, Debug, Clone, PartialEq)]
    #[serde(deny_unknown_fields, default, expecting = "the table [gpt]")]
    pub struct Network {
        /// number of blocks, from 1 to 256
        pub layers: usize = Value("4"), "2" in "blocks";
        /// heads of each block; it must divide `width`
        pub heads: usize = Value("4"), "2" in "heads";
        /// width of the residual stream
        pub width: usize = Value("128"), "64" in "features";
        /// length of a window
        pub context: usize = Value("64"), "16" in "characters";
        /// whether linear layers and norms have biases
        pub bias: bool = Value("false"), "true";
        /// how often training drops an activation, from 0 to 0.99
        pub dropout: f64 = Value("0.0"), "0.1" in "probability";
    }
}

impl Default for Network {
    fn default() -> Network {
        Network { layers: 4, heads: 4, width: 128, context: 64, bias: false, dropout: 0.0 }
    }
}

impl Task {
    /// The task of this kind, checked. Fails if the other kind's table is given.
    pub fn new(kind: TaskKind, model: Option<&Model>, gpt: Option<&Network>) -> KeyRun<Task> {
        match (kind, model, gpt) {
            (TaskKind::Images, model, None) => Task::checked_images(model.cloned().unwrap_or_default()),
            (TaskKind::CharGpt, None, gpt) => Task::checked_chargpt(gpt.cloned().unwrap_or_default()),
            (TaskKind::Images, ..) => Err(key_fault("gpt", "[gpt] means nothing to task images")),
            (TaskKind::CharGpt, ..) => Err(key_fault("model", "[model] means nothing to task chargpt")),
        }
    }

    fn checked_images(m: Model) -> KeyRun<Task> {
        let n = m.channels.len();
        if !(1..=8).contains(&n) {
            return Err(key_fault("model.channels", format!("model.channels has {n} numbers; it has from 1 to 8")));
        }
        for &c in &m.channels {
            within_bounds("model.channels", c, 1, SIZE_LIMIT)?;
        }
        within_bounds("model.hidden", m.hidden, 1, SIZE_LIMIT)?;
        within_bounds("model.dropout", m.dropout, 0.0, 0.99)?;
        Ok(Task::Images(m))
    }

    fn checked_chargpt(n: Network) -> KeyRun<Task> {
        within_bounds("gpt.layers", n.layers, 1, 256)?;
        within_bounds("gpt.width", n.width, 1, SIZE_LIMIT)?;
        within_bounds("gpt.heads", n.heads, 1, n.width)?;
        within_bounds("gpt.context", n.context, 1, SIZE_LIMIT)?;
        within_bounds("gpt.dropout", n.dropout, 0.0, 0.99)?;
        if !n.width.is_multiple_of(n.heads) {
            let text = format!("gpt.heads is {}; it must divide gpt.width, {}", n.heads, n.width);
            return Err(key_fault("gpt.heads", text));
        }
        Ok(Task::CharGpt(n))
    }
}
