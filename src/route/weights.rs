//! The table of weights: read from `config/route/weights.bin`, and what the user's own corrections make of it. It must not
//! know what a feature means.

use super::features::{Features, OPTION_WEIGHTS, WEIGHTS};

/// What one step of a weight is worth in the score, which is a logarithm of odds.
pub const STEP: f32 = 1.0 / 20.0;

/// The weights of the linear model, one byte each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights([i8; WEIGHTS]);

static BUILT_IN: Weights = Weights::from_bytes(include_bytes!("../../config/route/weights.bin"));

impl Weights {
    /// The weights that ReedClaw was built with.
    #[must_use]
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// Reads weights as they are stored: one signed byte each.
    #[must_use]
    pub const fn from_bytes(bytes: &[u8; WEIGHTS]) -> Self {
        let mut weights = [0; WEIGHTS];
        let mut at = 0;
        while at < WEIGHTS {
            weights[at] = bytes[at].cast_signed();
            at += 1;
        }
        Self(weights)
    }

    /// The score of a line: above 0 speaks for the shell, below for the model.
    #[must_use]
    pub fn score(&self, features: &Features) -> f32 {
        let sum: i32 = features.list().iter().map(|(index, _)| i32::from(self.0[usize::from(*index)])).sum();
        sum as f32 * STEP
    }

    /// What one feature adds to the score.
    #[must_use]
    pub fn of(&self, index: u16) -> f32 {
        f32::from(self.0[usize::from(index)]) * STEP
    }

    /// Moves one weight by some steps. Those of options stay where they are: they must not fall below zero.
    pub fn shift(&mut self, index: u16, steps: i8) {
        if let Some(weight) = self.0.get_mut(usize::from(index)).filter(|_| usize::from(index) >= OPTION_WEIGHTS) {
            *weight = weight.saturating_add(steps);
        }
    }
}

/// Weights that one correction moves, by one step each: about one unit of the score for the line itself.
const CORRECTED_MAX: usize = 20;

/// The small correction of the weights that a line calls for which was sent to the other side.
#[must_use]
pub fn lesson(features: &Features, to_shell: bool) -> Vec<(u16, i8)> {
    let mut indexes: Vec<u16> = features.list().iter().map(|(index, _)| *index).collect();
    indexes.retain(|index| usize::from(*index) >= OPTION_WEIGHTS);
    indexes.sort_unstable();
    indexes.dedup();
    let stride = indexes.len().div_ceil(CORRECTED_MAX).max(1);
    indexes.into_iter().step_by(stride).map(|index| (index, if to_shell { 1 } else { -1 })).collect()
}
