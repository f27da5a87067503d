//! Binary operators: how tightly they bind, and which expressions can be evaluated beside their
//! mutants.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprBinary, ExprUnary, UnOp};

/// The binary expression around another one.
#[derive(Debug)]
pub(super) struct Parent {
    /// How tightly it binds.
    pub(super) operator: u8,
    pub(super) is_right: bool,
    /// The outermost one, and whether there is a `let` in it.
    pub(super) root: (Range<usize>, bool),
}

pub(super) fn text_of(operator: &BinOp) -> String {
    operator.span().source_text().unwrap_or_default()
}

/// How tightly an operator binds.
pub(super) fn binding(operator: impl AsRef<str>) -> u8 {
    match operator.as_ref() {
        "*" | "/" | "%" => 10,
        "+" | "-" => 9,
        "<<" | ">>" => 8,
        "&" => 7,
        "^" => 6,
        "|" => 5,
        "==" | "!=" | "<" | "<=" | ">" | ">=" => 4,
        "&&" => 3,
        "||" => 2,
        _ => 1,
    }
}

/// Whether `replacement`, written in place of the operator of `node`, has other operands:
/// `a && b && c` with `||` for the first is `a || (b && c)`.
pub(super) fn is_regrouped(node: &ExprBinary, parent: Option<&Parent>, replacement: &str) -> bool {
    let new = binding(replacement);
    let of = |operand: &Expr| match operand {
        Expr::Binary(inner) => Some(binding(text_of(&inner.op))),
        _ => None,
    };
    of(&node.left).is_some_and(|left| left < new)
        || of(&node.right).is_some_and(|right| right <= new)
        || parent.is_some_and(|parent| parent.operator > new || parent.is_right && parent.operator == new)
}

/// Whether an expression and its mutants can be evaluated beside each other: no overflow that the
/// original would not have, no side effect.
pub(super) fn is_comparable(node: &ExprBinary) -> bool {
    let lazy = matches!(node.op, BinOp::And(_) | BinOp::Or(_));
    let bits = matches!(node.op, BinOp::BitAnd(_) | BinOp::BitOr(_) | BinOp::BitXor(_));
    let order = matches!(node.op, BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_));
    (lazy || bits || order) && is_pure(&node.left, lazy) && is_pure(&node.right, lazy)
}

/// Whether evaluating it does nothing else; in `total`, also whether it cannot fail.
fn is_pure(expr: &Expr, total: bool) -> bool {
    match expr {
        Expr::Lit(_) | Expr::Path(_) => true,
        Expr::Field(field) => is_pure(&field.base, total),
        Expr::Paren(inner) => is_pure(&inner.expr, total),
        Expr::Cast(cast) => is_pure(&cast.expr, total),
        Expr::Unary(ExprUnary { op: UnOp::Not(_), expr, .. }) => is_pure(expr, total),
        Expr::Binary(ExprBinary { left, op, right, .. }) => {
            let safe = !total
                || matches!(
                    op,
                    BinOp::Eq(_) | BinOp::Ne(_) | BinOp::BitAnd(_) | BinOp::BitOr(_) | BinOp::And(_) | BinOp::Or(_)
                );
            let assigns = op.span().source_text().is_some_and(|text| text.ends_with('=') && !is_comparison(&text));
            safe && !assigns && is_pure(left, total) && is_pure(right, total)
        }
        _ => false,
    }
}

pub(super) fn is_comparison(operator: &str) -> bool {
    matches!(operator, "==" | "!=" | "<=" | ">=")
}
