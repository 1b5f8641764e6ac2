//! A vocabulary and the merging of a piece of text: the pair of lowest rank is merged first, until none is left. Its tokens stay
//! in the built-in data; the only run-time data is one table of offsets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A vocabulary: tokens in the order of their ranks, each after a byte with its length. A token's offset serves as its
/// rank, since both grow together.
pub(super) struct Vocabulary {
    tokens: &'static [u8],
    /// Places, found by hash and the next free slot; `EMPTY` if there is none.
    slots: Vec<u32>,
}

const EMPTY: u32 = u32::MAX;

impl Vocabulary {
    /// Indexes a vocabulary.
    pub(super) fn of(tokens: &'static [u8]) -> Self {
        let mut places = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            places.push(at as u32);
            at += 1 + usize::from(tokens[at]);
        }
        // Two slots a token at least, so that a free one is near.
        let mut vocabulary = Self { tokens, slots: vec![EMPTY; (places.len() * 2).next_power_of_two()] };
        for place in places {
            let slot = vocabulary.slot(vocabulary.token(place));
            vocabulary.slots[slot] = place;
        }
        vocabulary
    }

    /// Counts the tokens of one piece of text.
    pub(super) fn count(&self, piece: &[u8]) -> u64 {
        if piece.len() < 2 || self.rank(piece).is_some() {
            return u64::from(!piece.is_empty());
        }
        let end = piece.len();
        // A part is named by its start; `next` is its end and the start of the following part.
        let mut next: Vec<usize> = (1..=end).collect();
        let mut before: Vec<usize> = (0..end).map(|at| at.wrapping_sub(1)).collect();
        let pair = |next: &[usize], at: usize| {
            let middle = next[at];
            let stop = *next.get(middle)?;
            self.rank(&piece[at..stop]).map(|rank| Reverse((rank, at, stop)))
        };
        let mut pairs: BinaryHeap<_> = (0..end).filter_map(|at| pair(&next, at)).collect();
        let mut parts = end as u64;
        while let Some(Reverse((_, at, stop))) = pairs.pop() {
            let middle = next[at];
            // One of its parts has been merged since: such a part was marked as gone, or has another end.
            if middle == GONE || next.get(middle) != Some(&stop) {
                continue;
            }
            next[at] = stop;
            next[middle] = GONE;
            if let Some(behind) = before.get_mut(stop) {
                *behind = at;
            }
            parts -= 1;
            pairs.extend(pair(&next, at));
            if before[at] != GONE {
                pairs.extend(pair(&next, before[at]));
            }
        }
        parts
    }

    /// The rank of a token, or rather what grows with it.
    fn rank(&self, bytes: &[u8]) -> Option<u32> {
        Some(self.slots[self.slot(bytes)]).filter(|place| *place != EMPTY)
    }

    /// The slot that holds a token, or the free one for it.
    fn slot(&self, bytes: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash(bytes) & mask;
        while self.slots[slot] != EMPTY && self.token(self.slots[slot]) != bytes {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn token(&self, place: u32) -> &'static [u8] {
        let place = place as usize;
        &self.tokens[place + 1..place + 1 + usize::from(self.tokens[place])]
    }
}

const GONE: usize = usize::MAX;

/// FNV-1a, with its high bits mixed into the low ones, which are those that are used.
fn hash(bytes: &[u8]) -> usize {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let mixed = bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    (mixed ^ (mixed >> 32)) as usize
}
