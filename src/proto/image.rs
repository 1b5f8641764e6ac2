//! A picture that goes with a question.

/// A picture: its name, its format, its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    name: String,
    format: &'static str,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.mark())
    }
}

impl Image {
    /// File name extensions of pictures.
    pub const ENDS: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];

    /// Makes a picture from a file's content; `None` if it has none of the formats that models accept. The first bytes decide,
    /// not the name.
    #[must_use]
    pub fn of(name: &str, bytes: Vec<u8>) -> Option<Self> {
        let format = match bytes.as_slice() {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => "png",
            [0xff, 0xd8, 0xff, ..] => "jpeg",
            [b'G', b'I', b'F', b'8', ..] => "gif",
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "webp",
            _ => return None,
        };
        let name = name.chars().map(|c| if c.is_control() || c == ']' { '?' } else { c }).collect();
        Some(Self { name, format, bytes })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its format: `png`, `jpeg`, `gif` or `webp`.
    #[must_use]
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// Its content.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The line that represents it in a question. A picture is sent with the message that contains its mark, so it goes wherever
    /// that text goes, and leaves the conversation with it.
    #[must_use]
    pub fn mark(&self) -> String {
        // FNV-1a: two pictures of one name have different marks.
        let hash =
            self.bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        format!("[picture {}, {}, {} KiB, {hash:08x}]", self.name, self.format, self.bytes.len().div_ceil(1024))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_recognised_by_its_first_bytes() {
        let png = b"\x89PNG\r\n\x1a\n0000".to_vec();
        let image = Image::of("a]\nb.jpg", png.clone()).expect("a picture");
        assert_eq!((image.format(), image.name()), ("png", "a??b.jpg"));
        assert_ne!(image.mark(), Image::of("a]\nb.jpg", [&png[..], b"1"].concat()).expect("a picture").mark());
        assert!(Image::of("x.png", b"PNG".to_vec()).is_none());
        assert_eq!(Image::of("x", b"RIFF0000WEBPVP8 ".to_vec()).map(|it| it.format()), Some("webp"));
    }
}
