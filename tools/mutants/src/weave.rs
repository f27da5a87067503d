//! One source file with all its mutants in it, each behind a question.
//!
//! `a + b`, with mutants 7 (`-`) and 8 (`*`), becomes
//! `(if active(7) { (a) - (b) } else if active(8) { (a) * (b) } else { a + b
//! })`; other kinds of mutant likewise ([`Weaver`] has one function for each). The last branch
//! alone is woven further, since one mutant at a time is chosen: the text grows with the depth of
//! an expression, not exponentially. No line is added, so that a line of the woven file is that
//! line of the source.
//!
//! cargo-mutants says *where* (line and column) and *what*; which expression that is, is looked up
//! here in the syntax tree.

use std::collections::HashMap;
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, BinOp, Block, Expr, ExprBinary, ExprMatch, ExprStruct, ExprUnary, FieldValue, Pat, ReturnType, Signature,
    Type, UnOp,
};

use crate::list::{Genre, Mutant};

mod operators;

use operators::{Parent, binding, is_comparable, is_comparison, is_regrouped, text_of};

/// What is asked before a mutant is used, with its number in brackets after it.
const QUESTION: &str = "crate::mutation::active";
/// The same, with whether the mutant would make a difference here: a test in which it never does
/// need not judge.
const DIFFERENCE: &str = "crate::mutation::differs";

/// A file with its mutants woven in.
#[derive(Debug, Default)]
pub(crate) struct Woven {
    pub(crate) text: String,
    /// Bytes of `text` that one mutant alone brought: what does not compile there is that mutant's
    /// fault.
    pub(crate) alternatives: Vec<(Range<usize>, u32)>,
    /// The line where a match begins, and the mutants that delete an arm of it: without it, it may
    /// not be exhaustive.
    pub(crate) matches: Vec<(usize, Vec<u32>)>,
    /// Mutants that have no place in such a build: Rust's grammar does not allow them, or the
    /// function returns `impl Trait`.
    pub(crate) unplaced: Vec<u32>,
    /// Mutants that are evaluated when the library is compiled.
    pub(crate) constants: Vec<u32>,
}

/// The mutants of one file, woven into its `text`. The numbers are positions in `all`, and one
/// more.
pub(crate) fn weave(text: &str, mutants: &[(u32, &Mutant)]) -> syn::Result<Woven> {
    let file = syn::parse_file(text)?;
    let mut places = Places::new();
    for &(number, mutant) in mutants {
        let start = mutant.span.start;
        places.entry((mutant.genre, start.line, start.column)).or_default().push((number, mutant));
    }
    let (edits, matches, constants) = (Vec::new(), Vec::new(), Vec::new());
    let mut weaver = Weaver { text, places, edits, matches, in_constant: false, constants, parent: None };
    weaver.visit_file(&file);
    let unplaced = weaver.places.values().flatten().map(|&(number, _)| number).collect();
    // Outer ones first; of those in one place the one that was found first, which is the outer one.
    weaver.edits.sort_by_key(|edit| (edit.range.start, std::cmp::Reverse(edit.range.end)));
    let mut writer = Writer { text, edits: &weaver.edits, woven: Woven::default() };
    writer.source(0..text.len(), 0);
    Ok(Woven { unplaced, matches: weaver.matches, constants: weaver.constants, ..writer.woven })
}

/// What an edited stretch of the source becomes.
#[derive(Debug)]
enum Part {
    Text(String),
    /// As the source has it, with the edits inside.
    Woven(Range<usize>),
    /// What this mutant alone brings.
    Alternative(u32, String),
}

#[derive(Debug)]
struct Edit {
    range: Range<usize>,
    parts: Vec<Part>,
}

/// Kind, line and column; whoever changes something of that kind there.
type Places<'a> = HashMap<(Genre, usize, usize), Vec<(u32, &'a Mutant)>>;

/// Finds the places of the mutants in the syntax tree.
struct Weaver<'a> {
    text: &'a str,
    places: Places<'a>,
    edits: Vec<Edit>,
    matches: Vec<(usize, Vec<u32>)>,
    in_constant: bool,
    constants: Vec<u32>,
    /// Of the binary expression that is visited next, if it is an operand of one, without brackets.
    parent: Option<Parent>,
}

impl<'a> Weaver<'a> {
    /// The mutants of a kind that begin where `at` does.
    fn take(&mut self, genre: Genre, at: &impl Spanned) -> Vec<(u32, &'a Mutant)> {
        let start = at.span().start();
        let mutants = self.places.remove(&(genre, start.line, start.column + 1)).unwrap_or_default();
        if self.in_constant {
            self.constants.extend(mutants.iter().map(|(number, _)| number));
        }
        mutants
    }

    fn constant(&mut self, visit: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.in_constant, true);
        visit(self);
        self.in_constant = outer;
    }

    fn plain(&self, range: Range<usize>) -> &'a str {
        &self.text[range]
    }

    /// `range` becomes a choice between mutants and itself, woven. A choice whose mutants
    /// can be told from it without side effects (`comparable`) says where they differ.
    fn choose(&mut self, range: Range<usize>, comparable: bool, mutants: Vec<(u32, String)>) {
        if mutants.is_empty() {
            return;
        }
        let mut parts = vec![Part::Text("(".to_owned())];
        for (number, text) in mutants {
            if comparable {
                parts.push(Part::Text(format!("if {DIFFERENCE}({number}, ")));
                parts.push(Part::Alternative(number, format!("({text}) != ({})", self.plain(range.clone()))));
                parts.push(Part::Text(") { ".to_owned()));
            } else {
                parts.push(Part::Text(format!("if {QUESTION}({number}) {{ ")));
            }
            parts.push(Part::Alternative(number, text));
            parts.push(Part::Text(" } else ".to_owned()));
        }
        parts.push(Part::Text("{ ".to_owned()));
        parts.push(Part::Woven(range.clone()));
        parts.push(Part::Text(" })".to_owned()));
        self.edits.push(Edit { range, parts });
    }

    fn insert(&mut self, at: usize, parts: Vec<Part>) {
        self.edits.push(Edit { range: at..at, parts });
    }

    /// A function that returns at once.
    fn body(&mut self, signature: &Signature, block: &Block) {
        let Some(first) = block.stmts.first() else { return };
        // One function returns one type, even if its name is a secret.
        if matches!(&signature.output, ReturnType::Type(_, output) if matches!(**output, Type::ImplTrait(_))) {
            return;
        }
        let mutants = self.take(Genre::FnValue, first);
        let mut parts = Vec::new();
        for (number, mutant) in mutants {
            parts.push(Part::Text(format!(" if {QUESTION}({number}) {{ return ")));
            parts.push(Part::Alternative(number, mutant.replacement.clone()));
            parts.push(Part::Text("; }".to_owned()));
        }
        // After the bracket, before anything that is woven.
        self.insert(bytes(&block.brace_token.span.open()).end, parts);
    }
}

fn bytes(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

/// `if let … && …`: what stands there is not an expression, and can only be joined by `&&`.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(ExprBinary { left, op: BinOp::And(_), right, .. }) => has_let(left) || has_let(right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Weaver<'_> {
    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.body(&node.sig, &node.block);
        visit::visit_item_fn(self, node);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.body(&node.sig, &node.block);
        visit::visit_impl_item_fn(self, node);
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        if let Some(block) = &node.default {
            self.body(&node.sig, block);
        }
        visit::visit_trait_item_fn(self, node);
    }

    /// Tests do not judge themselves. (cargo-mutants knows `cfg(test)` alone.)
    fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
        let test = |attribute: &syn::Attribute| {
            let list = attribute.path().is_ident("cfg").then(|| attribute.meta.require_list().ok()).flatten();
            list.is_some_and(|list| {
                list.tokens.to_string().split(|letter: char| !letter.is_alphanumeric()).any(|word| word == "test")
            })
        };
        if !node.attrs.iter().any(test) {
            visit::visit_item_mod(self, node);
        }
    }

    fn visit_item_const(&mut self, node: &'ast syn::ItemConst) {
        self.constant(|weaver| visit::visit_item_const(weaver, node));
    }

    fn visit_item_static(&mut self, node: &'ast syn::ItemStatic) {
        self.constant(|weaver| visit::visit_item_static(weaver, node));
    }

    fn visit_impl_item_const(&mut self, node: &'ast syn::ImplItemConst) {
        self.constant(|weaver| visit::visit_impl_item_const(weaver, node));
    }

    fn visit_trait_item_const(&mut self, node: &'ast syn::TraitItemConst) {
        self.constant(|weaver| visit::visit_trait_item_const(weaver, node));
    }

    fn visit_expr_const(&mut self, node: &'ast syn::ExprConst) {
        self.constant(|weaver| visit::visit_expr_const(weaver, node));
    }

    fn visit_expr_binary(&mut self, node: &'ast ExprBinary) {
        let whole = bytes(&node.left).start..bytes(&node.right).end;
        let parent = self.parent.take();
        let has_let = has_let(&node.left) || has_let(&node.right);
        let root = parent.as_ref().map_or((whole.clone(), has_let), |parent| parent.root.clone());
        if !has_let {
            let mutants = self.take(Genre::BinaryOperator, &node.op);
            let is_regrouped =
                |(_, mutant): &(u32, &Mutant)| !root.1 && is_regrouped(node, parent.as_ref(), &mutant.replacement);
            let (regrouped, mutants): (Vec<_>, Vec<_>) = mutants.into_iter().partition(is_regrouped);
            let (before, after) = (root.0.start..bytes(&node.op).start, bytes(&node.op).end..root.0.end);
            let (before, after) = (self.plain(before), self.plain(after));
            let changed =
                regrouped.iter().map(|(number, mutant)| (*number, format!("{before}{}{after}", mutant.replacement)));
            self.choose(root.0.clone(), false, changed.collect());
            let (left, right) = (self.plain(bytes(&node.left)), self.plain(bytes(&node.right)));
            let changed = mutants.iter().map(|(number, mutant)| match &*mutant.replacement {
                // What is assigned to stays a place.
                operator if operator.ends_with('=') && !is_comparison(operator) => {
                    (*number, format!("{left} {operator} ({right})"))
                }
                operator => (*number, format!("({left}) {operator} ({right})")),
            });
            self.choose(whole, is_comparable(node), changed.collect());
        }
        for (operand, is_right) in [(&node.left, false), (&node.right, true)] {
            if matches!(**operand, Expr::Binary(_)) {
                self.parent = Some(Parent { operator: binding(text_of(&node.op)), is_right, root: root.clone() });
            }
            self.visit_expr(operand);
        }
    }

    fn visit_expr_unary(&mut self, node: &'ast ExprUnary) {
        if matches!(node.op, UnOp::Not(_) | UnOp::Neg(_)) {
            let mutants = self.take(Genre::UnaryOperator, &node.op);
            let operand = self.plain(bytes(&node.expr));
            let whole = bytes(&node.op).start..bytes(&node.expr).end;
            self.choose(whole, false, mutants.iter().map(|(number, _)| (*number, operand.to_owned())).collect());
        }
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_match(&mut self, node: &'ast ExprMatch) {
        let deleted: Vec<u32> = node.arms.iter().flat_map(|arm| self.arm(arm)).collect();
        self.matches.push((node.span().start().line, deleted));
        visit::visit_expr_match(self, node);
    }

    fn visit_expr_struct(&mut self, node: &'ast ExprStruct) {
        if let Some(rest) = &node.rest {
            for field in &node.fields {
                self.field(field, rest);
            }
        }
        visit::visit_expr_struct(self, node);
    }
}

impl Weaver<'_> {
    /// An arm that is not there, and a guard that always or never lets through. Returns who deletes
    /// the arm.
    fn arm(&mut self, arm: &Arm) -> Vec<u32> {
        let deleted: Vec<u32> = self.take(Genre::MatchArm, arm).iter().map(|(number, _)| *number).collect();
        let there = deleted.iter().map(|number| format!("!{QUESTION}({number})")).collect::<Vec<_>>().join(" && ");
        match &arm.pat {
            Pat::Guard(pattern) if !has_let(&pattern.guard) => {
                let guards = self.take(Genre::MatchArmGuard, &pattern.guard);
                if deleted.is_empty() && guards.is_empty() {
                    return deleted;
                }
                let range = bytes(&pattern.guard);
                let there = if there.is_empty() { "true" } else { &there };
                let mut parts = vec![Part::Text(format!("{there} && "))];
                parts.push(Part::Text("(".to_owned()));
                for (number, mutant) in guards {
                    let value = &mutant.replacement;
                    parts.push(Part::Text(format!("if {QUESTION}({number}) {{ {value} }} else ")));
                }
                parts.push(Part::Text("{ ".to_owned()));
                parts.push(Part::Woven(range.clone()));
                parts.push(Part::Text(" })".to_owned()));
                self.edits.push(Edit { range, parts });
            }
            pattern if !deleted.is_empty() => {
                self.insert(bytes(pattern).end, vec![Part::Text(format!(" if {there}"))]);
            }
            _ => {}
        }
        deleted
    }

    /// A field that is left to the structure the others come from.
    fn field(&mut self, field: &FieldValue, rest: &Expr) {
        let mutants = self.take(Genre::StructField, field);
        let Some((number, _)) = mutants.first() else { return };
        let member = self.plain(bytes(&field.member)).to_owned();
        let other = format!("({}).{member}", self.plain(bytes(rest)));
        if field.colon_token.is_some() {
            self.choose(bytes(&field.expr), false, vec![(*number, other)]);
        } else {
            let mut parts = vec![Part::Text(format!("{member}: if {QUESTION}({number}) {{ "))];
            parts.push(Part::Alternative(*number, other));
            parts.push(Part::Text(format!(" }} else {{ {member} }}")));
            self.edits.push(Edit { range: bytes(field), parts });
        }
    }
}

/// Writes the source with the edits.
struct Writer<'a> {
    text: &'a str,
    edits: &'a [Edit],
    woven: Woven,
}

impl Writer<'_> {
    /// `range` of the source, with those of its edits that come at `from` or later in the list.
    fn source(&mut self, range: Range<usize>, from: usize) {
        let mut at = range.start;
        for (index, edit) in self.edits.iter().enumerate().skip(from) {
            if edit.range.start >= range.end {
                break;
            }
            // Part of an edit that is written already.
            if edit.range.start < at {
                continue;
            }
            self.woven.text.push_str(&self.text[at..edit.range.start]);
            for part in &edit.parts {
                self.part(part, index + 1);
            }
            at = edit.range.end;
        }
        self.woven.text.push_str(&self.text[at..range.end]);
    }

    fn part(&mut self, part: &Part, from: usize) {
        match part {
            Part::Text(text) => self.woven.text.push_str(text),
            Part::Woven(range) => self.source(range.clone(), from),
            Part::Alternative(number, text) => {
                let start = self.woven.text.len();
                self.woven.text.push_str(text);
                self.woven.alternatives.push((start..self.woven.text.len(), *number));
            }
        }
    }
}

#[cfg(test)]
mod tests;
