//! The two directions of a line, and a value for each.
//!
//! Principles: a direction is a name, never a position in an array; what is known of both is a
//! [`PerDirection`]. Non-goals: which device or hook a direction means (egress and ingress of the
//! WAN device are `evenkeel-kernel`'s).

use std::fmt;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

/// A direction of the line, seen from the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the Internet: what leaves by the WAN device.
    Up,
    /// From the Internet: what arrives there.
    Down,
}

impl Direction {
    /// Both; first up.
    pub const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

    /// The opposite one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }
}

impl fmt::Display for Direction {
    /// As people call a transfer in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Direction::Up => "upload",
            Direction::Down => "download",
        })
    }
}

/// A value for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct PerDirection<T> {
    /// To the Internet.
    pub up: T,
    /// From the Internet.
    pub down: T,
}

impl<T> PerDirection<T> {
    /// What `f` says of each; first up.
    pub fn of(mut f: impl FnMut(Direction) -> T) -> Self {
        PerDirection {
            up: f(Direction::Up),
            down: f(Direction::Down),
        }
    }

    /// What `f` makes of each; first up.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> PerDirection<U> {
        PerDirection {
            up: f(self.up),
            down: f(self.down),
        }
    }

    /// Both side by side.
    pub fn zip<U>(self, other: PerDirection<U>) -> PerDirection<(T, U)> {
        PerDirection {
            up: (self.up, other.up),
            down: (self.down, other.down),
        }
    }

    /// Both by reference.
    pub const fn as_ref(&self) -> PerDirection<&T> {
        PerDirection {
            up: &self.up,
            down: &self.down,
        }
    }

    /// Both; first up.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        [&self.up, &self.down].into_iter()
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        [&mut self.up, &mut self.down].into_iter()
    }
}

impl<T> IntoIterator for PerDirection<T> {
    type Item = T;
    type IntoIter = std::array::IntoIter<T, 2>;

    /// First up.
    fn into_iter(self) -> Self::IntoIter {
        [self.up, self.down].into_iter()
    }
}

impl<T> Index<Direction> for PerDirection<T> {
    type Output = T;

    fn index(&self, direction: Direction) -> &T {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

impl<T> IndexMut<Direction> for PerDirection<T> {
    fn index_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_direction() {
        let mut both = PerDirection::of(|d| d.to_string());
        assert_eq!(both[Direction::Up], "upload");
        assert_eq!(both[Direction::Down.other()], "upload");
        both[Direction::Down].push('s');
        assert_eq!(both.down, "downloads");
        assert_eq!(both.iter().map(String::len).sum::<usize>(), 15);
        let pairs = both.map(|s| s.len()).zip(PerDirection { up: 1, down: 2 });
        assert_eq!(pairs.into_iter().collect::<Vec<_>>(), [(6, 1), (9, 2)]);
    }
}
