//! Writes the nodes of a finished graph into another builder: see [`splice`].

use super::signature::output_by_name;
use crate::arena::{Side, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::attrs::{Attr, Owned};
use crate::nodes::{Builder, Graph, Var};

/// Writes the nodes of `g` into a builder that has its own tables: the derivative of a function, for instance, into the
/// graph that asks for it. `operands` are the inputs of `g` by name. Returns the outputs `wanted`.
///
/// # Errors
/// `g` has a param, a state, a region, or an input that is not among `operands`; an output is not there.
pub fn splice<'g>(g: Graph<'_>, b: &'g Builder, operands: &[(&str, Var<'g>)], wanted: &[&str]) -> Result<Vec<Var<'g>>> {
    let mut map: Side<Value, Var<'g>> = Side::filled(g.values(), b.var(Value::NONE));
    let refused = |text: String| Err(Error::new(Kind::Verify, format!("splice: {text}")));
    for n in g.region_nodes(g.entry()) {
        if g.def_of(n).is_leaf() {
            let name = g.leaf(g.out(n)).map_or("", |leaf| leaf.1);
            match operands.iter().find(|operand| operand.0 == name) {
                Some(&(_, x)) if x.dtype() == g.dtype[g.out(n).at()] && x.dims() == g.dims(g.out(n)) => {
                    map[g.out(n)] = x
                }
                _ => return refused(format!("{name:?}, a {}, is no operand", g.ty_text(g.out(n)))),
            }
            continue;
        }
        let owned: Vec<Owned> = g.attrs(n).iter().map(|(_, a)| a).collect();
        let mut attrs = Vec::new();
        for a in &owned {
            attrs.push(match a {
                Owned::Shape(s) => b.shape(g.shapes.run(s.at())).map_or(Attr::Absent, Attr::Shape),
                Owned::Sym(s) => Attr::Sym(b.sym(g.str(*s))),
                Owned::Region(_) => return refused(format!("{} runs a region", g.def_of(n).name)),
                a => a.as_attr(),
            });
        }
        let args: Vec<Var<'g>> = g.args_of(n).iter().map(|&v| map[v]).collect();
        let outs = b.custom(g.def_of(n), &args, &attrs);
        g.outs_of(n).zip(outs.iter()).for_each(|(v, &out)| map[v] = out);
    }
    wanted.iter().map(|name| output_by_name(g, name).map(|v| map[v])).collect()
}

#[cfg(test)]
mod tests {
    use super::splice;
    use crate::nodes::ir::batch::Batch;
    use crate::nodes::ir::opdef::Deriv;
    use crate::nodes::ir::text::print;
    use crate::nodes::{Builder, DType, OpDef};

    static CUBED: OpDef = OpDef::new("cubed", "x³")
        .infer(|cx| cx.same_as(0))
        .deriv(Deriv::ViaDecompose)
        .batch(Batch::Leading)
        .decompose(|s| vec![s.args[0] * s.args[0] * s.args[0]])
        .cost(|_| 1)
        .cases(&[]);

    #[test]
    fn custom_ops_come_along_and_what_is_no_operand_is_refused() {
        let f = Builder::new("f");
        let x = f.input("x", [2, 3], DType::F64);
        let graph = f.finish([f.custom(&CUBED, &[x], &[])[0].named("y")]).unwrap();

        let b = Builder::new("b");
        let (a, z) = (b.input("a", [2, 3], DType::F64), b.input("z", [3], DType::F64));
        let refused = splice(graph.view(), &b, &[("x", z)], &["y"]).err().unwrap().to_string();
        assert!(refused.contains("\"x\", a f64[2,3], is no operand"), "{refused}");
        let y = splice(graph.view(), &b, &[("x", a)], &["y"]).unwrap()[0];
        let text = print(b.finish([y.named("sum"), z.exp().named("e")]).unwrap().view());
        assert!(text.contains("cubed %a : f64[2,3]"), "{text}");
    }
}
