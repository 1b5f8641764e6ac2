//! The bounded copy of one command's output: the first bytes, and the last ones in a ring.

use crate::proto::Capture;

/// Stores head and tail of a stream of any length in bounded memory.
#[derive(Debug)]
pub struct Recorder {
    head: Vec<u8>,
    head_bytes_max: usize,
    tail: Vec<u8>,
    tail_bytes_max: usize,
    /// Position of the next byte, once the tail is full.
    tail_next: usize,
    omitted_bytes: u64,
}

impl Recorder {
    /// Makes an empty recorder; memory is allocated as output arrives.
    #[must_use]
    pub fn new(head_bytes_max: usize, tail_bytes_max: usize) -> Self {
        Self { head: Vec::new(), head_bytes_max, tail: Vec::new(), tail_bytes_max, tail_next: 0, omitted_bytes: 0 }
    }

    /// Records more output.
    pub fn push(&mut self, bytes: &[u8]) {
        let to_head = bytes.len().min(self.head_bytes_max - self.head.len());
        self.head.extend_from_slice(&bytes[..to_head]);
        self.push_tail(&bytes[to_head..]);
    }

    fn push_tail(&mut self, mut bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let room = self.tail_bytes_max - self.tail.len();
        let fill = bytes.len().min(room);
        self.tail.extend_from_slice(&bytes[..fill]);
        bytes = &bytes[fill..];
        self.omitted_bytes += bytes.len() as u64;
        if self.tail_bytes_max == 0 {
            return;
        }
        if bytes.len() > self.tail_bytes_max {
            bytes = &bytes[bytes.len() - self.tail_bytes_max..];
        }
        while !bytes.is_empty() {
            let run = bytes.len().min(self.tail_bytes_max - self.tail_next);
            self.tail[self.tail_next..self.tail_next + run].copy_from_slice(&bytes[..run]);
            self.tail_next = (self.tail_next + run) % self.tail_bytes_max;
            bytes = &bytes[run..];
        }
    }

    /// Removes everything from the last occurrence of `text` on from the recording, and returns it.
    pub fn forget_from(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let Capture { head, tail, omitted_bytes } = self.take();
        let head_bytes = head.len();
        let mut all = [head, tail].concat();
        let forgotten = memchr::memmem::rfind(&all, text).map(|at| all.split_off(at));
        self.tail = all.split_off(head_bytes.min(all.len()));
        (self.head, self.omitted_bytes) = (all, omitted_bytes);
        forgotten
    }

    /// Ends the recording and starts an empty one.
    pub fn take(&mut self) -> Capture {
        let mut tail = std::mem::take(&mut self.tail);
        tail.rotate_left(self.tail_next);
        self.tail_next = 0;
        Capture { head: std::mem::take(&mut self.head), tail, omitted_bytes: std::mem::take(&mut self.omitted_bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn head_and_tail_are_the_ends_of_what_came(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
            head in 0usize..30, tail in 0usize..30,
        ) {
            let all: Vec<u8> = pieces.concat();
            let mut recorder = Recorder::new(head, tail);
            for piece in &pieces {
                recorder.push(piece);
            }
            let capture = recorder.take();
            let head_len = all.len().min(head);
            let rest = &all[head_len..];
            let tail_len = rest.len().min(tail);
            prop_assert_eq!(&capture.head[..], &all[..head_len]);
            prop_assert_eq!(&capture.tail[..], &rest[rest.len() - tail_len..]);
            prop_assert_eq!(capture.omitted_bytes as usize, rest.len() - tail_len);
            prop_assert_eq!(recorder.take(), Capture::default());
        }
    }

    #[test]
    fn forget_from_cuts_the_end_of_the_recording() {
        for (head, tail) in [(100, 100), (6, 100), (0, 100), (100, 0), (4, 12)] {
            let mut recorder = Recorder::new(head, tail);
            recorder.push(b"a> out");
            recorder.push(b"put\r\na> typed");
            assert_eq!(recorder.forget_from(b"a> ").as_deref(), Some(&b"a> typed"[..]), "{head} {tail}");
            assert_eq!(recorder.forget_from(b"nothing"), None);
            recorder.push(b"more");
            let capture = recorder.take();
            let all = [capture.head, capture.tail].concat();
            assert!(all.ends_with(b"ut\r\nmore"), "{head} {tail}: {}", String::from_utf8_lossy(&all));
        }
    }
}
