//! Finds the places of a file that can be changed.

use crate::areas::{Field, Rules};
use crate::sites::{Mutant, Shape, Site};
use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Lit, Stmt, Token, Type, UnOp};

/// The mutants of a file, and where they are.
pub fn find(file: &str, text: &str, rules: &Rules, next: &mut u32) -> syn::Result<(Vec<Mutant>, Vec<Site>)> {
    let tree = syn::parse_file(text)?;
    let mut finder = Finder {
        file,
        text,
        rules,
        next,
        mutants: Vec::new(),
        sites: Vec::new(),
        names: Vec::new(),
        fields: Vec::new(),
        constant: 0,
        plain: 0,
    };
    finder.visit_file(&tree);
    Ok((finder.mutants, finder.sites))
}

struct Finder<'a> {
    file: &'a str,
    text: &'a str,
    rules: &'a Rules,
    next: &'a mut u32,
    mutants: Vec<Mutant>,
    sites: Vec<Site>,
    /// Modules, types, functions and constants around this place.
    names: Vec<String>,
    /// Fields of op definitions around this place.
    fields: Vec<Field>,
    /// Above 0: evaluated by the compiler.
    constant: usize,
    /// Above 0: what only orders candidates or is read by people.
    plain: usize,
}

/// The bytes of a node.
fn bytes(span: Span) -> (usize, usize) {
    let range = span.byte_range();
    (range.start, range.end)
}

impl<'a> Finder<'a> {
    fn of(&self, node: &impl Spanned) -> &'a str {
        let (start, end) = bytes(node.span());
        &self.text[start..end]
    }

    fn add(&mut self, range: (usize, usize), shape: Shape, texts: Vec<(String, String)>) {
        if self.constant > 0 || self.plain > 0 || texts.is_empty() {
            return;
        }
        let before = &self.text[..range.0];
        let line = before.matches('\n').count() + 1;
        let column = range.0 - before.rfind('\n').map_or(0, |at| at + 1) + 1;
        let function = self.names.join("::");
        let area = self.rules.area(self.file, &self.names, self.fields.last().copied());
        let mut alternatives = Vec::new();
        for (change, text) in texts {
            let id = *self.next;
            *self.next += 1;
            let (file, function) = (self.file.to_string(), function.clone());
            self.mutants.push(Mutant { id, file, line, column, area, function, change, nth: 0 });
            alternatives.push((id, text));
        }
        self.sites.push(Site { start: range.0, end: range.1, shape, alternatives });
    }

    fn choose(&mut self, node: &impl Spanned, texts: &[String]) {
        let old = short(self.of(node));
        let texts = texts.iter().map(|t| (format!("{old} -> {}", short(t)), t.clone())).collect();
        self.add(bytes(node.span()), Shape::Choose, texts);
    }

    fn negate(&mut self, node: &impl Spanned) {
        let old = short(self.of(node));
        self.add(bytes(node.span()), Shape::Negate, vec![(format!("{old} -> !({old})"), String::new())]);
    }

    /// A condition of `if`, `while` or a match guard.
    fn condition(&mut self, cond: &Expr, values: &[&str]) {
        let old = short(self.of(cond));
        let (shape, values) = match binds(cond) {
            true => (Shape::LetCondition, &["false"][..]),
            false => (Shape::Condition, values),
        };
        let texts = values.iter().map(|v| (format!("{old} -> {v}"), v.to_string())).collect();
        self.add(bytes(cond.span()), shape, texts);
    }

    fn inside(&mut self, name: String, walk: impl FnOnce(&mut Self)) {
        self.names.push(name);
        walk(self);
        self.names.pop();
    }

    fn in_const(&mut self, walk: impl FnOnce(&mut Self)) {
        self.constant += 1;
        walk(self);
        self.constant -= 1;
    }

    fn in_plain(&mut self, plain: bool, walk: impl FnOnce(&mut Self)) {
        self.plain += usize::from(plain);
        walk(self);
        self.plain -= usize::from(plain);
    }

    fn function(&mut self, sig: &syn::Signature, block: &syn::Block) {
        let name = sig.ident.to_string();
        let plain = is_cost(&name);
        self.inside(name, |me| {
            if sig.constness.is_some() {
                return me.in_const(|me| me.visit_block(block));
            }
            me.in_plain(plain, |me| {
                me.body(sig, block);
                me.visit_block(block);
            });
        });
    }

    /// Early returns of a function.
    fn body(&mut self, sig: &syn::Signature, block: &syn::Block) {
        let (start, end) = (block.brace_token.span.open().byte_range().end, bytes(block.span()).1 - 1);
        let body = self.text[start..end].trim();
        if body.is_empty() {
            return;
        }
        let result = match &sig.output {
            syn::ReturnType::Default => "()".to_string(),
            syn::ReturnType::Type(_, t) => type_name(t),
        };
        let values: &[&str] = match result.as_str() {
            "()" => &["()"],
            "bool" => &["true", "false"],
            "usize" | "u64" | "u32" | "i64" | "i32" | "u8" | "u128" => &["0", "1"],
            "f64" | "f32" => &["0.0", "1.0"],
            "String" => &["String::new()"],
            "Option" => &["None"],
            "Result<()>" => &["Ok(())"],
            "Vec" => &["Vec::new()"],
            "&str" => &["\"\""],
            _ => &[],
        };
        let texts = values.iter().filter(|v| **v != body).map(|v| (format!("body -> {v}"), v.to_string())).collect();
        self.add((start, start), Shape::Body, texts);
    }

    fn binary(&mut self, e: &syn::ExprBinary) {
        let (a, b) = (self.of(&e.left), self.of(&e.right));
        let with = |op: &str| format!("{a} {op} {b}");
        let not = || format!("!({a} {} {b})", short(self.of(&e.op)));
        let texts = match e.op {
            BinOp::Lt(_) => vec![with("<="), not()],
            BinOp::Le(_) => vec![with("<"), not()],
            BinOp::Gt(_) => vec![with(">="), not()],
            BinOp::Ge(_) => vec![with(">"), not()],
            BinOp::Eq(_) | BinOp::Ne(_) => return self.negate(e),
            BinOp::And(_) => vec![with("||")],
            BinOp::Or(_) => vec![with("&&")],
            BinOp::Add(_) => vec![with("-")],
            BinOp::Sub(_) => vec![with("+")],
            BinOp::Mul(_) => vec![with("/")],
            BinOp::Div(_) => vec![with("*")],
            BinOp::Rem(_) => vec![with("/")],
            BinOp::Shl(_) => vec![with(">>")],
            BinOp::Shr(_) => vec![with("<<")],
            BinOp::BitAnd(_) => vec![with("|")],
            BinOp::BitOr(_) => vec![with("&")],
            BinOp::BitXor(_) => vec![with("|")],
            BinOp::AddAssign(_) => vec![with("-=")],
            BinOp::SubAssign(_) => vec![with("+=")],
            BinOp::MulAssign(_) => vec![with("/=")],
            BinOp::DivAssign(_) => vec![with("*=")],
            BinOp::BitAndAssign(_) => vec![with("|=")],
            BinOp::BitOrAssign(_) => vec![with("&=")],
            BinOp::BitXorAssign(_) => vec![with("|=")],
            _ => vec![],
        };
        self.choose(e, &texts);
    }

    fn literal(&mut self, e: &syn::ExprLit) {
        let new = match &e.lit {
            Lit::Bool(b) => (!b.value).to_string(),
            Lit::Int(n) => match n.base10_parse::<u64>() {
                Ok(x) if x < 1 << 31 && !self.text[bytes(e.span()).0..].starts_with("0x") => {
                    format!("{}{}", x + 1, n.suffix())
                }
                _ => format!("({} ^ 1)", self.of(e)),
            },
            Lit::Float(x) => format!("({} + 1.0)", x),
            _ => return,
        };
        self.choose(e, &[new]);
    }

    fn method(&mut self, e: &syn::ExprMethodCall) {
        let name = e.method.to_string();
        let other = match name.as_str() {
            "min" => "max",
            "max" => "min",
            "any" => "all",
            "all" => "any",
            "is_some" | "is_none" | "is_empty" | "contains" | "is_some_and" | "is_none_or" | "starts_with"
            | "ends_with" | "is_ok" | "is_err" => return self.negate(e),
            "saturating_add" => "saturating_sub",
            "saturating_sub" => "saturating_add",
            "checked_add" => "checked_sub",
            "checked_sub" => "checked_add",
            "wrapping_add" => "wrapping_sub",
            "wrapping_sub" => "wrapping_add",
            "first" => "last",
            "last" => "first",
            _ => return,
        };
        let (start, end) = bytes(e.span());
        let (from, to) = bytes(e.method.span());
        let text = format!("{}{other}{}", &self.text[start..from], &self.text[to..end]);
        self.add((start, end), Shape::Choose, vec![(format!(".{name}(…) -> .{other}(…)"), text)]);
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_path_arguments(&mut self, _: &'ast syn::PathArguments) {}
    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'ast syn::AngleBracketedGenericArguments) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_item_macro(&mut self, _: &'ast syn::ItemMacro) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}

    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attrs: &[syn::Attribute] = match item {
            syn::Item::Fn(i) => &i.attrs,
            syn::Item::Mod(i) => &i.attrs,
            syn::Item::Impl(i) => &i.attrs,
            syn::Item::Const(i) => &i.attrs,
            _ => &[],
        };
        if !self.rules.elsewhere(attrs.iter().map(|a| self.of(a))) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.inside(item.ident.to_string(), |me| visit::visit_item_mod(me, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = item.trait_.as_ref().and_then(|t| t.1.segments.last()).map(|s| s.ident.to_string());
        if of.is_some_and(|t| matches!(t.as_str(), "Debug" | "Display")) {
            return;
        }
        let name = self.of(&*item.self_ty).split('<').next().unwrap_or_default().to_string();
        self.inside(name, |me| visit::visit_item_impl(me, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !self.rules.elsewhere(item.attrs.iter().map(|a| self.of(a))) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.inside(item.ident.to_string(), |me| me.in_const(|me| me.visit_expr(&item.expr)));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.inside(item.ident.to_string(), |me| me.in_const(|me| me.visit_expr(&item.expr)));
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.in_const(|me| visit::visit_trait_item_const(me, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.inside(item.ident.to_string(), |me| me.in_const(|me| me.visit_expr(&item.expr)));
    }

    /// The body of a closure runs, wherever it is written.
    fn visit_expr_closure(&mut self, e: &'ast syn::ExprClosure) {
        let constant = std::mem::take(&mut self.constant);
        visit::visit_expr_closure(self, e);
        self.constant = constant;
    }

    fn visit_expr_repeat(&mut self, e: &'ast syn::ExprRepeat) {
        self.visit_expr(&e.expr);
    }

    fn visit_field_value(&mut self, f: &'ast syn::FieldValue) {
        if self.rules.elsewhere(f.attrs.iter().map(|a| self.of(a))) {
            return;
        }
        let name = match &f.member {
            syn::Member::Named(name) => name.to_string(),
            syn::Member::Unnamed(_) => String::new(),
        };
        match Field::of(&name).filter(|_| self.constant > 0) {
            Some(field) => self.inside(name, |me| {
                me.fields.push(field);
                me.in_plain(field == Field::Cost, |me| me.visit_expr(&f.expr));
                me.fields.pop();
            }),
            None => self.in_plain(is_cost(&name), |me| me.visit_expr(&f.expr)),
        }
    }

    fn visit_expr_call(&mut self, e: &'ast syn::ExprCall) {
        let func = self.of(&*e.func);
        let hint = func.ends_with("with_capacity") || func.ends_with("cold_path");
        let field = func.split("::").find_map(Field::of_enum).filter(|_| self.constant > 0);
        self.in_plain(hint, |me| match field {
            Some(field) => {
                me.fields.push(field);
                visit::visit_expr_call(me, e);
                me.fields.pop();
            }
            None => visit::visit_expr_call(me, e),
        });
    }

    fn visit_expr_method_call(&mut self, e: &'ast syn::ExprMethodCall) {
        self.method(e);
        self.in_plain(e.method == "reserve", |me| visit::visit_expr_method_call(me, e));
    }

    fn visit_expr_binary(&mut self, e: &'ast syn::ExprBinary) {
        if !binds(&e.left) && !binds(&e.right) {
            self.binary(e);
        }
        visit::visit_expr_binary(self, e);
    }

    fn visit_expr_unary(&mut self, e: &'ast syn::ExprUnary) {
        if matches!(e.op, UnOp::Not(_) | UnOp::Neg(_)) {
            let inner = self.of(&*e.expr).to_string();
            self.choose(e, &[inner]);
        }
        visit::visit_expr_unary(self, e);
    }

    fn visit_expr_lit(&mut self, e: &'ast syn::ExprLit) {
        self.literal(e);
    }

    fn visit_expr_if(&mut self, e: &'ast syn::ExprIf) {
        self.condition(&e.cond, &["true", "false"]);
        visit::visit_expr_if(self, e);
    }

    fn visit_expr_while(&mut self, e: &'ast syn::ExprWhile) {
        self.condition(&e.cond, &["false"]);
        visit::visit_expr_while(self, e);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.condition(guard, &["true", "false"]);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_continue(&mut self, e: &'ast syn::ExprContinue) {
        let label = e.label.as_ref().map(|l| self.of(l)).unwrap_or_default();
        self.choose(e, &[format!("break {label}")]);
    }

    fn visit_expr_macro(&mut self, e: &'ast syn::ExprMacro) {
        match e.mac.path.segments.last().map(|s| s.ident.to_string()).as_deref() {
            Some("matches") => self.negate(e),
            _ => self.visit_macro(&e.mac),
        }
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        let parse = Punctuated::<Expr, Token![,]>::parse_terminated;
        match mac.path.segments.last().map(|s| s.ident.to_string()).as_deref() {
            Some("ensure") => {
                let parsed = mac.parse_body_with(parse).ok();
                if let Some(cond) = parsed.as_ref().and_then(|list| list.first()) {
                    self.condition(cond, &["true"]);
                    self.visit_expr(cond);
                }
            }
            Some("vec") => {
                let parsed = mac.parse_body_with(parse).ok();
                parsed.iter().flatten().for_each(|e| self.visit_expr(e));
                let repeat = |input: syn::parse::ParseStream| {
                    let pair = (input.parse::<Expr>()?, input.parse::<Token![;]>()?, input.parse::<Expr>()?);
                    Ok((pair.0, pair.2))
                };
                if let (None, Ok((value, count))) = (parsed, mac.parse_body_with(repeat)) {
                    self.visit_expr(&value);
                    self.visit_expr(&count);
                }
            }
            _ => {}
        }
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        if let Stmt::Expr(e, Some(semi)) = stmt
            && matches!(e, Expr::Call(_) | Expr::MethodCall(_) | Expr::Try(_) | Expr::Assign(_) | Expr::Binary(_))
        {
            let range = (bytes(e.span()).0, bytes(semi.span()).1);
            let old = short(&self.text[range.0..range.1]);
            // A value that is dropped later, or not borrowed any more, computes nothing.
            let drops = old.starts_with("drop(");
            self.in_plain(drops, |me| me.add(range, Shape::Remove, vec![(format!("{old} -> nothing"), String::new())]));
        }
        visit::visit_stmt(self, stmt);
    }
}

/// True if the condition binds names.
fn binds(e: &Expr) -> bool {
    match e {
        Expr::Let(_) => true,
        Expr::Binary(e) => binds(&e.left) || binds(&e.right),
        Expr::Paren(e) => binds(&e.expr),
        _ => false,
    }
}

fn is_cost(name: &str) -> bool {
    name == "cost" || name == "flops" || name.ends_with("_cost") || name.ends_with("_flops")
}

/// The name of a type, as far as a default depends on it.
fn type_name(t: &Type) -> String {
    match t {
        Type::Path(p) => {
            let Some(last) = p.path.segments.last() else { return String::new() };
            let unit = match &last.arguments {
                syn::PathArguments::AngleBracketed(a) => {
                    matches!(a.args.first(), Some(syn::GenericArgument::Type(Type::Tuple(t))) if t.elems.is_empty())
                }
                _ => false,
            };
            let name = last.ident.to_string();
            if name.ends_with("Result") && unit { "Result<()>".into() } else { name }
        }
        Type::Reference(r) if matches!(&*r.elem, Type::Path(p) if p.path.is_ident("str")) => "&str".into(),
        Type::Tuple(t) if t.elems.is_empty() => "()".into(),
        _ => String::new(),
    }
}

/// At most 60 characters of a text, on one line.
fn short(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words,
    }
}
