//! The Universal Scalability Law (Gunther 1993), fitted to a curve: what an extrapolation would say
//! that knows no lock and no machine.
//!
//! `X(n) = λ n / (1 + σ (n − 1) + κ n (n − 1))`, by least squares on `n / X`, which is linear in
//! `1/λ`, `σ/λ` and `κ/λ`.

use serde::Serialize;

/// A fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Law {
    /// What one thread does.
    pub(crate) lambda: f64,
    /// The share that does not go side by side.
    pub(crate) sigma: f64,
    /// What each pair of threads costs.
    pub(crate) kappa: f64,
}

impl Law {
    /// The fit to `(threads, rate)`; `None` with fewer than three points, or where none fits.
    pub(crate) fn fit(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < 3 || points.iter().any(|&(_, rate)| rate <= 0.0) {
            return None;
        }
        // Relative errors: the last point must not outweigh all others.
        let rows = points.iter().map(|&(n, rate)| {
            let weight = rate / n;
            ([weight, weight * (n - 1.0), weight * n * (n - 1.0)], 1.0)
        });
        let mut matrix = [[0.0; 4]; 3];
        for (row, value) in rows {
            for (line, a) in matrix.iter_mut().zip(row) {
                line.iter_mut().zip(row.into_iter().chain([value])).for_each(|(sum, b)| *sum += a * b);
            }
        }
        let [inverse, sigma, kappa] = solved(matrix)?;
        let law = Self { lambda: 1.0 / inverse, sigma: sigma / inverse, kappa: kappa / inverse };
        (law.lambda.is_finite() && law.lambda > 0.0).then_some(law)
    }

    /// The threads at which the fitted curve is highest, if it ever falls.
    pub(crate) fn peak(&self) -> Option<f64> {
        (self.kappa > 0.0 && self.sigma < 1.0).then(|| ((1.0 - self.sigma) / self.kappa).sqrt())
    }
}

/// Gauss's elimination with pivots.
fn solved(mut matrix: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot = (column..3).max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        matrix.swap(column, pivot);
        let line = matrix[column];
        if line[column].abs() < 1e-300 {
            return None;
        }
        for (_, other) in matrix.iter_mut().enumerate().filter(|(number, _)| *number != column) {
            let factor = other[column] / line[column];
            other.iter_mut().zip(line).for_each(|(value, pivot)| *value -= factor * pivot);
        }
    }
    Some([0, 1, 2].map(|row| matrix[row][3] / matrix[row][row]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_of_the_law_is_found() {
        let law = Law { lambda: 3.0, sigma: 0.05, kappa: 0.001 };
        let at = |n: f64| law.lambda * n / (1.0 + law.sigma * (n - 1.0) + law.kappa * n * (n - 1.0));
        let points: Vec<(f64, f64)> = [1.0, 2.0, 8.0, 24.0, 64.0].map(|n| (n, at(n))).to_vec();
        let found = Law::fit(&points).unwrap();
        assert!((found.sigma - 0.05).abs() < 1e-6 && (found.kappa - 0.001).abs() < 1e-6, "{found:?}");
        assert!((found.peak().unwrap() - 30.8).abs() < 0.1);
    }

    #[test]
    fn too_few_points_fit_nothing() {
        assert_eq!(Law::fit(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(Law::fit(&[(2.0, 1.0), (2.0, 1.0), (2.0, 1.0)]), None);
        assert_eq!(Law::fit(&[(1.0, 1.0), (2.0, 0.0), (4.0, 1.0)]), None);
    }
}
