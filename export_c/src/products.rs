//! Matrix products with their epilogues, and steps of optimisers by gradients that are products.

use crate::c_text::c_type;
use crate::call::{Call, Statement};
use crate::optimisers;
use crate::reductions::float;
use arenagrad::graph::DType;
use arenagrad_kernels::abi::Kernel;
use arenagrad_kernels::gemm::{
    Act, Gemm, MAX_BATCH, Precision, StackedProduct, product_kernel_for, sgd_step_kernel_for,
    stacked_product_kernel_for,
};
use std::fmt::Write;

/// The product of an instruction of an op that computes products, if its words are those of one.
fn descriptor(words: &[u64]) -> Option<Gemm> {
    const HEAD: usize = 9;
    let flags = *words.first()?;
    let rank = *words.get(HEAD - 1)? as usize;
    let known = (flags >> 8 & 0xff) < Act::ALL.len() as u64 && flags >> 16 < Precision::ALL.len() as u64;
    (known && rank <= MAX_BATCH && words.len() >= HEAD + 3 * rank).then(|| Gemm::from_words(words))
}

/// The statements of an instruction whose kernel computes a product. `None` if it does not.
pub fn product(c: &Call<'_>, kernel: Kernel) -> Option<Result<Statement, String>> {
    let g = descriptor(c.words())?;
    let is = |k: Result<Kernel, String>| k.is_ok_and(|k| std::ptr::fn_addr_eq(k, kernel));
    for dtype in [DType::F32, DType::F64] {
        let fits = c.reads().first().is_some_and(|o| o.size == dtype.size());
        if fits && is(product_kernel_for(dtype, &g)) {
            return Some(plain(c, &g, dtype));
        }
        if fits && is(sgd_step_kernel_for(dtype, &g)) {
            return Some(sgd(c, &g, dtype));
        }
        if fits && is(stacked_product_kernel_for(dtype)) {
            return StackedProduct::from_words(c.words()).map(|s| stacked(c, &s, dtype));
        }
    }
    None
}

/// The strides of A and B, as arguments: `a, row, column, b, row, column`.
fn operands(g: &Gemm, a: &str, b: &str) -> String {
    format!("{a}, {}, {}, {b}, {}, {}", g.a.row, g.a.col, g.b.row, g.b.col)
}

/// C = A · B and what follows it.
fn plain(c: &Call<'_>, g: &Gemm, dtype: DType) -> Result<Statement, String> {
    if g.precision != Precision::F32 {
        return Err(format!("C computes products in f32, not in {}", g.precision.name()));
    }
    let f = c_type(dtype)?.tag;
    let (a, b, to) = (c.read(0, dtype)?, c.read(1, dtype)?, c.write(0, dtype)?);
    let rows = g.batches() * g.m;
    let n = g.n;
    let mut text = old_c(c, g, dtype)?;
    text += &products(g, f, dtype, [&a, &b, &to]);
    if g.bias {
        let _ = write!(text, "\nag_bias_{f}({to}, {rows}, {n}, {});", c.read(2, dtype)?);
    }
    if g.act != Act::None {
        let r = if g.act.is_act_grad() { c.read(2, dtype)? } else { String::new() };
        let x = format!("{to}[i]");
        let y = activation(g.act, f, &x, &format!("{r}[i]"), dtype);
        let _ = write!(text, "\nfor (i = 0; i < {}; i++)\n    {x} = {y};", g.len());
    }
    if g.sums {
        text += &column_sums(c, g, f, &to, dtype)?;
    }
    Ok(Statement::plain(text))
}

/// The copy of the old C to where the product is added to it, if it is elsewhere.
fn old_c(c: &Call<'_>, g: &Gemm, dtype: DType) -> Result<String, String> {
    let old = 2 + usize::from(g.third());
    if !g.accumulate || c.reads().len() <= old {
        return Ok(String::new());
    }
    let (from, to, f) = (c.read(old, dtype)?, c.write(0, dtype)?, c_type(dtype)?.tag);
    Ok(if from == to { String::new() } else { format!("ag_words_{f}({from}, {}, {to});\n", g.len()) })
}

/// The products of all matrices of a batch, of `a` and `b` into `to`.
fn products(g: &Gemm, f: &str, dtype: DType, [a, b, to]: [&str; 3]) -> String {
    let way = if g.sum_lanes_for(dtype).is_some() { "lanes" } else { "chains" };
    let add = u8::from(g.accumulate);
    let call = |a: &str, b: &str, to: &str| {
        format!("ag_product_{way}_{f}({}, {}, {}, {}, {to}, {add});", g.m, g.n, g.k, operands(g, a, b))
    };
    each_matrix(g, &call, a, b, to)
}

/// C + Σ A · B over a stack, one product after another.
fn stacked(c: &Call<'_>, s: &StackedProduct, dtype: DType) -> Result<Statement, String> {
    let g = &s.one;
    if g.precision != Precision::F32 {
        return Err(format!("C computes products in f32, not in {}", g.precision.name()));
    }
    let f = c_type(dtype)?.tag;
    let mut text = old_c(c, g, dtype)?;
    if s.count == 0 || g.k == 0 || g.is_empty() {
        return Ok(Statement::plain(text));
    }
    let at = if s.reverse { format!("({} - t)", s.count - 1) } else { "t".into() };
    let [a, b] =
        [(0, s.a), (1, s.b)].map(|(i, step)| Ok::<_, String>(format!("{} + {at} * {step}", c.read(i, dtype)?)));
    let each = products(g, f, dtype, [&a?, &b?, &c.write(0, dtype)?]).replace('\n', "\n        ");
    let _ = write!(text, "{{\n    size_t t;\n    for (t = 0; t < {}; t++) {{\n        {each}\n    }}\n}}", s.count);
    Ok(Statement::plain(text))
}

/// An activation of `x`, or `x` times the derivative of one, which follows from `r`.
pub fn activation(act: Act, f: &str, x: &str, r: &str, dtype: DType) -> String {
    let one = float(dtype, 1.0);
    match act {
        Act::None => x.into(),
        Act::Relu => format!("{x} <= 0 ? 0 : {x}"),
        Act::Gelu => format!("ag_gelu_{f}({x})"),
        Act::GeluTanh => format!("ag_gelu_tanh_{f}({x})"),
        Act::Silu => format!("ag_silu_{f}({x})"),
        Act::Tanh => format!("ag_tanh_{f}({x})"),
        Act::Sigmoid => format!("ag_sigmoid_{f}({x})"),
        Act::ReluGrad => format!("{r} > 0 ? {x} : 0"),
        Act::TanhGrad => format!("{x} * ({one} - {r} * {r})"),
        Act::SigmoidGrad => format!("{x} * ({r} * ({one} - {r}))"),
        Act::Mul => format!("{x} * {r}"),
    }
}

/// The sums of the columns of C: one row of sums for each 32 rows, or one for all where rows are narrow.
fn column_sums(c: &Call<'_>, g: &Gemm, f: &str, x: &str, dtype: DType) -> Result<String, String> {
    let (m, n, y) = (g.m, g.n, c.write(1, dtype)?);
    Ok(match n {
        1 => format!("\nag_rows_sum_{f}({x}, 1, {m}, {y});"),
        2..=64 => format!("\nag_narrows_sum_{f}({x}, 1, {m}, {n}, {y});"),
        _ => {
            let (whole, rest) = (m / 32, m % 32);
            let mut text = String::new();
            if whole > 0 {
                text += &format!("\nag_columns_sum_{f}({x}, {whole}, 32, {n}, {y});");
            }
            if rest > 0 {
                let (skip, done) = (whole * 32 * n, whole * n);
                text += &format!("\nag_columns_sum_{f}({x} + {skip}, 1, {rest}, {n}, {y} + {done});");
            }
            text
        }
    })
}

/// Calls for all matrices of a batch, in loops over its dimensions.
fn each_matrix(g: &Gemm, call: &dyn Fn(&str, &str, &str) -> String, a: &str, b: &str, to: &str) -> String {
    if g.batch().is_empty() {
        return call(a, b, to);
    }
    let (mut text, mut from_a, mut from_b, mut at) = (String::new(), String::new(), String::new(), "0".to_string());
    text += "{\n";
    let _ =
        writeln!(text, "    size_t {};", (0..g.batch().len()).map(|k| format!("b{k}")).collect::<Vec<_>>().join(", "));
    for (k, d) in g.batch().iter().enumerate() {
        let _ = writeln!(text, "{:1$}for (b{k} = 0; b{k} < {2}; b{k}++)", "", 4 * (k + 1), d.size);
        for (sum, stride) in [(&mut from_a, d.a), (&mut from_b, d.b)] {
            if stride > 0 {
                let _ = write!(sum, " + b{k} * {stride}");
            }
        }
        at = if k == 0 { "b0".into() } else { format!("({at} * {} + b{k})", d.size) };
    }
    let to = format!("{to} + {at} * {}", g.m * g.n);
    let _ = writeln!(
        text,
        "{:1$}{2}",
        "",
        4 * (g.batch().len() + 1),
        call(&format!("{a}{from_a}"), &format!("{b}{from_b}"), &to)
    );
    text += "}";
    text
}

/// A step of plain SGD by a gradient that is a product.
fn sgd(c: &Call<'_>, g: &Gemm, dtype: DType) -> Result<Statement, String> {
    if !g.batch().is_empty() {
        return Err("C has no step by a batch of products".into());
    }
    let decay = float(dtype, f64::from_bits(c.words().last().copied().unwrap_or(0)));
    let (a, b) = (c.read(0, dtype)?, c.read(1, dtype)?);
    let (p, lr, to) = (c.read(2, dtype)?, c.read(3, dtype)?, c.write(0, dtype)?);
    let sizes = format!("{}, {}, {}", g.m, g.n, g.k);
    let f = c_type(dtype)?.tag;
    Ok(Statement::plain(format!(
        "ag_product_sgd_{f}({sizes}, {}, {p}, {to}, {lr}[0], {}, {decay});",
        operands(g, &a, &b),
        float(dtype, 1.0)
    )))
}

/// A step of SGD or Adam by a gradient that is a product.
pub fn update(c: &Call<'_>, adam: bool, dtype: DType) -> Result<Statement, String> {
    let (g, words) = Gemm::and_words(c.words());
    let product = format!("{}, {}, {}, {}", g.m, g.n, g.k, operands(&g, &c.read(0, dtype)?, &c.read(1, dtype)?));
    optimisers::by_product(c, adam, words, &product, dtype)
}
