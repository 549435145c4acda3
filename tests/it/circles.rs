//! Checks that the files of a module don't import each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::{fs, mem};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

use crate::architecture::{project, sources};

/// The checked modules, each with the folders in which files may still import each other. The list
/// only grows, and the folders only become fewer.
const CHECKED: &[(&str, &[&str])] = &[
    ("analysis", &[]),
    ("cache_file", &[]),
    ("cli", &[]),
    ("engine", &[]),
    ("format", &[]),
    ("group", &[]),
    ("lines", &[]),
    ("live", &[]),
    // A tool holds its server, and the server lists its tools.
    ("llm", &["llm::mcp"]),
    ("mirror", &[]),
    ("model", &[]),
    ("page", &[]),
    ("serve", &[]),
    // A group is a rule that holds rules, so the list of all rules and each rule know each other.
    ("stop", &["stop::rules"]),
    ("tools", &[]),
    ("trace", &[]),
    ("wire", &[]),
];

/// A path from the crate root, such as `["engine", "parse", "xml"]`.
type ModulePath = Vec<String>;

/// The files of a module by their paths.
type Files = BTreeMap<ModulePath, Source>;

/// The names that a file defines and uses, without those that only tests need.
#[derive(Default)]
struct Source {
    here: ModulePath,
    /// The modules that the file declares.
    children: BTreeSet<String>,
    /// The imported names, with what they stand for.
    scope: BTreeMap<String, ModulePath>,
    /// The modules of which all names are imported.
    globs: Vec<ModulePath>,
    /// The imported names that are public.
    re_exports: BTreeSet<String>,
    /// The names of the file's own items.
    items: BTreeSet<String>,
    /// The paths outside of imports, as they are written.
    paths: BTreeSet<Vec<String>>,
}

impl Source {
    fn read(here: &[String], text: &str) -> Self {
        let file = syn::parse_file(text).expect("sources are valid");
        let mut source = Self {
            here: here.to_vec(),
            ..Self::default()
        };
        for item in file
            .items
            .iter()
            .filter(|item| !is_left_out(attributes(item)))
        {
            match item {
                Item::Mod(module) => drop(source.children.insert(module.ident.to_string())),
                Item::Struct(it) => drop(source.items.insert(it.ident.to_string())),
                Item::Enum(it) => drop(source.items.insert(it.ident.to_string())),
                Item::Trait(it) => drop(source.items.insert(it.ident.to_string())),
                Item::Type(it) => drop(source.items.insert(it.ident.to_string())),
                Item::Const(it) => drop(source.items.insert(it.ident.to_string())),
                Item::Static(it) => drop(source.items.insert(it.ident.to_string())),
                Item::Fn(it) => drop(source.items.insert(it.sig.ident.to_string())),
                _ => {}
            }
        }
        source.visit_file(&file);
        source
    }

    /// Adds the names of an import below `path`.
    fn import(&mut self, mut path: Vec<String>, tree: &UseTree, is_public: bool) {
        let (name, last) = match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                return self.import(path, &tree.tree, is_public);
            }
            UseTree::Group(group) => {
                let each = |tree| self.import(path.clone(), tree, is_public);
                return group.items.iter().for_each(each);
            }
            UseTree::Glob(_) => return self.globs.push(self.absolute(&path)),
            UseTree::Name(tree) => (tree.ident.to_string(), tree.ident.to_string()),
            UseTree::Rename(tree) => (tree.rename.to_string(), tree.ident.to_string()),
        };
        let is_module = last == "self";
        let name = match path.last() {
            Some(module) if is_module && name == "self" => module.clone(),
            _ => name,
        };
        path.extend((!is_module).then_some(last));
        if is_public {
            self.re_exports.insert(name.clone());
        }
        self.scope.insert(name, self.absolute(&path));
    }

    /// Resolves the leading `crate`, `self` and `super` of a path, and names of child modules.
    fn absolute(&self, path: &[String]) -> ModulePath {
        let is_relative = path.first().is_some_and(|first| {
            matches!(first.as_str(), "self" | "super") || self.children.contains(first)
        });
        let mut home = if is_relative {
            self.here.clone()
        } else {
            Vec::new()
        };
        for name in path {
            match name.as_str() {
                "crate" | "self" => {}
                "super" => drop(home.pop()),
                _ => home.push(name.clone()),
            }
        }
        home
    }

    /// Adds the paths in the arguments of a macro, which are only tokens.
    fn read_macro(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        // The colons since the last name, and whether the next name is a method or a field.
        let (mut colons, mut is_member) = (0, false);
        for token in tokens {
            match token {
                TokenTree::Ident(name) if !is_member => {
                    if colons < 2 {
                        self.add(mem::take(&mut path), false);
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Punct(mark) => {
                    self.add(mem::take(&mut path), false);
                    (colons, is_member) = (0, mark.as_char() == '.');
                    continue;
                }
                TokenTree::Group(group) => {
                    let is_called = group.delimiter() == Delimiter::Parenthesis;
                    self.add(mem::take(&mut path), is_called);
                    self.read_macro(group.stream());
                }
                _ => {}
            }
            is_member = false;
        }
        self.add(path, false);
    }

    /// Adds a path. A lower-case name alone may be a variable, unless it's called.
    fn add(&mut self, path: Vec<String>, is_called: bool) {
        let may_be_variable = |name: &String| !is_called && name.starts_with(char::is_lowercase);
        let is_variable = matches!(path.as_slice(), [name] if may_be_variable(name));
        if !path.is_empty() && !is_variable {
            self.paths.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_left_out(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_left_out(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        self.import(Vec::new(), &item.tree, is_public);
    }

    // `pub(in path)` uses nothing, and neither do attributes.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(names(path), false);
        visit::visit_path(self, path);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(function) = &*call.func {
            self.add(names(&function.path), true);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, it: &'ast syn::Macro) {
        self.visit_path(&it.path);
        self.read_macro(it.tokens.clone());
    }
}

fn names(path: &syn::Path) -> Vec<String> {
    path.segments
        .iter()
        .map(|part| part.ident.to_string())
        .collect()
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// Returns whether an item is only in tests, or only in builds without a feature. Those have a
/// second definition of a name.
fn is_left_out(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = attribute.parse_args::<syn::Meta>();
        attribute.path().is_ident("cfg")
            && condition.is_ok_and(|condition| match condition {
                syn::Meta::Path(name) => name.is_ident("test"),
                syn::Meta::List(list) => {
                    list.path.is_ident("not") && list.tokens.to_string().starts_with("feature")
                }
                syn::Meta::NameValue(_) => false,
            })
    })
}

/// Finds the file that defines what a path from the crate root names, and the name. `None` if it
/// isn't one of `files`, or if the path names a file as a whole.
fn definition<'a>(files: &'a Files, path: &[String]) -> Option<(&'a [String], String)> {
    let module = (1..=path.len())
        .rev()
        .find_map(|length| files.get_key_value(&path[..length]));
    let (module, source) = module?;
    let (name, members) = path[module.len()..].split_first()?;
    let below = |module: &ModulePath| [module.as_slice(), std::slice::from_ref(name)].concat();
    let has = |glob: &&ModulePath| {
        // A glob brings private imports into scope only from an outer module.
        let is_outer = module.starts_with(glob);
        let is_named = files.get(*glob).is_some_and(|it| {
            let is_imported = it.scope.contains_key(name);
            it.items.contains(name) || (is_imported && (is_outer || it.re_exports.contains(name)))
        });
        is_named || files.contains_key(&below(glob))
    };
    let target = match source.scope.get(name) {
        _ if source.items.contains(name) => None,
        Some(target) => Some(target.clone()),
        None => source.globs.iter().find(has).map(below),
    };
    match target {
        Some(target) if target != path => definition(files, &[&target, members].concat()),
        _ => Some((module, name.clone())),
    }
}

/// Lists the names that each file takes from each other file.
fn arrows(files: &Files) -> BTreeMap<(&[String], &[String]), BTreeSet<String>> {
    let mut arrows = BTreeMap::<_, BTreeSet<String>>::new();
    for (here, source) in files {
        let is_used = |name: &str| source.paths.iter().any(|path| path[0] == name);
        let imported = source
            .scope
            .iter()
            .filter(|(name, _)| !source.re_exports.contains(*name) || is_used(name));
        let named = source.paths.iter().map(|path| match path[0].as_str() {
            "crate" | "self" | "super" => source.absolute(path),
            _ => [here, path.as_slice()].concat(),
        });
        for path in imported.map(|(_, path)| path.clone()).chain(named) {
            if let Some((there, name)) = definition(files, &path).filter(|(there, _)| there != here)
            {
                arrows
                    .entry((here.as_slice(), there))
                    .or_default()
                    .insert(name);
            }
        }
    }
    arrows
}

/// Describes the circles among `files`, one line for each import that is part of one. Skips imports
/// inside the folders `except`.
fn circles(files: &Files, except: &[&str]) -> Vec<String> {
    let mut arrows = arrows(files);
    arrows.retain(|(from, to), _| {
        let is_inside = |file: &[String], folder: &str| {
            let mut names = file.iter().map(String::as_str);
            folder.split("::").all(|name| names.next() == Some(name))
        };
        !except
            .iter()
            .any(|folder| is_inside(from, folder) && is_inside(to, folder))
    });
    let mut next = BTreeMap::<&[String], Vec<&[String]>>::new();
    for (from, to) in arrows.keys() {
        next.entry(from).or_default().push(to);
    }
    let leads_to = |from: &[String], to: &[String]| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            let new = next.get(file).into_iter().flatten();
            open.extend(new.filter(|file| reached.insert(**file)));
        }
        reached.contains(to)
    };
    let tied = arrows.iter().filter(|((from, to), _)| leads_to(to, from));
    tied.map(|((from, to), names)| {
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let (from, to) = (from.join("::"), to.join("::"));
        format!("{from} uses {} of {to}", names.join(", "))
    })
    .collect()
}

/// Reads the files of a top-level module.
fn files_of(room: &str) -> Files {
    let src = project().join("src");
    let mut files = Files::new();
    for path in sources() {
        let below = path.strip_prefix(&src).expect("a source file");
        let below = below.with_extension("");
        let names = below.iter().map(|name| name.to_string_lossy().into_owned());
        let mut module: ModulePath = names.collect();
        if module.last().is_some_and(|last| last == "mod") {
            module.pop();
        }
        if module[0] == room {
            let text = fs::read_to_string(&path).expect("sources are UTF-8");
            let source = Source::read(&module, &text);
            files.insert(module, source);
        }
    }
    files
}

#[test]
fn a_circle_is_found_however_it_is_spelled() {
    let of = |files: [(&str, &str); 3]| {
        let file = |(path, text): (&str, &str)| {
            let module: ModulePath = path.split("::").map(str::to_owned).collect();
            let source = Source::read(&module, text);
            (module, source)
        };
        circles(&files.into_iter().map(file).collect(), &[])
    };
    let high = "use super::low::{self, Low as Other};";
    let tied = [
        "room::high uses Low of room::low",
        "room::low uses High of room::high",
    ];
    for low in [
        "use super::high::High;",
        "use crate::room::High;",
        "use super::*; fn f(_: High) {}",
        "fn f() -> super::High { crate::room::high::High::new() }",
        "fn f() { use super::high::{High}; }",
        "fn f() { println!(\"{}\", [super::High]) }",
    ] {
        let low = format!("{low} pub struct Low;");
        let first = "mod high; mod low; pub use self::high::High; pub(crate) use low::Low;";
        let high = format!("{high} pub struct High;");
        let found = of([("room", first), ("room::high", &high), ("room::low", &low)]);
        assert_eq!(found, tied, "{low}");
    }
    for low in [
        "// use super::high::High;\nconst A: &str = \"use super::high::High;\";",
        "#[cfg(test)]\nmod tests { use super::super::high::High; }",
        "use std::fmt; fn f(high: u8, x: &'static str) -> char { high.low; '\"' }",
    ] {
        let first = "mod high; mod low; pub use high::High; pub use low::Low;";
        let found = of([("room", first), ("room::high", high), ("room::low", low)]);
        assert!(found.is_empty(), "{found:?}");
    }
    // The first file of a folder counts if it defines or uses something.
    let first = "mod high; use high::High; struct Own; fn f(_: High) {}";
    let high = "use super::Own; pub struct High;";
    let found = of([("room", first), ("room::high", high), ("room::low", "")]);
    let both = [
        "room uses High of room::high",
        "room::high uses Own of room",
    ];
    assert_eq!(found, both);
}

#[test]
fn no_file_imports_its_importer() {
    let mut wrong = Vec::new();
    for (room, except) in CHECKED {
        let files = files_of(room);
        assert!(!files.is_empty(), "{room} is a module");
        wrong.extend(circles(&files, except));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
