//! Things that were met of late, by a key: as many as may be remembered.
//!
//! Principles: whoever was met longest ago makes room; times are told, never asked for. Non-goals: being fast with
//! thousands (it looks through all to find the oldest).

use std::collections::HashMap;
use std::hash::Hash;

/// At most so many, each with when it was met last.
#[derive(Debug, Clone)]
pub struct Recent<K, V> {
    all: HashMap<K, (V, f64)>,
    most: usize,
}

impl<K: Hash + Eq + Copy, V> Recent<K, V> {
    /// Remembers `most`.
    pub fn new(most: usize) -> Self {
        Recent {
            all: HashMap::new(),
            most,
        }
    }

    /// `key` is met at `now`, s; what is known of it, or `new` if nothing was.
    pub fn meet(&mut self, key: K, now: f64, new: impl FnOnce() -> V) -> &mut V {
        if self.all.len() >= self.most && !self.all.contains_key(&key) {
            let oldest = self.all.iter().min_by(|a, b| a.1.1.total_cmp(&b.1.1));
            if let Some(oldest) = oldest.map(|o| *o.0) {
                self.all.remove(&oldest);
            }
        }
        let entry = self.all.entry(key).or_insert_with(|| (new(), now));
        entry.1 = now;
        &mut entry.0
    }

    /// What is known of `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.all.get(key).map(|v| &v.0)
    }

    /// All, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.all.iter().map(|(k, v)| (k, &v.0))
    }

    /// What is known of all, in no order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.all.values_mut().map(|v| &mut v.0)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_met_longest_ago_makes_room() {
        let mut recent = Recent::new(2);
        for (key, now) in [(1, 0.0), (2, 1.0), (1, 2.0), (3, 3.0)] {
            *recent.meet(key, now, || 10 * key) += 1;
        }
        let mut all: Vec<_> = recent.iter().map(|(k, v)| (*k, *v)).collect();
        all.sort_unstable();
        assert_eq!(all, [(1, 12), (3, 31)]);
        assert_eq!((recent.get(&2), recent.len()), (None, 2));
    }
}
