//! Ids and secrets: UUIDs of version 7, and random text in base 32.

use ring::rand::{SecureRandom, SystemRandom};

use crate::base::hex;
use crate::host;

/// Letters of secrets: RFC 4648's base 32, without those that look like digits.
const LETTERS: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// Makes a UUID of version 7: the time comes first, so that new rows are next to each other.
#[must_use]
pub fn uuid_v7() -> String {
    uuids_v7(1).swap_remove(0)
}

/// Makes several: the kernel is asked once for all of them.
#[must_use]
pub fn uuids_v7(count: usize) -> Vec<String> {
    let mut random = vec![0_u8; count * 16];
    fill(&mut random);
    let time = u64::try_from(host::now_unix_ms()).unwrap_or_default().to_be_bytes();
    let (ids, _) = random.as_chunks_mut::<16>();
    let id = |bytes: &mut [u8; 16]| {
        bytes[..6].copy_from_slice(&time[2..]);
        bytes[6] = bytes[6] & 0x0f | 0x70;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let mut text = hex::encode(bytes);
        for at in [20, 16, 12, 8] {
            text.insert(at, '-');
        }
        text
    };
    ids.iter_mut().map(id).collect()
}

/// Makes random text of `length` letters, five bits each.
#[must_use]
pub fn random_text(length: usize) -> String {
    let mut bytes = vec![0_u8; length];
    fill(&mut bytes);
    bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte & 31)])).collect()
}

fn fill(bytes: &mut [u8]) {
    // The kernel's generator doesn't fail once the machine has started; a guessable secret would be worse than no gateway.
    SystemRandom::new().fill(bytes).expect("random bytes of the system");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_of_version_7_and_differ() {
        let (one, other) = (uuid_v7(), uuid_v7());
        assert_ne!(one, other);
        assert_eq!((one.len(), &one[14..15]), (36, "7"));
        assert!("89ab".contains(&one[19..20]), "{one}");
        assert_eq!(random_text(26).len(), 26);
        assert_ne!(random_text(26), random_text(26));
    }
}
