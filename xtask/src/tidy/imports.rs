//! What one file names of its own crate. In: its syntax tree, where it stands and which modules
//! there are; out: every path into the crate, made absolute, with its line. Does not know what the
//! paths mean at their other end.

use std::collections::BTreeSet;
use std::fmt;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{UseTree, Visibility};

use crate::tree::{attributes, for_tests};

/// Where a module or an item stands in its crate; empty for the root.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ModulePath(pub(super) Vec<String>);

impl fmt::Display for ModulePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            formatter.write_str("crate")
        } else {
            formatter.write_str(&self.0.join("::"))
        }
    }
}

#[derive(Debug)]
pub(super) struct Import {
    pub(super) target: ModulePath,
    pub(super) line: usize,
    /// The name under which a `use` brings the target in, `*` for everything in it; nothing for a
    /// path in code.
    pub(super) name: Option<String>,
    /// Whether the name is handed on beyond the module.
    pub(super) public: bool,
}

/// What a file names of its own crate, and the names that it has from other crates.
pub(super) fn imports(
    file: &syn::File,
    at: &ModulePath,
    known: &BTreeSet<ModulePath>,
) -> (Vec<Import>, BTreeSet<String>) {
    let mut walk = ImportVisitor {
        at: at.clone(),
        known,
        inline: BTreeSet::new(),
        found: Vec::new(),
        foreign: BTreeSet::new(),
    };
    walk.visit_file(file);
    (walk.found, walk.foreign)
}

struct ImportVisitor<'known> {
    /// The module we are in, modules written inside the file included.
    at: ModulePath,
    known: &'known BTreeSet<ModulePath>,
    inline: BTreeSet<ModulePath>,
    found: Vec<Import>,
    foreign: BTreeSet<String>,
}

impl ImportVisitor<'_> {
    /// The absolute path of words as they stand in the code; nothing when they lead out of the
    /// crate.
    fn absolute(&self, words: &[String]) -> Option<ModulePath> {
        let (first, rest) = words.split_first()?;
        let mut path = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.at.0.clone(),
            "super" => above(&self.at.0)?,
            name => self.child(name)?.0,
        };
        for word in rest {
            match word.as_str() {
                "super" => path = above(&path)?,
                "self" => {}
                name => path.push(name.to_owned()),
            }
        }
        Some(ModulePath(path))
    }

    fn child(&self, name: &str) -> Option<ModulePath> {
        let mut path = self.at.clone();
        path.0.push(name.to_owned());
        (self.known.contains(&path) || self.inline.contains(&path)).then_some(path)
    }

    fn name_in_code(&mut self, words: &[String], line: usize) {
        // One word alone is a local name or the target of `pub(crate)`.
        if words.len() < 2 {
            return;
        }
        if let Some(target) = self.absolute(words) {
            self.found.push(Import {
                target,
                line,
                name: None,
                public: false,
            });
        }
    }

    fn name_in_use(&mut self, tree: &UseTree, before: &[String], public: bool) {
        let with = |word: &syn::Ident| [before, &[word.to_string()]].concat();
        let (words, line, name) = match tree {
            UseTree::Path(path) => return self.name_in_use(&path.tree, &with(&path.ident), public),
            UseTree::Group(group) => {
                return group
                    .items
                    .iter()
                    .for_each(|item| self.name_in_use(item, before, public));
            }
            UseTree::Name(name) => (
                with(&name.ident),
                name.ident.span(),
                last_name(&with(&name.ident)),
            ),
            UseTree::Rename(name) => (
                with(&name.ident),
                name.ident.span(),
                Some(name.rename.to_string()),
            ),
            UseTree::Glob(glob) => (
                before.to_vec(),
                glob.star_token.spans[0],
                Some("*".to_owned()),
            ),
        };
        if let Some(target) = self.absolute(&words) {
            self.found.push(Import {
                target,
                line: line.start().line,
                name,
                public,
            });
        } else {
            self.foreign.extend(name);
        }
    }

    /// Paths among the tokens of a macro, which has no syntax tree: those that start with `crate`
    /// or `super`.
    fn name_in_macro(&mut self, tokens: TokenStream) {
        let mut words: Vec<String> = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(sign) if sign.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) if colons == 2 && !words.is_empty() => {
                    words.push(ident.to_string());
                }
                TokenTree::Ident(ident) => {
                    self.name_in_code(&std::mem::take(&mut words), line);
                    if ident == "crate" || ident == "super" {
                        (words, line) = (vec![ident.to_string()], ident.span().start().line);
                    }
                }
                other => {
                    self.name_in_code(&std::mem::take(&mut words), line);
                    if let TokenTree::Group(group) = other {
                        self.name_in_macro(group.stream());
                    }
                }
            }
            colons = 0;
        }
        self.name_in_code(&words, line);
    }
}

fn above(path: &[String]) -> Option<Vec<String>> {
    path.split_last().map(|(_, above)| above.to_vec())
}

/// The name that `use a::b` brings in: `b`, or `a` for `use a::{self}`.
fn last_name(words: &[String]) -> Option<String> {
    words.iter().rev().find(|word| *word != "self").cloned()
}

impl<'ast> Visit<'ast> for ImportVisitor<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_some() {
            self.at.0.push(item.ident.to_string());
            self.inline.insert(self.at.clone());
            visit::visit_item_mod(self, item);
            self.at.0.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.name_in_use(&item.tree, &[], !matches!(item.vis, Visibility::Inherited));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let (None, Some(first)) = (path.leading_colon, path.segments.first()) {
            let words: Vec<String> = path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string())
                .collect();
            self.name_in_code(&words, first.ident.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        visit::visit_macro(self, item);
        self.name_in_macro(item.tokens.clone());
    }

    /// `pub(in crate::a)` allows somebody in; it imports nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}
