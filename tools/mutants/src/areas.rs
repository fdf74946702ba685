//! The files that have mutants, and the area of each.

use std::collections::HashMap;
use std::path::Path;
use syn::visit::{self, Visit};

/// A field of an op definition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field {
    Infer,
    Deriv,
    Decompose,
    Batch,
    Lower,
    Cost,
}

impl Field {
    pub fn of(name: &str) -> Option<Field> {
        Some(match name {
            "infer" => Field::Infer,
            "deriv" => Field::Deriv,
            "decompose" => Field::Decompose,
            "batch" => Field::Batch,
            "lower" => Field::Lower,
            "cost" => Field::Cost,
            _ => return None,
        })
    }

    /// The field that an enum of op definitions is of.
    pub fn of_enum(name: &str) -> Option<Field> {
        Some(match name.trim() {
            "Deriv" => Field::Deriv,
            "Batch" => Field::Batch,
            "Lower" => Field::Lower,
            _ => return None,
        })
    }
}

/// The areas of the report, in its order.
pub const AREAS: [&str; 13] = [
    "shapes",
    "derivatives",
    "ad",
    "passes",
    "planner",
    "search",
    "checker",
    "text",
    "checkpoint",
    "readers",
    "ops",
    "rest",
    "kernels",
];

/// Left out, with the reason.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("src/fuzz", "a tool of tests: tools/planted checks it"),
    ("src/conform", "the conformance suite: tests/ops/conformance.rs plants wrong definitions"),
    ("src/nodes/case_regions.rs", "regions of conformance cases"),
    ("src/tools.rs", "names only"),
    ("src/sched/pack/instances.rs", "problems that tests and benches draw"),
    ("src/kernels/simd", "SIMD"),
    ("src/kernels/gemm", "micro-kernels, compared with naive loops on every instruction set"),
    ("src/kernels/vmath", "SIMD"),
    ("src/kernels/harness.rs", "a tool of tests"),
];

/// What decides about a place beside its file.
#[derive(Default)]
pub struct Rules {
    /// Functions of op definitions, by folder and name.
    fields: HashMap<(String, String), Field>,
}

impl Rules {
    /// Reads which functions the op definitions name.
    pub fn read(files: &[(String, String)]) -> Rules {
        let mut rules = Rules::default();
        for (file, text) in files.iter().filter(|(f, _)| f.starts_with("src/nodes/ops/")) {
            if let Ok(tree) = syn::parse_file(text) {
                Names { folder: folder(file), fields: &mut rules.fields, within: None }.visit_file(&tree);
            }
        }
        rules
    }

    /// True for code that is not built here: tests, other systems, the model checker.
    pub fn elsewhere<'s>(&self, mut attrs: impl Iterator<Item = &'s str>) -> bool {
        attrs.any(|a| {
            let a: String = a.split_whitespace().collect();
            a == "#[test]"
                || a.starts_with("#[cfg(")
                    && ["test", "loom", "aarch64", "not(unix)", "doctest", "debug_assertions"].iter().any(|w| {
                        a.contains(w)
                            && !a.contains(&format!("not({w}"))
                            && !a.contains("feature=\"testing\"")
                            && !a.contains("not(all(loom,test))")
                    })
        })
    }

    pub fn area(&self, file: &str, names: &[String], field: Option<Field>) -> &'static str {
        let starts = |prefixes: &[&str]| prefixes.iter().any(|p| file.starts_with(p));
        if starts(&["src/nodes/ops/"]) {
            let named = names.iter().find_map(|n| self.fields.get(&(folder(file), n.clone())).copied());
            let last = names.last().map(String::as_str).unwrap_or_default();
            let has = |words: &[&str]| words.iter().any(|w| last.contains(w));
            return match field.or(named) {
                Some(Field::Infer) => "shapes",
                Some(Field::Deriv | Field::Decompose) => "derivatives",
                Some(_) => "ops",
                None if has(&["_vjp", "_jvp", "_partial", "_share", "_slope", "decompose_"]) => "derivatives",
                None if has(&["infer_", "check_", "_dims", "geometry"]) => "shapes",
                None => "ops",
            };
        }
        match () {
            () if starts(&["src/kernels/", "src/arena/", "src/fft/"]) => "kernels",
            () if starts(&["src/nodes/ir/text/"]) => "text",
            () if starts(&["src/nodes/ir/verify/"]) => "checker",
            () if starts(&["src/nodes/ir/infer", "src/nodes/arguments/size"]) => "shapes",
            () if starts(&["src/sched/pack/"]) => "search",
            () if starts(&["src/passes/ad/"]) => "ad",
            () if starts(&["src/passes/"]) => "passes",
            () if starts(&["src/sched/checker", "src/sched/races", "src/sched/planned_"]) => "checker",
            () if starts(&["src/sched/alias", "src/sched/intervals", "src/sched/planner", "src/sched/faults"]) => {
                "planner"
            }
            () if starts(&["src/sched/areas", "src/sched/order/", "src/sched/lower/"]) => "planner",
            () if starts(&["src/train/checkpoint", "src/train/atomic", "src/train/trainer"]) => "checkpoint",
            () if starts(&["src/train/data/", "src/train/gguf/"]) => "readers",
            () => "rest",
        }
    }
}

fn folder(file: &str) -> String {
    Path::new(file).parent().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Collects the names of functions in fields of constants.
struct Names<'r> {
    folder: String,
    fields: &'r mut HashMap<(String, String), Field>,
    within: Option<Field>,
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        if f.sig.constness.is_some() {
            visit::visit_item_fn(self, f);
        }
    }

    fn visit_field_value(&mut self, f: &'ast syn::FieldValue) {
        let before = self.within;
        if let syn::Member::Named(name) = &f.member {
            self.within = Field::of(&name.to_string()).or(before);
        }
        visit::visit_field_value(self, f);
        self.within = before;
    }

    fn visit_expr_call(&mut self, e: &'ast syn::ExprCall) {
        let before = self.within;
        if let syn::Expr::Path(p) = &*e.func {
            let field = p.path.segments.iter().find_map(|s| Field::of_enum(&s.ident.to_string()));
            self.within = field.or(before);
        }
        e.args.iter().for_each(|a| self.visit_expr(a));
        self.within = before;
    }

    fn visit_expr_path(&mut self, e: &'ast syn::ExprPath) {
        if let (Some(field), Some(last)) = (self.within, e.path.segments.last()) {
            let name = last.ident.to_string();
            if name.starts_with(|c: char| c.is_ascii_lowercase()) && name.len() > 2 {
                self.fields.entry((self.folder.clone(), name)).or_insert(field);
            }
        }
    }
}
