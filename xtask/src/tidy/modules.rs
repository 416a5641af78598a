//! The modules of one crate and what they import from each other. In: parsed files below a `src`
//! folder; out: a graph of modules with the line of each import. Follows `crate`, `self`, `super`,
//! names of child modules, and names that a module hands on, in `use` items, in code and in macros;
//! leaves out tests, other crates and binaries beside a library.

use std::collections::{BTreeMap, BTreeSet};

use syn::Item;

use super::imports::{Import, ModulePath, imports};
use crate::tree::{RustFile, SourceTree, attributes, for_tests};

/// Names followed from hand to hand before we call it a day; a longer chain is nobody's intent.
const HANDS: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Crate<'tree> {
    modules: BTreeMap<ModulePath, Module<'tree>>,
}

#[derive(Debug)]
struct Module<'tree> {
    file: &'tree RustFile,
    /// Names of what is defined here, so that a name handed on can be told from one that is at
    /// home.
    items: BTreeSet<String>,
    imports: Vec<Import>,
    /// Names that it has from other crates: a path through one of them leads out.
    foreign: BTreeSet<String>,
}

impl<'tree> Crate<'tree> {
    pub(super) fn of(tree: &'tree SourceTree, folder: &str) -> Self {
        let mut found = Self::default();
        for file in tree.rust.iter().filter(|file| !file.test) {
            let Some(inside) = file.path.strip_prefix(folder) else {
                continue;
            };
            let Some(path) = module_path(inside) else {
                continue;
            };
            // A `main.rs` beside `lib.rs` is another crate; files come sorted, so the library is
            // there first.
            found.modules.entry(path).or_insert_with(|| Module {
                file,
                items: items(file),
                imports: Vec::new(),
                foreign: BTreeSet::new(),
            });
        }
        let known: BTreeSet<ModulePath> = found.modules.keys().cloned().collect();
        for (path, module) in &mut found.modules {
            (module.imports, module.foreign) = imports(&module.file.ast, path, &known);
        }
        found
    }

    pub(super) fn file(&self, module: &ModulePath) -> &str {
        self.modules
            .get(module)
            .map_or("", |module| module.file.path.as_str())
    }

    /// Which module imports which, with the line of the first such import.
    pub(super) fn imports(&self) -> BTreeMap<ModulePath, BTreeMap<ModulePath, usize>> {
        let edges = |(path, module): (&ModulePath, &Module<'_>)| {
            let mut edges = BTreeMap::new();
            for import in module
                .imports
                .iter()
                .filter(|import| !hands_on(path, import))
            {
                let home = self.home(&import.target, HANDS);
                if let Some(home) = home.filter(|home| home != path) {
                    edges.entry(home).or_insert(import.line);
                }
            }
            (path.clone(), edges)
        };
        self.modules.iter().map(edges).collect()
    }

    /// The module where the thing at this path is defined; none if that is in another crate.
    fn home(&self, target: &ModulePath, hands: usize) -> Option<ModulePath> {
        let module = self.deepest(target);
        let rest = &target.0[module.0.len()..];
        let Some(name) = rest.first().filter(|_| hands > 0) else {
            return Some(module);
        };
        if self.modules[&module].items.contains(name) {
            return Some(module);
        }
        for import in &self.modules[&module].imports {
            let Some(handed) = &import.name else { continue };
            let mut next = import.target.clone();
            if handed == "*" {
                next.0.extend(rest.iter().cloned());
                if !self.defines(&next) {
                    continue;
                }
            } else if handed == name {
                next.0.extend(rest.iter().skip(1).cloned());
            } else {
                continue;
            }
            return self.home(&next, hands - 1);
        }
        let is_foreign = self.modules[&module].foreign.contains(name);
        (!is_foreign).then_some(module)
    }

    fn defines(&self, target: &ModulePath) -> bool {
        let module = self.deepest(target);
        target
            .0
            .get(module.0.len())
            .is_some_and(|name| self.modules[&module].items.contains(name))
    }

    fn deepest(&self, target: &ModulePath) -> ModulePath {
        let lengths = (0..=target.0.len()).rev();
        let mut prefixes = lengths.map(|length| ModulePath(target.0[..length].to_vec()));
        prefixes
            .find(|path| self.modules.contains_key(path))
            .unwrap_or_default()
    }
}

/// Whether the module only passes on something from below itself.
fn hands_on(path: &ModulePath, import: &Import) -> bool {
    import.public && import.target.0.len() > path.0.len() && import.target.0.starts_with(&path.0)
}

/// The module that a file below `src` is; nothing for a binary of its own.
fn module_path(inside: &str) -> Option<ModulePath> {
    let mut parts: Vec<String> = inside
        .strip_suffix(".rs")?
        .split('/')
        .map(str::to_owned)
        .collect();
    if parts.first().is_some_and(|part| part == "bin") {
        return None;
    }
    let is_root = parts.len() == 1 && (parts[0] == "lib" || parts[0] == "main");
    if is_root || parts.last().is_some_and(|part| part == "mod") {
        parts.pop();
    }
    Some(ModulePath(parts))
}

fn items(file: &RustFile) -> BTreeSet<String> {
    file.ast
        .items
        .iter()
        .filter(|item| !for_tests(attributes(item)))
        .filter_map(name)
        .collect()
}

fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
