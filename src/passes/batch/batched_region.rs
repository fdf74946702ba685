//! The walk over a region that writes it for all members, by the batch fact of each op definition.

use super::batched_loop::{batch_choice, batch_custom_fn, batch_scan};
use super::one_by_one::one_by_one;
use crate::arena::{Node, Region, Side, Value, Window, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::attrs::Kind as FieldKind;
use crate::nodes::ir::opdef::{Batch, BatchSite, Lower};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::batch_site::repeat_for_batch_members;
use crate::nodes::{Builder, Graph, Op, Var};
use crate::passes::batch::Randomness;

/// What a batched region is written from.
#[derive(Clone, Copy)]
pub(super) struct BatchContext<'r, 'x, 'g> {
    /// The graph for one example.
    pub(super) src: Graph<'x>,
    /// The builder of the new graph.
    pub(super) g: &'g Builder,
    /// From the source's regions to copies of them, for one example.
    pub(super) regions: &'r [Region],
    /// The regions in which members draw numbers of their own.
    pub(super) draws: &'r Side<Region, bool>,
    /// The number of members.
    pub(super) size: usize,
    /// True if choices become selects where their predicate differs between members.
    pub(super) selects: bool,
}

/// A value of the new graph.
#[derive(Clone, Copy)]
pub(super) struct BatchMember<'g> {
    /// The value.
    pub(super) var: Var<'g>,
    /// True if it has the batch's axis in front. Otherwise it is the same for all members.
    pub(super) batched: bool,
}

impl<'g> BatchMember<'g> {
    /// The value with the batch's axis.
    pub(super) fn for_all(self, size: usize) -> Var<'g> {
        if self.batched { self.var } else { repeat_for_batch_members(self.var, size) }
    }

    /// The value, with the batch's axis if `batched`.
    pub(super) fn as_batched(self, batched: bool, size: usize) -> Var<'g> {
        if batched { self.for_all(size) } else { self.var }
    }
}

/// The regions with a random op, in themselves or in regions that they run, if members draw numbers of their own.
pub(super) fn batched_regions_that_draw(g: Graph<'_>, randomness: Randomness) -> Side<Region, bool> {
    let mut draws = Side::filled(g.regions(), false);
    if randomness == Randomness::Different {
        // A region comes before those that run it.
        for r in (0..g.regions()).map(Region::new) {
            draws[r] = g.region_nodes(r).any(|n| draws_for_members(g, n, &draws));
        }
    }
    draws
}

/// True if members draw numbers of their own in node `n`. `draws` says in which regions they do.
fn draws_for_members(g: Graph<'_>, n: Node, draws: &Side<Region, bool>) -> bool {
    let own = matches!(g.def_of(n).batch, Batch::Draws(_));
    let region = |(i, f): (usize, &crate::nodes::ir::attrs::Field)| {
        f.kind == FieldKind::Region && g.attrs(n).has(i) && draws[g.attrs(n).region(i)]
    };
    own || g.def_of(n).attrs.iter().enumerate().any(region)
}

/// For each value of region `r`, whether it may differ between members, if the values `roots` do. A node with regions
/// counts as one op.
pub(super) fn find_batched_values(
    g: Graph<'_>,
    r: Region,
    roots: &[Value],
    draws: &Side<Region, bool>,
) -> Window<Value, bool> {
    let mut batched = Window::filled(g.region_values(r), false);
    for &v in roots {
        batched[v] = true;
    }
    let any = draws[r];
    for n in g.region_nodes(r) {
        if g.args_of(n).iter().any(|&a| batched[a]) || (any && draws_for_members(g, n, draws)) {
            g.outs_of(n).for_each(|v| batched[v] = true);
        }
    }
    batched
}

/// Copies all regions but the entry as they are. Nodes that are the same for all members run these.
pub(super) fn copy_plain_regions(g: Graph<'_>, b: &Builder) -> Vec<Region> {
    let mut copies = vec![Region::NONE; g.regions()];
    for r in (0..g.regions()).map(Region::new).filter(|&r| r != g.entry()) {
        b.with(|e| e.open_region(g.str(g.region_names[r.at()])));
        let mut map = Window::filled(g.region_values(r), Value::NONE);
        for n in g.region_nodes(r) {
            let args: Vec<Value> = g.args_of(n).iter().map(|&a| map[a]).collect();
            let outs = b.with(|e| {
                e.set_loc(g.loc[n.at()]);
                e.copy(&g, n, &args, &copies)
            });
            g.outs_of(n).zip(outs.iter()).for_each(|(v, new)| map[v] = new);
        }
        let yields: Vec<Value> = g.region_yields(r).iter().map(|&y| map[y]).collect();
        copies[r.at()] = b.with(|e| e.close_region(&yields));
    }
    copies
}

/// Writes region `r` for all members into the open region. `known` holds its arguments, or the leaves of the entry.
/// Returns all its values.
pub(super) fn write_region_for_members<'g>(
    context: BatchContext<'_, '_, 'g>,
    r: Region,
    known: &[(Value, BatchMember<'g>)],
) -> Result<Window<Value, BatchMember<'g>>> {
    let BatchContext { src, g, regions, draws, .. } = context;
    let none = BatchMember { var: g.var(Value::NONE), batched: false };
    let mut values = Window::filled(src.region_values(r), none);
    for &(v, member) in known {
        values[v] = member;
    }
    for n in src.region_nodes(r).filter(|&n| src.op[n.at()] != Op::ARG && !src.def_of(n).is_leaf()) {
        g.with(|e| e.set_loc(src.loc[n.at()]));
        let args: Vec<BatchMember<'g>> = src.args_of(n).iter().map(|&a| values[a]).collect();
        let outs: Vec<BatchMember<'g>> =
            match args.iter().any(|a| a.batched) || (draws[r] && draws_for_members(src, n, draws)) {
                true => batch_one_node(context, n, &args)?,
                false => {
                    let ids: Vec<Value> = args.iter().map(|a| a.var.v).collect();
                    let outs = g.with(|e| e.copy(&src, n, &ids, regions));
                    outs.iter().map(|v| BatchMember { var: g.var(v), batched: false }).collect()
                }
            };
        if let Some(e) = g.error() {
            return Err(e.context(format!("vmap of {}", src.def_of(n).name)));
        }
        for (v, out) in src.outs_of(n).zip(outs) {
            check_result_type(context, v, out)?;
            g.with(|e| e.set_name(out.var.v, src.names[v.at()]));
            values[v] = out;
        }
    }
    Ok(values)
}

/// The results of node `n`, of whose operands one is batched or which draws.
fn batch_one_node<'g>(
    context: BatchContext<'_, '_, 'g>,
    n: Node,
    args: &[BatchMember<'g>],
) -> Result<Vec<BatchMember<'g>>> {
    let BatchContext { src, g, size, .. } = context;
    let def = src.def_of(n);
    let all = |outs: Vec<Var<'g>>| outs.into_iter().map(|var| BatchMember { var, batched: true }).collect();
    let (vars, batched): (Vec<_>, Vec<_>) = args.iter().map(|a| (a.var, a.batched)).unzip();
    let site = Site { g, op: src.op[n.at()], attrs: src.attrs(n), args: &vars, outs: &[] };
    let site = BatchSite { site, batched: &batched, size };
    let by_rule = match def.batch {
        Batch::Leading => Some(site.site.rebuild_with(&site.all())),
        Batch::Rule(rule) | Batch::RuleIf(_, rule) => rule(&site),
        Batch::Draws(rule) if !batched.contains(&true) => rule(&site),
        Batch::Draws(_) | Batch::Members => None,
        Batch::Regions => {
            let outs = match def.lower {
                Lower::Loop => batch_scan(context, n, args)?,
                Lower::Choice => batch_choice(context, n, args)?,
                _ => Some(batch_custom_fn(context, n, args)?),
            };
            match outs {
                Some(outs) => return Ok(outs),
                None => None,
            }
        }
        Batch::ViaDecompose => {
            return Err(Error::new(Kind::Verify, format!("{} is not prepared", def.name)).at(src.location(n)));
        }
    };
    Ok(all(by_rule.unwrap_or_else(|| one_by_one(context, n, args))))
}

/// An error unless `out` has the type of `v`, with the batch's axis in front if it is batched.
fn check_result_type(context: BatchContext<'_, '_, '_>, v: Value, out: BatchMember<'_>) -> Result<()> {
    let BatchContext { src, size, .. } = context;
    let lead: &[usize] = if out.batched { &[size] } else { &[] };
    if out.var.dtype() == src.dtype[v.at()] && *out.var.dims() == [lead, &src.dims(v)[..]].concat() {
        return Ok(());
    }
    let n = src.def[v.at()];
    let (name, have, want) = (src.def_of(n).name, format!("{}{}", out.var.dtype(), out.var.dims()), src.ty_text(v));
    let text = format!("vmap: the batch rule of {name} gave {have} for {size} members of {want}");
    Err(Error::new(Kind::Verify, text).at(src.location(n)))
}
