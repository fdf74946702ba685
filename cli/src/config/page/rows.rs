//! The rows of `docs/config.md`: all keys with type, unit, default and meaning.

/// The default of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowDefault {
    /// A value, as TOML has it.
    Value(&'static str),
    /// Values that depend on the task.
    ByTask {
        /// For task images.
        images: &'static str,
        /// For task chargpt.
        chargpt: &'static str,
    },
    /// What stands in for the key.
    Text(&'static str),
    /// None: the key must be given.
    Required,
    /// The kind of optimiser or schedule has it.
    ByKind,
}

/// A key.
#[derive(Debug)]
pub struct KeyRow {
    /// The table; empty for the keys of the run.
    pub table: &'static str,
    /// The key.
    pub key: &'static str,
    /// Its type.
    pub ty: &'static str,
    /// Its unit; empty if it has none.
    pub unit: &'static str,
    /// Its default.
    pub default: RowDefault,
    /// A value that is not the default.
    pub example: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

const fn page_row(
    table: &'static str,
    [key, ty, unit]: [&'static str; 3],
    default: RowDefault,
    example: &'static str,
    meaning: &'static str,
) -> KeyRow {
    KeyRow { table, key, ty, unit, default, example, meaning }
}

const fn page_row_value(text: &'static str) -> RowDefault {
    RowDefault::Value(text)
}

const fn page_row_by(text: &'static str) -> RowDefault {
    RowDefault::Text(text)
}

const fn page_row_by_task(images: &'static str, chargpt: &'static str) -> RowDefault {
    RowDefault::ByTask { images, chargpt }
}

const BY_KIND: RowDefault = RowDefault::ByKind;
const REQUIRED: RowDefault = RowDefault::Required;
const RUN: &str = "";
const MODEL: &str = "model";
const GPT: &str = "gpt";
const OPT: &str = "optimiser";
const GROUP: &str = "optimiser.group";
const PLAN: &str = "schedule";
const WHOLE: &str = "whole number";
const NUMBER: &str = "number";
const BOOL: &str = "true or false";
const NAME: &str = "name";

/// All keys, in the order of the page.
pub const KEYS: &[KeyRow] = &[
    page_row(
        RUN,
        ["task", NAME, ""],
        page_row_value("\"images\""),
        "\"chargpt\"",
        "`images`: a convnet on labelled images; `chargpt`: a character model on a text",
    ),
    page_row(
        RUN,
        ["data", "path", ""],
        page_row_by_task("\"digits\"", "\"alice\""),
        "\"folder\"",
        "a folder of IDX files under MNIST's names, or a text file; the default is built in. A path is relative to the file",
    ),
    page_row(RUN, ["steps", WHOLE, "steps"], page_row_by_task("1000", "2000"), "7", "length of the whole run, from 1"),
    page_row(
        RUN,
        ["batch", WHOLE, "examples"],
        page_row_by_task("64", "12"),
        "5",
        "images or windows of a micro-batch, from 1",
    ),
    page_row(RUN, ["seed", WHOLE, ""], page_row_value("0"), "3", "seed of start values, batches and dropout"),
    page_row(
        RUN,
        ["threads", WHOLE, "threads"],
        page_row_by("one for each core"),
        "900",
        "threads of a step, from 1 to 1024; weights do not depend on it",
    ),
    page_row(
        RUN,
        ["out", "path", ""],
        page_row_by_task("\"runs/train\"", "\"runs/chargpt\""),
        "\"elsewhere\"",
        "the folder that the run writes to, relative to the file",
    ),
    page_row(
        RUN,
        ["checkpoint_every", WHOLE, "steps"],
        page_row_value("200"),
        "50",
        "steps from checkpoint to checkpoint; 0: only at the end and on Ctrl-C",
    ),
    page_row(
        RUN,
        ["max_memory", "size", "bytes"],
        page_row_by("no limit"),
        "\"64MiB\"",
        "largest size of the step's arena: a number of bytes, or a text such as `\"64MiB\"`. Values are recomputed to fit",
    ),
    page_row(
        RUN,
        ["precision", NAME, ""],
        page_row_value("\"f32\""),
        "\"bf16\"",
        "precision of matrix products: `f32`, `bf16x3`, `bf16x2` or `bf16`",
    ),
    page_row(
        RUN,
        ["keep", NAME, ""],
        page_row_value("\"f32\""),
        "\"bf16\"",
        "type in which values of the forward half are kept for the backward half: `f32`, `bf16` or `f16`",
    ),
    page_row(
        RUN,
        ["model", "table", ""],
        page_row_by("the defaults of its keys"),
        "{ hidden = 8 }",
        "the network of task images",
    ),
    page_row(
        RUN,
        ["gpt", "table", ""],
        page_row_by("the defaults of its keys"),
        "{ layers = 2 }",
        "the network of task chargpt",
    ),
    page_row(
        RUN,
        ["optimiser", "table", ""],
        page_row_by(
            "the defaults of its keys; task chargpt: AdamW with `betas = [0.9, 0.99]`, `weight_decay = 0.1`, `clip_norm = 1.0`, `decay_from_rank = 2`",
        ),
        "{ kind = \"sgd\" }",
        "the optimiser",
    ),
    page_row(
        RUN,
        ["schedule", "table", ""],
        page_row_by(
            "one-cycle; task chargpt: cosine with a warm-up of 100 steps (a twentieth of a shorter run than 2000), down to a tenth of the rate",
        ),
        "{ kind = \"constant\" }",
        "the learning rate of each step",
    ),
    page_row(
        MODEL,
        ["channels", "list of whole numbers", "channels"],
        page_row_value("[16, 32]"),
        "[4]",
        "channels after each 3×3 convolution; from 1 to 8 convolutions",
    ),
    page_row(MODEL, ["hidden", WHOLE, "features"], page_row_value("64"), "9", "width of the hidden linear layer"),
    page_row(
        MODEL,
        ["dropout", NUMBER, "probability"],
        page_row_value("0.5"),
        "0.25",
        "how often training drops an activation of the hidden layer, from 0 to 0.99",
    ),
    page_row(GPT, ["layers", WHOLE, "blocks"], page_row_value("4"), "2", "number of blocks, from 1 to 256"),
    page_row(GPT, ["heads", WHOLE, "heads"], page_row_value("4"), "2", "heads of each block; it must divide `width`"),
    page_row(GPT, ["width", WHOLE, "features"], page_row_value("128"), "64", "width of the residual stream"),
    page_row(GPT, ["context", WHOLE, "characters"], page_row_value("64"), "16", "length of a window"),
    page_row(GPT, ["bias", BOOL, ""], page_row_value("false"), "true", "whether linear layers and norms have biases"),
    page_row(
        GPT,
        ["dropout", NUMBER, "probability"],
        page_row_value("0.0"),
        "0.1",
        "how often training drops an activation, from 0 to 0.99",
    ),
    page_row(OPT, ["kind", NAME, ""], page_row_value("\"adamw\""), "\"sgd\"", "the update rule, with torch's formula"),
    page_row(
        OPT,
        ["lr", NUMBER, ""],
        page_row_by_task("0.004", "0.001"),
        "0.5",
        "learning rate; the peak, if the schedule varies it",
    ),
    page_row(OPT, ["weight_decay", NUMBER, ""], BY_KIND, "0.25", "weight decay, from 0"),
    page_row(OPT, ["momentum", NUMBER, ""], BY_KIND, "0.7", "momentum"),
    page_row(OPT, ["dampening", NUMBER, ""], BY_KIND, "0.1", "the share of the gradient that the momentum leaves out"),
    page_row(
        OPT,
        ["nesterov", BOOL, ""],
        BY_KIND,
        "false",
        "Nesterov momentum; sgd: it needs a momentum and no dampening",
    ),
    page_row(
        OPT,
        ["betas", "list of 2 numbers", ""],
        BY_KIND,
        "[0.5, 0.6]",
        "decays of the two moments, each in [0, 1)",
    ),
    page_row(OPT, ["eps", NUMBER, ""], BY_KIND, "0.5", "term added to the denominator, from 0"),
    page_row(OPT, ["amsgrad", BOOL, ""], BY_KIND, "true", "divide by the root of the largest second moment so far"),
    page_row(
        OPT,
        ["decoupled_weight_decay", BOOL, ""],
        BY_KIND,
        "true",
        "the weight decay shrinks the param and does not join the gradient",
    ),
    page_row(
        OPT,
        ["history_size", WHOLE, "steps"],
        BY_KIND,
        "7",
        "past steps that shape the update, from 1 to 10000; each takes twice the memory of the params",
    ),
    page_row(OPT, ["alpha", NUMBER, ""], BY_KIND, "0.5", "decay of the mean of squares, in [0, 1)"),
    page_row(OPT, ["centered", BOOL, ""], BY_KIND, "true", "divide by an estimate of the deviation"),
    page_row(OPT, ["lr_decay", NUMBER, ""], BY_KIND, "0.5", "decay of the rate: lr / (1 + (t − 1)·lr_decay), from 0"),
    page_row(
        OPT,
        ["initial_accumulator_value", NUMBER, ""],
        BY_KIND,
        "0.5",
        "the sum of squares before the first step, from 0",
    ),
    page_row(OPT, ["rho", NUMBER, ""], BY_KIND, "0.5", "decay of both means of squares, in [0, 1)"),
    page_row(OPT, ["momentum_decay", NUMBER, ""], BY_KIND, "0.5", "decay of the momentum's schedule, from 0"),
    page_row(OPT, ["beta2_decay", NUMBER, ""], BY_KIND, "-0.5", "exponent of the decay of second moments, not above 0"),
    page_row(OPT, ["eps1", NUMBER, ""], BY_KIND, "0.5", "least mean of squares, from 0"),
    page_row(OPT, ["eps2", NUMBER, ""], BY_KIND, "0.5", "least root mean square of a param, from 0"),
    page_row(OPT, ["d", NUMBER, ""], BY_KIND, "2.0", "largest root mean square of an update, from 1"),
    page_row(OPT, ["ns_steps", WHOLE, "rounds"], BY_KIND, "3", "rounds of the Newton–Schulz iteration, up to 99"),
    page_row(
        OPT,
        ["ns_coefficients", "list of 3 numbers", ""],
        BY_KIND,
        "[1.0, 2.0, 3.0]",
        "coefficients of the Newton–Schulz iteration",
    ),
    page_row(
        OPT,
        ["adjust_lr", NAME, ""],
        BY_KIND,
        "\"match_rms_adamw\"",
        "how the rate depends on the sides of a matrix: `original`, `match_rms_adamw`, `spectral_unclamped`",
    ),
    page_row(
        OPT,
        ["clip_value", NUMBER, ""],
        page_row_by("no limit"),
        "0.5",
        "largest size of an element of a gradient, above 0; before norms are clipped",
    ),
    page_row(
        OPT,
        ["clip_norm", NUMBER, ""],
        page_row_by("no limit"),
        "0.5",
        "largest norm of all gradients together, above 0",
    ),
    page_row(
        OPT,
        ["norm_type", NUMBER, ""],
        page_row_value("2.0"),
        "inf",
        "order of the norm that `clip_norm` limits, above 0, or `inf` for the largest element",
    ),
    page_row(
        OPT,
        ["clip_each", BOOL, ""],
        page_row_value("false"),
        "true",
        "`clip_norm` limits the norm of the gradient of each param",
    ),
    page_row(
        OPT,
        ["ema", NUMBER, ""],
        page_row_by("no average"),
        "0.5",
        "decay of a moving average of the weights, in [0, 1); weights_ema.safetensors has it",
    ),
    page_row(
        OPT,
        ["loss_scale", NUMBER, ""],
        page_row_by("no scale"),
        "1024.0",
        "first scale of the loss, above 0; doubled after 2000 steps with finite gradients, halved after a step without",
    ),
    page_row(OPT, ["accumulate", WHOLE, "micro-batches"], page_row_value("1"), "3", "micro-batches of a step"),
    page_row(
        OPT,
        ["decay_from_rank", WHOLE, "axes"],
        page_row_value("0"),
        "2",
        "the weight decay is for params of this many axes or more",
    ),
    page_row(
        OPT,
        ["group", "list of tables", ""],
        page_row_by("no groups"),
        "[{ pattern = \"*.bias\" }]",
        "groups of params with settings of their own; a param belongs to the first that matches",
    ),
    page_row(GROUP, ["pattern", "text", ""], REQUIRED, "\"*.bias\"", "names of params; `*` is any text"),
    page_row(GROUP, ["lr_scale", NUMBER, ""], page_row_value("1.0"), "0.5", "factor of the learning rate, from 0"),
    page_row(
        GROUP,
        ["weight_decay", NUMBER, ""],
        page_row_by("that of the rule"),
        "0.5",
        "weight decay of these params",
    ),
    page_row(
        GROUP,
        ["rule", "table", ""],
        page_row_by("the optimiser's"),
        "{ kind = \"sgd\" }",
        "rule of these params: `kind` and the keys that it reads, as in `[optimiser]`",
    ),
    page_row(
        PLAN,
        ["kind", NAME, ""],
        page_row_value("\"one-cycle\""),
        "\"constant\"",
        "the schedule, with torch's formula. The rate before the factors is `optimiser.lr`",
    ),
    page_row(
        PLAN,
        ["factor", NUMBER, ""],
        BY_KIND,
        "0.5",
        "rate of the first steps, as a fraction of the rate, from 0 to 1",
    ),
    page_row(PLAN, ["step_size", WHOLE, "steps"], BY_KIND, "3", "steps at each rate, from 1"),
    page_row(PLAN, ["gamma", NUMBER, ""], BY_KIND, "0.5", "factor from one rate to the next, from 0"),
    page_row(
        PLAN,
        ["milestones", "list of whole numbers", "steps"],
        BY_KIND,
        "[2, 6]",
        "steps at which the rate changes, or the first step of each part but the first; in rising order",
    ),
    page_row(
        PLAN,
        ["warmup", WHOLE, "steps"],
        BY_KIND,
        "3",
        "steps of the linear rise to the rate, up to the schedule's length",
    ),
    page_row(PLAN, ["start_factor", NUMBER, ""], BY_KIND, "0.5", "first rate, as a fraction of the rate, from 0 to 1"),
    page_row(PLAN, ["end_factor", NUMBER, ""], BY_KIND, "0.5", "last rate, as a fraction of the rate, from 0 to 1"),
    page_row(
        PLAN,
        ["total_iters", WHOLE, "steps"],
        BY_KIND,
        "9",
        "steps from the first rate to the last, or before the whole rate, from 1",
    ),
    page_row(PLAN, ["power", NUMBER, ""], BY_KIND, "2.0", "exponent, from 0"),
    page_row(
        PLAN,
        ["timescale", WHOLE, "steps"],
        BY_KIND,
        "9",
        "steps after the warm-up until the rate is divided by √2, from 1",
    ),
    page_row(PLAN, ["min_lr", NUMBER, ""], BY_KIND, "0.0005", "lowest rate, from 0"),
    page_row(PLAN, ["t_0", WHOLE, "steps"], BY_KIND, "9", "steps before the first restart, from 1"),
    page_row(PLAN, ["t_mult", WHOLE, ""], BY_KIND, "2", "ratio of each length to the one before, from 1"),
    page_row(
        PLAN,
        ["pct_start", NUMBER, ""],
        BY_KIND,
        "0.5",
        "fraction of the steps in which the rate rises, from 0 to 1",
    ),
    page_row(PLAN, ["div_factor", NUMBER, ""], BY_KIND, "5.0", "ratio of the peak to the first rate, above 0"),
    page_row(PLAN, ["final_div_factor", NUMBER, ""], BY_KIND, "5.0", "ratio of the first rate to the last, above 0"),
    page_row(
        PLAN,
        ["part", "list of tables", ""],
        BY_KIND,
        "[{ kind = \"constant\" }]",
        "schedules, with the keys of `[schedule]`",
    ),
];

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

/// The tables, with the text before each.
pub const SECTIONS: [(&str, &str); 6] = [
    (RUN, "\n## The run\n\nThese keys stand before all tables.\n"),
    (
        MODEL,
        "\n## `[model]`\n\nThe convnet of task images. `train digits` is this network with `optimiser.weight_decay = 0.05`.\n",
    ),
    (GPT, "\n## `[gpt]`\n\nThe character model of task chargpt.\n"),
    (
        OPT,
        "\n## `[optimiser]`\n\nA kind reads the keys that the second table lists, and the keys that have a default here. Other keys are errors.\n",
    ),
    (GROUP, "\n## `[[optimiser.group]]`\n\nOne table for each group of params.\n"),
    (
        PLAN,
        "\n## `[schedule]`\n\nThe length of the schedule is `steps`. A kind reads the keys that the second table lists; other keys are errors.\n\n\
        `chained` is the product of its parts: the first has the rate, the others are factors. `sequential` runs one part\n\
        after another. Each part counts its steps from its own start, and its length is the distance of its milestones.\n",
    ),
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
