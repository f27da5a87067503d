//! Numbers as people read them: three significant digits, a unit, thousands apart.

/// A duration in nanoseconds: `842 ns`, `1.23 µs`, `45.6 ms`, `1.50 s`.
pub(crate) fn time(ns: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    // 999.7 ns is 1.00 µs once rounded to three digits.
    let (unit, size) = UNITS.into_iter().find(|(_, size)| ns / size < 999.5).unwrap_or(UNITS[3]);
    format!("{} {unit}", three(ns / size))
}

/// A duration that somebody chose: without the zeros of [`time`], `1 ms`.
pub(crate) fn chosen_time(ns: f64) -> String {
    let text = time(ns);
    let (number, unit) = text.split_once(' ').unwrap_or((text.as_str(), ""));
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {unit}")
}

/// A rate or count: `0.042`, `0.42`, `8.42`, `84.2`, `842`, `12,345`.
pub(crate) fn three(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.0005 => "<0.001".to_owned(),
        size if size < 0.0995 => format!("{value:.3}"),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => grouped(value.round() as u64),
    }
}

/// A whole number with its thousands apart: `1,234,567`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A ratio to the best peer: `1.08 ×`.
pub(crate) fn ratio(value: f64) -> String {
    format!("{} ×", three(value))
}

/// How far rounds are apart, given as a share of their median: `7 %`.
pub(crate) fn spread(share: f64) -> String {
    if share < 10.0 { format!("{:.0} %", share * 100.0) } else { ">999 %".to_owned() }
}

/// A number of threads, reads, locks … with its noun.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = match number {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", grouped(number as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_the_unit_that_fits() {
        let shown: Vec<String> = [0.0, 9.5, 14.26, 842.0, 999.7, 1_234.0, 45_600_000.0, 1.5e9, 2e12].map(time).to_vec();
        assert_eq!(
            shown,
            ["0 ns", "9.50 ns", "14.3 ns", "842 ns", "1.00 µs", "1.23 µs", "45.6 ms", "1.50 s", "2,000 s"]
        );
    }

    #[test]
    fn three_digits_and_thousands() {
        assert_eq!([0.0, 0.0001, 0.0421].map(three), ["0", "<0.001", "0.042"]);
        assert_eq!([0.4213, 8.4213, 84.21, 842.1, 12_345.4].map(three), ["0.42", "8.42", "84.2", "842", "12,345"]);
        assert_eq!([9.996, 99.96].map(three), ["10.0", "100"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1.084, 0.95, 0.0031].map(ratio), ["1.08 ×", "0.95 ×", "0.003 ×"]);
        assert_eq!([0.073, 1.01, 3298.93].map(spread), ["7 %", "101 %", ">999 %"]);
        assert_eq!([1e6, 1.5e6, 100.0, 2e9].map(chosen_time), ["1 ms", "1.5 ms", "100 ns", "2 s"]);
        assert_eq!((count(1, "thread"), count(16, "thread")), ("1 thread".to_owned(), "16 threads".to_owned()));
        assert_eq!((count(1, "class"), count(3, "class")), ("1 class".to_owned(), "3 classes".to_owned()));
    }
}
