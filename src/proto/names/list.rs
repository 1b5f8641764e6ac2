//! Thousands of names in little memory: one text, and a hash table of their positions.

/// A set of names, made once. With an allocation for each of the programs on `PATH`, the names would take a third of the shell's
/// memory.
#[derive(Clone, Debug, Default)]
pub struct NameList {
    /// All names, one after the other.
    text: String,
    /// The end of each name in the text.
    ends: Vec<u32>,
    /// Numbers of names, from 1, at the position of their hash or at the next free one; 0 is free. Its length is a power of two,
    /// and at least half of it is free.
    table: Vec<u32>,
}

impl NameList {
    /// Returns whether the set contains `name`.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    /// The names, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).map(|number| self.name(number))
    }

    /// The number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn name(&self, number: usize) -> &str {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[number] as usize]
    }

    /// The position of a name in the table.
    ///
    /// # Errors
    /// The free position for a name that isn't in the table; none in an empty table.
    fn place(&self, name: &str) -> Result<usize, Option<usize>> {
        let Some(mask) = self.table.len().checked_sub(1) else { return Err(None) };
        let mut at = hash(name) & mask;
        loop {
            match self.table[at].checked_sub(1) {
                None => return Err(Some(at)),
                Some(number) if self.name(number as usize) == name => return Ok(at),
                Some(_) => at = (at + 1) & mask,
            }
        }
    }
}

/// FNV-1a (draft-eastlake-fnv): fast for short names; an attacker who can name programs has no use for collisions.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are as good as all")]
fn hash(name: &str) -> usize {
    name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        as usize
}

impl<S: AsRef<str>> FromIterator<S> for NameList {
    /// Stores each name once. Names beyond four gigabytes of text are left out.
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let names: Vec<S> = names.into_iter().collect();
        let mut list = Self { table: vec![0; (2 * names.len()).next_power_of_two()], ..Self::default() };
        for name in &names {
            let Err(Some(free)) = list.place(name.as_ref()) else { continue };
            let (Ok(end), Ok(number)) =
                (u32::try_from(list.text.len() + name.as_ref().len()), u32::try_from(list.ends.len() + 1))
            else {
                break;
            };
            list.text.push_str(name.as_ref());
            list.ends.push(end);
            list.table[free] = number;
        }
        list.text.shrink_to_fit();
        list.ends.shrink_to_fit();
        list
    }
}

impl<S: AsRef<str>, const N: usize> From<[S; N]> for NameList {
    fn from(names: [S; N]) -> Self {
        names.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_list_has_no_name() {
        for list in [NameList::default(), NameList::from([""; 0])] {
            assert!(list.is_empty() && !list.contains("") && list.iter().next().is_none());
        }
    }

    proptest! {
        #[test]
        fn a_list_is_the_set_of_its_names(names in proptest::collection::vec("[a-c]{0,3}|.{0,12}", 0..200), other in "[a-c]{0,4}") {
            let (list, set): (NameList, BTreeSet<&str>) = (names.iter().collect(), names.iter().map(String::as_str).collect());
            prop_assert_eq!(list.iter().collect::<BTreeSet<_>>(), set.clone());
            prop_assert_eq!(list.len(), set.len());
            prop_assert!(names.iter().all(|name| list.contains(name)));
            prop_assert_eq!(list.contains(&other), set.contains(other.as_str()));
        }
    }
}
