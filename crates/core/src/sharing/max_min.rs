//! Dividing a rate: max-min by demand, urgent tiers first.
//!
//! Principles: whoever wants it gets his n-th part before anybody gets more; what is left of that goes to what is
//! urgent, and in a tier to those who have least (max-min fairness; Bertsekas and Gallager, Data Networks, 6.5.2);
//! what nobody wants is divided evenly, so that who begins need not wait. Non-goals: whose demands are true.

use super::{Demand, TIERS};

/// What each host gets of `capacity`, bit/s, in the order of `demands`. The sum is `capacity`; nobody gets less than
/// the smaller of his demand and his n-th part.
pub fn shares(capacity: f64, demands: &[Demand]) -> Vec<f64> {
    let hosts = demands.len() as f64;
    let fair = capacity / hosts;
    let mut given: Vec<f64> = demands.iter().map(|d| d.total().min(fair)).collect();
    // What the guarantee covers, it covers from the most urgent tier on.
    let mut covered = given.clone();
    for tier in 0..TIERS {
        let mut lacks = Vec::with_capacity(demands.len());
        for (demand, covered) in demands.iter().zip(&mut covered) {
            let wants = demand.0[tier].bps() as f64;
            let has = wants.min(*covered);
            *covered -= has;
            lacks.push(wants - has);
        }
        fill(&mut given, &lacks, capacity);
    }
    let left = (capacity - given.iter().sum::<f64>()).max(0.0) / hosts;
    for g in &mut given {
        *g += left;
    }
    given
}

/// Raises those who have least, by what they lack at most, until all is given.
fn fill(given: &mut [f64], lacks: &[f64], capacity: f64) {
    let most: Vec<f64> = given.iter().zip(lacks).map(|(g, l)| g + l).collect();
    let at = |level: f64| -> Vec<f64> {
        let one = |(g, m): (&f64, &f64)| level.min(*m).max(*g);
        given.iter().zip(&most).map(one).collect()
    };
    let sum = |level: f64| at(level).iter().sum::<f64>();
    if sum(capacity) <= capacity {
        let all = at(capacity);
        given.copy_from_slice(&all);
        return;
    }
    // Between two levels at which somebody is full or begins, the sum is straight.
    let mut levels: Vec<f64> = given.iter().chain(&most).copied().collect();
    levels.sort_by(f64::total_cmp);
    let above = levels.partition_point(|l| sum(*l) <= capacity);
    let low = above.checked_sub(1).map_or(0.0, |i| levels[i]);
    let high = levels.get(above).copied().unwrap_or(capacity).min(capacity);
    let (least, more) = (sum(low), sum(high));
    let part = if more > least {
        ((capacity - least) / (more - least)).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let all = at(low + part * (high - low));
    given.copy_from_slice(&all);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Rate;

    /// Of kbit/s by tier.
    fn demand(kbit: [u64; TIERS]) -> Demand {
        Demand(kbit.map(Rate::from_kbit))
    }

    fn best_effort(kbit: u64) -> Demand {
        demand([0, 0, kbit, 0])
    }

    fn kbit(capacity: f64, demands: &[Demand]) -> Vec<u64> {
        let all = shares(capacity * 1e3, demands);
        all.iter().map(|s| (s / 1e3).round() as u64).collect()
    }

    #[test]
    fn who_wants_little_gets_it_and_the_others_share() {
        let greedy = Demand([Rate::MIN, Rate::MIN, Rate::MAX, Rate::MIN]);
        assert_eq!(kbit(900.0, &[greedy; 3]), [300; 3]);
        assert_eq!(
            kbit(1000.0, &[best_effort(100), greedy, greedy]),
            [100, 450, 450]
        );
        // What nobody wants is divided as well.
        assert_eq!(
            kbit(1000.0, &[best_effort(100), best_effort(300)]),
            [400, 600]
        );
        assert_eq!(kbit(1000.0, &[Demand::default()]), [1000]);
        assert_eq!(shares(1e6, &[]), Vec::<f64>::new());
    }

    #[test]
    fn what_is_left_of_fair_shares_goes_to_what_is_urgent() {
        let call = demand([500, 0, 0, 0]);
        let bulk = demand([0, 0, 0, 900]);
        // A fair share is 250 of 1000: two want little of it, which is the call's.
        assert_eq!(
            kbit(1000.0, &[call, bulk, best_effort(100), best_effort(100)]),
            [500, 300, 100, 100]
        );
        // Beside hosts that want all of theirs a call has its own.
        assert_eq!(kbit(1000.0, &[call, bulk, bulk, bulk]), [250; 4]);
    }

    proptest! {
        #[test]
        fn never_more_than_there_is_and_nobody_below_his_part(
            capacity in 1u64..1_000_000_000,
            demands in prop::collection::vec(prop::array::uniform4(0u64..2_000_000_000), 1..20),
        ) {
            let demands: Vec<Demand> =
                demands.into_iter().map(|d| Demand(d.map(Rate::from_bps))).collect();
            let capacity = capacity as f64;
            let all = shares(capacity, &demands);
            let sum: f64 = all.iter().sum();
            prop_assert!((sum / capacity - 1.0).abs() < 1e-6, "{} of {}", sum, capacity);
            let fair = capacity / demands.len() as f64;
            for (share, demand) in all.iter().zip(&demands) {
                prop_assert!(*share >= demand.total().min(fair) * (1.0 - 1e-9));
            }
        }

        #[test]
        fn whatever_the_others_say_who_wants_all_has_his_part(
            others in prop::collection::vec(prop::array::uniform4(0u64..=u64::MAX >> 3), 0..15),
            tier in 0usize..TIERS,
        ) {
            let mut own = [Rate::from_bps(0); TIERS];
            own[tier] = Rate::MAX;
            let mut demands = vec![Demand(own)];
            demands.extend(others.into_iter().map(|d| Demand(d.map(Rate::from_bps))));
            let all = shares(1e7, &demands);
            prop_assert!(all[0] >= 1e7 / demands.len() as f64 * (1.0 - 1e-9));
        }
    }
}
