//! Which file uses which: the imports and paths of the sources, resolved through modules and re-exports.

use std::collections::{BTreeMap, BTreeSet};

/// From each file to the files that define what it names, with the names.
pub type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// A crate: the name that paths have for it, the folder of its sources, and what in that folder belongs to others.
pub struct Crate {
    pub name: &'static str,
    pub folder: &'static str,
    pub without: &'static [&'static str],
}

/// A `use` of one name: the name it binds (`*` for all), the path, whether others may name it here.
struct Import {
    binds: String,
    path: Vec<String>,
    public: bool,
}

#[derive(Default)]
struct Module {
    file: String,
    children: BTreeSet<String>,
    defines: BTreeSet<String>,
    imports: Vec<Import>,
    paths: Vec<Vec<String>>,
    words: BTreeSet<String>,
}

/// The modules of all crates; a key is a path such as `arenagrad::nodes::ir`.
#[derive(Default)]
pub struct Modules(BTreeMap<String, Module>);

impl Modules {
    /// Reads the sources of a crate: names of files with their text.
    pub fn read(&mut self, of: &Crate, sources: &[(String, String)]) {
        for (file, text) in sources {
            let Some(rest) = file.strip_prefix(of.folder) else { continue };
            if of.without.iter().any(|w| rest.starts_with(w)) {
                continue;
            }
            let mut path = vec![of.name.to_string()];
            path.extend(rest.trim_end_matches(".rs").split('/').map(String::from));
            if ["mod", "lib"].contains(&path[path.len() - 1].as_str()) {
                path.pop();
            }
            self.read_module(&path.join("::"), file, &mut tokens(text).into_iter().peekable());
        }
    }

    fn read_module(&mut self, path: &str, file: &str, tokens: &mut Tokens) {
        let mut module = Module { file: file.to_string(), ..Module::default() };
        let (mut depth, mut public, mut before) = (0, false, "");
        while let Some(token) = tokens.next() {
            match token {
                "#" if skip_if_test(tokens) => {}
                "{" => depth += 1,
                "}" if depth == 0 => break,
                "}" => depth -= 1,
                // `use<…>` tells what a type captures.
                "use" if tokens.peek() != Some(&"<") => read_use(tokens, Vec::new(), public, &mut module.imports),
                "mod" if before != "::" => {
                    let name = tokens.next().unwrap_or_default();
                    module.children.insert(name.to_string());
                    if tokens.next() == Some("{") {
                        self.read_module(&format!("{path}::{name}"), file, tokens);
                    }
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" if depth == 0 => {
                    module.defines.extend(tokens.peek().map(|name| name.to_string()));
                }
                "macro_rules" => {
                    tokens.next();
                    module.defines.extend(tokens.next().map(String::from));
                }
                word if is_word(word) => {
                    module.words.insert(word.to_string());
                    let mut named = vec![word.to_string()];
                    while tokens.peek() == Some(&"::") {
                        tokens.next();
                        let Some(next) = tokens.next_if(|t| is_word(t)) else { break };
                        named.push(next.to_string());
                    }
                    if named.len() > 1 {
                        module.paths.push(named);
                    }
                }
                _ => {}
            }
            public = match token {
                "pub" => true,
                "(" | ")" | "crate" | "super" | "self" | "in" => public,
                _ => false,
            };
            before = token;
        }
        self.0.insert(path.to_string(), module);
    }

    /// The file that defines what `path` names in the module `at`; `None` where that is no file of these crates.
    fn file_of(&self, at: &str, path: &[String], steps: usize) -> Option<&str> {
        let (mut module, mut rest) = match path[0].as_str() {
            "crate" => (at.split("::").next()?.to_string(), &path[1..]),
            "self" => (at.to_string(), &path[1..]),
            "super" => (at.rsplit_once("::")?.0.to_string(), &path[1..]),
            name if self.0.contains_key(name) && !self.names(at, name) => (name.to_string(), &path[1..]),
            name if self.names(at, name) => (at.to_string(), path),
            _ => return self.through_globs(at, path, steps),
        };
        while let Some(name) = rest.first() {
            let here = self.0.get(&module)?;
            let child = format!("{module}::{name}");
            if name == "super" {
                module = module.rsplit_once("::")?.0.to_string();
            } else if name == "self" {
            } else if self.0.contains_key(&child) && here.children.contains(name) {
                module = child;
            } else if here.defines.contains(name) {
                return Some(&here.file);
            } else if let Some(import) = here.imports.iter().find(|i| i.binds == *name).filter(|_| steps < 20) {
                let path: Vec<String> = import.path.iter().chain(&rest[1..]).cloned().collect();
                return self.file_of(&module, &path, steps + 1);
            } else {
                // What a macro defines is taken for the module's own.
                return self.through_globs(&module, rest, steps).or(Some(&here.file));
            }
            rest = &rest[1..];
        }
        Some(&self.0.get(&module)?.file)
    }

    /// Whether the module has a child, a definition or an import of this name.
    fn names(&self, at: &str, name: &str) -> bool {
        self.0.get(at).is_some_and(|m| {
            m.children.contains(name) || m.defines.contains(name) || m.imports.iter().any(|i| i.binds == name)
        })
    }

    fn through_globs(&self, at: &str, path: &[String], steps: usize) -> Option<&str> {
        let globs = self.0.get(at)?.imports.iter().filter(|i| i.binds == "*" && steps < 20);
        let mut modules = globs.filter_map(|i| self.module_of(at, &i.path)).filter(|m| self.names(m, &path[0]));
        modules.find_map(|module| self.file_of(&module, path, steps + 1))
    }

    /// The module that `path` names in the module `at`.
    fn module_of(&self, at: &str, path: &[String]) -> Option<String> {
        let mut module = at.to_string();
        for (i, name) in path.iter().enumerate() {
            module = match name.as_str() {
                "crate" => at.split("::").next()?.to_string(),
                "self" => module,
                "super" => module.rsplit_once("::")?.0.to_string(),
                name if i == 0 && self.0.contains_key(name) => name.to_string(),
                name => format!("{module}::{name}"),
            };
        }
        self.0.contains_key(&module).then_some(module)
    }

    /// Who uses whom. A file that only hands a name on does not use it.
    pub fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (at, module) in &self.0 {
            let used = |i: &&Import| !i.public || module.words.contains(&i.binds);
            let imports = module.imports.iter().filter(|i| i.binds != "*").filter(used).map(|i| i.path.clone());
            let named = imports.chain(module.paths.iter().cloned()).filter_map(|path| {
                let file = self.file_of(at, &path, 0)?;
                Some((file, path.last()?.clone()))
            });
            let unbound = module.words.iter().filter(|word| !self.names(at, word));
            let globbed =
                unbound.filter_map(|word| Some((self.through_globs(at, std::slice::from_ref(word), 0)?, word.clone())));
            for (file, name) in named.chain(globbed).filter(|(file, _)| *file != module.file) {
                let uses = arrows.entry(module.file.clone()).or_default();
                uses.entry(file.to_string()).or_default().insert(name);
            }
        }
        arrows
    }
}

type Tokens<'t> = std::iter::Peekable<std::vec::IntoIter<&'t str>>;

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Behind `#`: skips the attribute, and the item that follows where it is one for tests. Says whether it skipped.
fn skip_if_test(tokens: &mut Tokens) -> bool {
    if tokens.next_if_eq(&"!").is_some() {
        return skip_group(tokens).is_some();
    }
    let Some(attribute) = skip_group(tokens) else { return false };
    if attribute != "[cfg(test)]" {
        return true;
    }
    // The item ends in `;` or in its braces.
    while let Some(token) = tokens.peek() {
        match *token {
            "{" => return skip_group(tokens).is_some(),
            "(" | "[" => drop(skip_group(tokens)),
            ";" => return tokens.next().is_some(),
            _ => drop(tokens.next()),
        }
    }
    true
}

/// Skips a group in brackets; its text without blanks.
fn skip_group(tokens: &mut Tokens) -> Option<String> {
    let (mut depth, mut text) = (0, String::new());
    loop {
        let token = tokens.next()?;
        text.push_str(token);
        match token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(text);
        }
    }
}

/// Reads a tree of imports behind `use`, up to the end of its branch.
fn read_use(tokens: &mut Tokens, mut path: Vec<String>, public: bool, into: &mut Vec<Import>) {
    let prefix = path.len();
    while let Some(&token) = tokens.peek() {
        match token {
            "," | "}" | ";" => break,
            "{" => {
                tokens.next();
                loop {
                    read_use(tokens, path.clone(), public, into);
                    if tokens.next_if_eq(&",").is_none() {
                        tokens.next_if_eq(&"}");
                        return;
                    }
                }
            }
            "as" => {
                tokens.next();
                let binds = tokens.next().unwrap_or_default().to_string();
                into.push(Import { binds, path, public });
                return;
            }
            "*" => {
                tokens.next();
                into.push(Import { binds: "*".into(), path, public });
                return;
            }
            "::" => drop(tokens.next()),
            name => {
                path.push(name.to_string());
                tokens.next();
            }
        }
    }
    // A branch that is empty follows the last comma of a list.
    if path.len() == prefix {
        return;
    }
    if path[path.len() - 1] == "self" {
        path.pop();
    }
    into.extend(path.last().cloned().map(|binds| Import { binds, path: path.clone(), public }));
}

/// The words and signs of a source, without comments and literals.
fn tokens(text: &str) -> Vec<&str> {
    let (mut tokens, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let literal = literal(rest);
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let len = match literal {
            Some(len) => len,
            None if word > 0 => word,
            None if rest.starts_with("::") => 2,
            None => first.len_utf8(),
        };
        let (token, after) = rest.split_at(len.min(rest.len()));
        if literal.is_none() && !first.is_whitespace() {
            tokens.push(token);
        }
        rest = after;
    }
    tokens
}

/// The length of the comment or literal that starts here.
fn literal(text: &str) -> Option<usize> {
    let to = |end: &str, from: usize| text[from..].find(end).map_or(text.len(), |at| from + at + end.len());
    if text.starts_with("//") {
        return Some(to("\n", 0));
    }
    if text.starts_with("/*") {
        return Some(to("*/", 2));
    }
    let plain = text.strip_prefix('b').unwrap_or(text);
    let prefix = text.len() - plain.len();
    if let Some(raw) = plain.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(hashes));
        return raw[hashes..].starts_with('"').then(|| to(&end, prefix + hashes + 2));
    }
    let mut chars = plain.char_indices();
    match chars.next()?.1 {
        '"' => {
            let mut escaped = false;
            let end = chars.find(|&(_, c)| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            Some(end.map_or(text.len(), |(at, _)| prefix + at + 1))
        }
        '\'' if plain[1..].starts_with('\\') => Some(to("'", prefix + 3)),
        // A letter between quotes; else it is a lifetime.
        '\'' => chars.nth(1).filter(|(_, c)| *c == '\'').map(|(at, _)| prefix + at + 1),
        _ => None,
    }
}
