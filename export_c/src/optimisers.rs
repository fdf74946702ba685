//! Steps of SGD and Adam.

use crate::c_text::c_type;
use crate::call::{Call, Statement};
use crate::reductions::float;
use arenagrad::graph::DType;
use arenagrad_kernels::optim::{Adam, Sgd};

/// The scalars of a step of SGD that begin with read `at`, as arguments: `[first, nesterov, ]lr, scale[, momentum,
/// keep], decay`.
fn sgd_numbers(c: &Call<'_>, a: &Sgd, at: usize, dtype: DType) -> Result<String, String> {
    let momentum = a.momentum != 0.0;
    let lr = format!("{}[0]", c.read(at, dtype)?);
    let scale = match a.scaled {
        true => format!("{}[0]", c.read(at + 1 + usize::from(momentum), dtype)?),
        false => float(dtype, 1.0),
    };
    let decay = float(dtype, a.weight_decay);
    if !momentum {
        return Ok(format!("{lr}, {scale}, {decay}"));
    }
    let first = format!("{}[0] == 1", c.read(at + 1, DType::I64)?);
    let (keep, nesterov) = (float(dtype, 1.0 - a.dampening), u8::from(a.nesterov));
    Ok(format!("{first}, {nesterov}, {lr}, {scale}, {}, {keep}, {decay}", float(dtype, a.momentum)))
}

/// The declaration of the numbers of a step of Adam, whose scalars begin with read `at`.
fn adam_numbers(c: &Call<'_>, a: &Adam, at: usize, dtype: DType) -> Result<String, String> {
    let f = c_type(dtype)?.tag;
    if dtype != DType::F32 {
        return Err("C has Adam for f32 params only".into());
    }
    let scale = if a.scaled { format!("{}[0]", c.read(at + 2, dtype)?) } else { float(dtype, 1.0) };
    let numbers = [a.beta1, a.beta2, a.eps, a.weight_decay].map(|x| float(DType::F64, x)).join(", ");
    let (lr, t) = (c.read(at, dtype)?, c.read(at + 1, DType::I64)?);
    let decoupled = u8::from(a.decoupled);
    Ok(format!("const struct ag_adam_{f} s = ag_adam_step_{f}({numbers}, {decoupled}, {lr}[0], {t}[0], {scale});"))
}

/// A step of SGD of one param or several.
pub fn sgd(c: &Call<'_>, dtype: DType) -> Result<Statement, String> {
    let (a, f) = (Sgd::from_words(c.words()), c_type(dtype)?.tag);
    let tensors = 1 + usize::from(a.momentum != 0.0);
    let params = c.writes().len() / tensors;
    let numbers = sgd_numbers(c, &a, params * (tensors + 1), dtype)?;
    let mut lines = Vec::new();
    for i in 0..params {
        let (read, write, len) = (i * (tensors + 1), i * tensors, c.writes()[i * tensors].len);
        let (p, g, to) = (c.read(read, dtype)?, c.read(read + 1, dtype)?, c.write(write, dtype)?);
        lines.push(match tensors {
            1 => format!("ag_sgd_{f}({p}, {g}, {len}, {numbers}, {to});"),
            _ => {
                let (buf, buf_to) = (c.read(read + 2, dtype)?, c.write(write + 1, dtype)?);
                format!("ag_momentum_{f}({p}, {g}, {buf}, {len}, {numbers}, {to}, {buf_to});")
            }
        });
    }
    Ok(Statement::plain(lines.join("\n")))
}

/// A step of Adam of one param or several.
pub fn adam(c: &Call<'_>, dtype: DType) -> Result<Statement, String> {
    let (a, f) = (Adam::from_words(c.words()), c_type(dtype)?.tag);
    let params = c.writes().len() / 3;
    let mut lines = vec!["{".to_string(), format!("    {}", adam_numbers(c, &a, params * 4, dtype)?)];
    for i in 0..params {
        let reads: Result<Vec<String>, String> = (0..4).map(|k| c.read(4 * i + k, dtype)).collect();
        let writes: Result<Vec<String>, String> = (0..3).map(|k| c.write(3 * i + k, dtype)).collect();
        let len = c.writes()[3 * i].len;
        lines.push(format!("    ag_adam_update_{f}(&s, {}, {len}, {});", reads?.join(", "), writes?.join(", ")));
    }
    lines.push("}".into());
    Ok(Statement::plain(lines.join("\n")))
}

/// A step by a gradient that is the product with these arguments. `words` are the step's.
pub fn by_product(c: &Call<'_>, adam: bool, words: &[u64], product: &str, dtype: DType) -> Result<Statement, String> {
    let f = c_type(dtype)?.tag;
    if adam {
        let numbers = adam_numbers(c, &Adam::from_words(words), 5, dtype)?;
        let reads: Result<Vec<String>, String> = (2..5).map(|k| c.read(k, dtype)).collect();
        let writes: Result<Vec<String>, String> = (0..3).map(|k| c.write(k, dtype)).collect();
        let (reads, writes) = (reads?.join(", "), writes?.join(", "));
        return Ok(Statement::plain(format!(
            "{{\n    {numbers}\n    ag_product_adam_{f}({product}, &s, {reads}, {writes});\n}}"
        )));
    }
    let a = Sgd::from_words(words);
    let (p, to) = (c.read(2, dtype)?, c.write(0, dtype)?);
    if a.momentum == 0.0 {
        let numbers = sgd_numbers(c, &a, 3, dtype)?;
        return Ok(Statement::plain(format!("ag_product_sgd_{f}({product}, {p}, {to}, {numbers});")));
    }
    let numbers = sgd_numbers(c, &a, 4, dtype)?;
    let (buf, buf_to) = (c.read(3, dtype)?, c.write(1, dtype)?);
    Ok(Statement::plain(format!("ag_product_momentum_{f}({product}, {p}, {buf}, {numbers}, {to}, {buf_to});")))
}
