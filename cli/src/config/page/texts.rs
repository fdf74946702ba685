//! What `docs/config.md` says beside the keys.

/// The text before the tables.
pub const HEAD: &str = "\
# Configurations

`arenagrad train FILE.toml` reads a training run from a TOML file. Options of the command line override it. All keys
may be left out, unless the table says that they are required. Tests hold this page to the parser: keys, types, defaults.

An error names file, line and key, and says what is expected:

```text
run.toml:4: optimiser.rho means nothing to rmsprop; it reads alpha, eps, momentum, centered, weight_decay
run.toml:7:6: optimiser.lr: invalid type: string \"x\", expected a number
```
";

/// The text before each table.
pub const SECTIONS: [&str; 6] = [
    "\n## The run\n\nThese keys stand before all tables.\n",
    "\n## `[model]`\n\nThe convnet of task images. `train digits` is this network with `optimiser.weight_decay = 0.05`.\n",
    "\n## `[gpt]`\n\nThe character model of task chargpt.\n",
    "\n## `[optimiser]`\n\nA kind reads the keys that the second table lists, and the keys that have a default here. Other keys are errors.\n",
    "\n## `[[optimiser.group]]`\n\nOne table for each group of params.\n",
    "\n## `[schedule]`\n\nThe length of the schedule is `steps`. A kind reads the keys that the second table lists; other keys are errors.\n\n\
        `chained` is the product of its parts: the first has the rate, the others are factors. `sequential` runs one part\n\
        after another. Each part counts its steps from its own start, and its length is the distance of its milestones.\n",
];

/// The text after the tables.
pub const TAIL: &str = "
## Example

```toml
steps = 3000
max_memory = \"64MiB\"

[optimiser]
kind = \"radam\"
lr = 0.002
clip_norm = 1.0

[[optimiser.group]]
pattern = \"*.bias\"
lr_scale = 2.0

[schedule]
kind = \"sequential\"
milestones = [100]

[[schedule.part]]
kind = \"linear\"
start_factor = 0.01

[[schedule.part]]
kind = \"cosine-restarts\"
t_0 = 500
t_mult = 2
```
";
