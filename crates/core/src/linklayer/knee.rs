//! Where a walk over settings leaves the good ones.
//!
//! Principles: the good end says what good is; a step more is bad from the first one on that is clearly worse, not
//! from a little worse on. Non-goals: measuring.

/// Clearly worse: so many times the good end's figure.
const TIMES: f64 = 1.3;
/// And so much, ms.
const MORE: f64 = 1.0;
/// So many steps at the good end say what is good.
const GOOD: usize = 4;

/// The last good setting of `steps` (setting, latency in ms), which begin at the good end. `None`: fewer than
/// two steps, or even the first ones differ too much to say.
pub fn knee(steps: &[(f64, f64)]) -> Option<f64> {
    if steps.len() < 2 {
        return None;
    }
    let mut good: Vec<f64> = steps.iter().take(GOOD).map(|s| s.1).collect();
    good.sort_by(f64::total_cmp);
    let limit = good[good.len() / 2] * TIMES + MORE;
    let last = steps.iter().take_while(|s| s.1 <= limit).last()?;
    Some(last.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_good_step() {
        let rates = [
            (90.0, 2.0),
            (91.0, 2.2),
            (92.0, 2.1),
            (93.0, 2.4),
            (94.0, 2.9),
            (95.0, 14.0),
            (96.0, 3.0),
        ];
        assert_eq!(knee(&rates), Some(94.0));
        let all_good: Vec<(f64, f64)> = rates[..5].to_vec();
        assert_eq!(knee(&all_good), Some(94.0));
        // Overheads from the largest on.
        assert_eq!(
            knee(&[
                (48.0, 5.0),
                (44.0, 5.1),
                (40.0, 5.0),
                (36.0, 16.0),
                (32.0, 18.0)
            ]),
            Some(40.0)
        );
        assert_eq!(knee(&[(1.0, 1.0)]), None);
        assert_eq!(knee(&[]), None);
    }
}
