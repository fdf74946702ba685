//! Maps: the tile programs of point-wise ops and regions, as one loop of C.
//!
//! Invariant: all operands of an element are read before a result of it is written, as results may be in place.

use crate::c_text::c_type;
use crate::call::{Call, Statement};
use crate::map_step::expression;
use arenagrad::graph::DType;
use arenagrad_kernels::tile::{Access, Input, TileProgram};
use std::fmt::Write;

/// The loop of a program.
pub fn map(c: &Call<'_>, p: &TileProgram) -> Result<Statement, String> {
    let used = used_values(p);
    let mut body = String::new();
    for (i, input) in p.inputs.iter().enumerate().filter(|(i, _)| used[*i]) {
        let (t, x) = (c_type(input.elem)?, c.read(i, input.elem)?);
        let _ = writeln!(body, "    const {} v{i} = {x}[{}];", t.name, place(input, p.len));
    }
    for (k, s) in p.steps.iter().enumerate().filter(|(k, _)| used[p.inputs.len() + k]) {
        let args = s.args.map(|v| format!("v{v}"));
        let value = expression(s, [&args[0], &args[1], &args[2]])?;
        let _ = writeln!(body, "    const {} v{} = {value};", c_type(s.out)?.name, p.inputs.len() + k);
    }
    for (j, &v) in p.outputs.iter().enumerate() {
        let elem = p.elem(v).ok_or("a map without its result")?;
        let _ = writeln!(body, "    {}[i] = v{v};", c.write(j, elem)?);
    }
    Ok(Statement::plain(format!("for (i = 0; i < {}; i++) {{\n{body}}}", p.len)))
}

/// The values that a result needs: inputs, then steps.
fn used_values(p: &TileProgram) -> Vec<bool> {
    let mut used = vec![false; p.inputs.len() + p.steps.len()];
    p.outputs.iter().for_each(|&v| used[usize::from(v)] = true);
    for (k, s) in p.steps.iter().enumerate().rev() {
        if used[p.inputs.len() + k] {
            s.args[..s.op.arity()].iter().for_each(|&v| used[usize::from(v)] = true);
        }
    }
    used
}

/// The element of an input that element `i` of the map reads.
fn place(input: &Input, len: usize) -> String {
    match &input.access {
        Access::Full => "i".into(),
        Access::Scalar => "0".into(),
        Access::Suffix(n) if *n >= len => "i".into(),
        Access::Suffix(n) => format!("i % {n}"),
        Access::Prefix(n) => format!("i / {n}"),
        Access::Strided { dims, strides, base } => {
            let (mut text, mut inner) = (base.to_string(), 1);
            for (k, (&dim, &stride)) in dims.iter().zip(strides).enumerate().rev() {
                if stride != 0 && dim > 1 {
                    let within = if inner == 1 { "i".to_string() } else { format!("i / {inner}") };
                    let index = if k == 0 { within } else { format!("{within} % {dim}") };
                    let _ = write!(text, " + (ptrdiff_t)({index}) * {stride}");
                }
                inner *= dim;
            }
            text
        }
    }
}

/// An activation and its derivative: `name` is `gelu`, `gelu_tanh` or `silu`.
pub fn with_gradient(c: &Call<'_>, name: &str, dtype: DType) -> Result<Statement, String> {
    let (t, n) = (c_type(dtype)?, c.writes().first().map_or(0, |o| o.len));
    let (x, y, slope) = (c.read(0, dtype)?, c.write(0, dtype)?, c.write(1, dtype)?);
    Ok(Statement::plain(format!(
        "for (i = 0; i < {n}; i++) {{\n    {0} slope;\n    {y}[i] = ag_{name}_both_{1}({x}[i], &slope);\n    {slope}[i] = slope;\n}}",
        t.name, t.tag
    )))
}
