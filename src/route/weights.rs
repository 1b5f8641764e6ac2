//! The table of weights: read from `config/route/weights.bin`, and adjusted by the user's own corrections. It must not know what
//! a feature means.
//!
//! A feature's key selects the slot for its weight and carries a tag of one byte; the slot has the tag of the one feature that it
//! belongs to. Any other feature weighs nothing, so that features don't disturb each other.

use super::features::{Features, OPTION_WEIGHTS};

/// Weights in the table: 4 KiB of one byte each, and as many tags.
pub const WEIGHTS: usize = 4096;

/// The value of one step of a weight in the score, which is a logarithm of odds.
pub const STEP: f32 = 1.0 / 20.0;

/// The weights of the linear model, one byte each, and the tags of the features that they belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    steps: [i8; WEIGHTS],
    tags: [u8; WEIGHTS],
}

static BYTES: &[u8; 2 * WEIGHTS] = include_bytes!("../../config/route/weights.bin");
static BUILT_IN: Weights = Weights::from_bytes(BYTES);

/// Identifies the weights that ReedClaw was built with (FNV-1a over their bytes). A slot has a meaning only with those weights:
/// after another training it belongs to another feature.
pub const FINGERPRINT: i64 = fingerprint(BYTES);

const fn fingerprint(bytes: &[u8]) -> i64 {
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    hash.cast_signed()
}

/// The slot for a feature's weight, and its tag. Options have slots of their own.
#[must_use]
pub fn slot(key: u32) -> (usize, u8) {
    match key as usize {
        option if option < OPTION_WEIGHTS => (option, 0),
        hash => (OPTION_WEIGHTS + (hash >> 8) % (WEIGHTS - OPTION_WEIGHTS), hash.to_le_bytes()[0]),
    }
}

impl Weights {
    /// The weights that ReedClaw was built with.
    #[must_use]
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// Reads weights as they are stored: one signed byte each, then the tags.
    #[must_use]
    pub const fn from_bytes(bytes: &[u8; 2 * WEIGHTS]) -> Self {
        let (mut steps, mut tags) = ([0; WEIGHTS], [0; WEIGHTS]);
        let mut at = 0;
        while at < WEIGHTS {
            steps[at] = bytes[at].cast_signed();
            tags[at] = bytes[WEIGHTS + at];
            at += 1;
        }
        Self { steps, tags }
    }

    /// The score of a line: above 0 favours the shell, below the model.
    #[must_use]
    pub fn score(&self, features: &Features) -> f32 {
        let sum: i32 =
            features.list().iter().filter_map(|(key, _)| self.slot_of(*key)).map(|at| self.steps_at(at)).sum();
        sum as f32 * STEP
    }

    /// The share of one feature in the score.
    #[must_use]
    pub fn of(&self, key: u32) -> f32 {
        self.slot_of(key).map_or(0.0, |at| self.steps_at(at) as f32 * STEP)
    }

    /// Moves one weight by some steps. The weights of options don't move: they must not fall below zero.
    pub fn shift(&mut self, slot: u16, steps: i8) {
        if let Some(weight) = self.steps.get_mut(usize::from(slot)).filter(|_| usize::from(slot) >= OPTION_WEIGHTS) {
            *weight = weight.saturating_add(steps);
        }
    }

    /// The slot that belongs to a feature, if one does.
    fn slot_of(&self, key: u32) -> Option<usize> {
        let (slot, tag) = slot(key);
        (self.tags[slot] == tag).then_some(slot)
    }

    fn steps_at(&self, slot: usize) -> i32 {
        i32::from(self.steps[slot])
    }
}

/// Limit on the weights that one correction moves, by one step each: a third of a unit of the score for the line itself. That is
/// less than the width of the zone in which a person is asked, so that one answer decides no other line.
const CORRECTED_MAX: usize = 7;

/// The small correction of the weights after the user sent a line to the other side: slots and steps.
#[must_use]
pub fn lesson(features: &Features, weights: &Weights, to_shell: bool) -> Vec<(u16, i8)> {
    let slots = features.list().iter().filter_map(|(key, _)| weights.slot_of(*key));
    let mut slots: Vec<u16> =
        slots.filter(|slot| *slot >= OPTION_WEIGHTS).filter_map(|slot| u16::try_from(slot).ok()).collect();
    slots.sort_unstable();
    slots.dedup();
    let stride = slots.len().div_ceil(CORRECTED_MAX).max(1);
    slots.into_iter().step_by(stride).map(|slot| (slot, if to_shell { 1 } else { -1 })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_weight_and_each_tag_is_in_the_fingerprint() {
        assert_eq!(FINGERPRINT, fingerprint(BYTES));
        assert_eq!(fingerprint(b"a").cast_unsigned(), 0xaf63_dc4c_8601_ec8c, "a vector of the reference");
        for at in [0, WEIGHTS - 1, WEIGHTS, 2 * WEIGHTS - 1] {
            let mut other = *BYTES;
            other[at] ^= 1;
            assert_ne!(fingerprint(&other), FINGERPRINT, "byte {at}");
        }
    }
}
