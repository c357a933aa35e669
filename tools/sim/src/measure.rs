// SPDX-License-Identifier: GPL-2.0

//! Figures from samples.

/// The value that a share `q` of the samples does not exceed (nearest rank); sorts them. 0 if there
/// are none.
pub fn quantile(samples: &mut [f64], q: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let rank = (q * samples.len() as f64).ceil() as usize;
    samples
        .get(rank.clamp(1, samples.len().max(1)) - 1)
        .copied()
        .unwrap_or(0.0)
}

/// The mean, 0 without samples.
pub fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

/// Jain's index of fairness: 1 if all are equal, 1/n if one has everything.
pub fn jain(samples: &[f64]) -> f64 {
    let sum: f64 = samples.iter().sum();
    let squares: f64 = samples.iter().map(|x| x * x).sum();
    if squares == 0.0 {
        return 0.0;
    }
    sum * sum / (samples.len() as f64 * squares)
}

/// Resident memory of this process in bytes; 0 where /proc does not tell.
pub fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|s| s.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Time that this process has been on a CPU, in seconds; 0 where /proc does not tell. Other than the
/// time of day it does not depend on what else the machine does.
pub fn cpu_seconds() -> f64 {
    let schedstat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = schedstat
        .split(' ')
        .next()
        .and_then(|s| s.parse::<u64>().ok());
    ns.unwrap_or(0) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let mut s: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&mut s, 0.99), 99.0);
        assert_eq!(quantile(&mut s, 0.5), 50.0);
        assert_eq!(quantile(&mut s, 1.0), 100.0);
        assert_eq!(quantile(&mut s, 0.0), 1.0);
        assert_eq!(quantile(&mut [], 0.5), 0.0);
    }

    #[test]
    fn jain_knows_its_extremes() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[]), 0.0);
    }
}
