//! SHA-256 of bytes, as 32 bytes and as hexadecimal text. Knows no files and no keys.

use sha2::{Digest, Sha256};

use super::hex;

/// A hash that is computed piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Starts a hash.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Finishes the hash, as 64 hexadecimal digits.
    #[must_use]
    pub fn finish_hex(self) -> String {
        hex::encode(&self.0.finalize())
    }
}

/// Hashes bytes.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Hashes bytes, as 64 hexadecimal digits.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(&sha256(bytes))
}

/// The name under which the state directory stores data about a path: half of the path's hash, 32 digits.
#[must_use]
pub fn path_name(path: &std::path::Path) -> String {
    hex::encode(&sha256(path.as_os_str().as_encoded_bytes())[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        // FIPS 180-4's examples.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b"abc"), abc);
        assert_eq!(sha256_hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        let mut hasher = Hasher::new();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish_hex(), abc);
        assert_eq!(path_name(std::path::Path::new("abc")), abc[..32]);
    }
}
