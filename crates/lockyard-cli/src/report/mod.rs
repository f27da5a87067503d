//! Reports, one file per format. All of them take [`Results`](crate::results::Results) and give
//! text.

pub(crate) mod advice;
pub(crate) mod chrome;
mod clear;
pub(crate) mod csv;
pub(crate) mod facts;
pub(crate) mod figures_html;
pub(crate) mod figures_table;
pub(crate) mod folded;
pub(crate) mod hq;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod lanes;
pub(crate) mod lines;
pub(crate) mod look;
pub(crate) mod numbers;
pub(crate) mod observed;
pub(crate) mod observed_json;
pub(crate) mod openmetrics;
pub(crate) mod saturation;
pub(crate) mod score;
pub(crate) mod shares;
pub(crate) mod summary;
pub(crate) mod svg;
pub(crate) mod table;
pub(crate) mod verdict;
pub(crate) mod versus;
mod waiting;

#[cfg(test)]
pub(crate) mod fixture;
