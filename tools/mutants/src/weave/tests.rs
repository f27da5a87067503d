//! What is woven, text by text.

use super::*;
use crate::list::{Position, Span};

/// A mutant of `text` at the first `at`.
fn mutant(text: &str, genre: Genre, at: &str, replacement: &str) -> Mutant {
    let byte = text.find(at).unwrap();
    let line = text[..byte].matches('\n').count() + 1;
    let column = text[..byte].chars().rev().take_while(|&letter| letter != '\n').count() + 1;
    let start = Position { line, column };
    Mutant {
        file: "x.rs".to_owned(),
        genre,
        name: String::new(),
        replacement: replacement.to_owned(),
        span: Span { start },
    }
}

fn woven(text: &str, mutants: &[(Genre, &str, &str)]) -> Woven {
    let mutants: Vec<Mutant> = mutants.iter().map(|(genre, at, new)| mutant(text, *genre, at, new)).collect();
    let numbered: Vec<(u32, &Mutant)> = (1..).zip(&mutants).collect();
    let mut woven = weave(text, &numbered).unwrap();
    woven.text = woven.text.replace(QUESTION, "is").replace(DIFFERENCE, "differs");
    woven
}

#[test]
fn an_operator_becomes_a_choice_and_only_the_original_is_woven_further() {
    let text = "fn f() { g(a + b << c); }";
    let woven = woven(
        text,
        &[(Genre::BinaryOperator, "<<", ">>"), (Genre::BinaryOperator, "+", "-"), (Genre::BinaryOperator, "+", "*")],
    );
    assert_eq!(
        woven.text,
        "fn f() { g((if is(1) { (a + b) >> (c) } else { (if is(2) { (a) - (b) } else if is(3) { (a) * (b) } else { a + b }) << c })); }"
    );
    assert!(woven.unplaced.is_empty());
}

/// What cargo-mutants writes is read by the compiler, which knows nothing of the tree that was
/// there before.
#[test]
fn an_operator_that_binds_otherwise_has_other_operands() {
    let text = "fn f() { g(a && b && c, d + e + f, (h | i) & j) }";
    let woven = woven(
        text,
        &[
            (Genre::BinaryOperator, "&& b", "||"),
            (Genre::BinaryOperator, "&& c", "||"),
            (Genre::BinaryOperator, "+ e", "*"),
            (Genre::BinaryOperator, "+ f", "*"),
            (Genre::BinaryOperator, "& j", "^"),
        ],
    );
    assert_eq!(
        woven.text,
        "fn f() { g((if differs(2, ((a && b) || (c)) != (a && b && c)) { (a && b) || (c) } else { (if is(1) { a || b && c } else { a && b && c }) }), \
         (if is(4) { d + e * f } else { (if is(3) { (d) * (e) } else { d + e }) + f }), \
         (if differs(5, (((h | i)) ^ (j)) != ((h | i) & j)) { ((h | i)) ^ (j) } else { (h | i) & j })) }"
    );
}

#[test]
fn who_can_tell_says_whether_it_makes_a_difference() {
    let text = "fn f() { (a | B, a.b & !C < d, g() | a) }";
    let woven = woven(
        text,
        &[
            (Genre::BinaryOperator, "| B", "^"),
            (Genre::BinaryOperator, "< d", "<="),
            (Genre::BinaryOperator, "| a)", "^"),
        ],
    );
    assert_eq!(
        woven.text,
        "fn f() { ((if differs(1, ((a) ^ (B)) != (a | B)) { (a) ^ (B) } else { a | B }), \
         (if differs(2, ((a.b & !C) <= (d)) != (a.b & !C < d)) { (a.b & !C) <= (d) } else { a.b & !C < d }), \
         (if is(3) { (g()) ^ (a) } else { g() | a })) }"
    );
}

#[test]
fn functions_return_at_once_and_conditions_are_turned_round() {
    let text = "fn f() -> u32 {\n    if !g() { 1 } else { 2 }\n}\n";
    let woven = woven(text, &[(Genre::FnValue, "if !g", "0"), (Genre::UnaryOperator, "!g", "")]);
    assert_eq!(
        woven.text,
        "fn f() -> u32 { if is(1) { return 0; }\n    if (if is(2) { g() } else { !g() }) { 1 } else { 2 }\n}\n"
    );
}

#[test]
fn arms_and_guards() {
    let text = "fn f(x: u32) { match x { 0 => a(), 1 if x == y => b(), _ => c() } }";
    let woven = woven(
        text,
        &[
            (Genre::MatchArm, "0 =>", ""),
            (Genre::MatchArm, "1 if", ""),
            (Genre::MatchArmGuard, "x == y", "true"),
            (Genre::BinaryOperator, "== y", "!="),
        ],
    );
    assert_eq!(
        woven.text,
        "fn f(x: u32) { match x { 0 if !is(1) => a(), 1 if !is(2) && (if is(3) { true } else { (if is(4) { (x) != (y) } else { x == y }) }) => b(), _ => c() } }"
    );
    assert_eq!(woven.matches, [(1, vec![1, 2])]);
}

#[test]
fn fields_come_from_the_rest() {
    let text = "fn f() -> S { S { a: 1, b, ..old } }";
    let woven = woven(text, &[(Genre::StructField, "a: 1", ""), (Genre::StructField, "b,", "")]);
    assert_eq!(
        woven.text,
        "fn f() -> S { S { a: (if is(1) { (old).a } else { 1 }), b: if is(2) { (old).b } else { b }, ..old } }"
    );
}

#[test]
fn who_is_in_a_constant_is_told() {
    let text = "const A: u32 = 1 << 2; impl S { const B: u32 = !A; fn f(self) -> bool { !self.g } }";
    let mutants =
        [(Genre::BinaryOperator, "<<", ">>"), (Genre::UnaryOperator, "!A", ""), (Genre::UnaryOperator, "!self", "")];
    assert_eq!(woven(text, &mutants).constants, [1, 2]);
}

#[test]
fn what_is_assigned_to_stays_a_place_and_a_let_is_no_operand() {
    let text = "fn f() { x.n += 1; if let Some(y) = z && y { g() } }";
    let woven = woven(text, &[(Genre::BinaryOperator, "+=", "-="), (Genre::BinaryOperator, "&&", "||")]);
    assert_eq!(woven.text, "fn f() { (if is(1) { x.n -= (1) } else { x.n += 1 }); if let Some(y) = z && y { g() } }");
    assert_eq!(woven.unplaced, [2]);
}
