//! Indices of each version, whole and damaged.

use super::*;

/// An index of each version, with two paths that have a common prefix.
fn index_of(version: u8, id_bytes: usize) -> Vec<u8> {
    let mut index = [b"DIRC\0\0\0", &[version][..], b"\0\0\0\x02"].concat();
    for (path, dropped) in [("deep/er/one", 0), ("deep/er/two", 3_u8)] {
        let begin = index.len();
        (0..10_u32).for_each(|number| index.extend(number.to_be_bytes()));
        index.extend(vec![7; id_bytes]);
        index.extend(if version == 3 { &[0x40, 0, 0x20, 0][..] } else { &[0x80, 0] });
        if version == 4 {
            index.push(dropped);
            index.extend(&path.as_bytes()[if dropped == 0 { 0 } else { path.len() - 3 }..]);
            index.push(0);
        } else {
            index.extend(path.as_bytes());
            index.resize(begin + ((index.len() - begin) / 8 + 1) * 8, 0);
        }
    }
    index.extend(b"TREE\0\0\0\x02ab");
    index.extend(vec![0; id_bytes]);
    index
}

fn paths(index: &[u8], id_bytes: usize) -> (Vec<String>, bool) {
    let Some(mut entries) = Entries::of(index, id_bytes) else { return (Vec::new(), false) };
    let mut found = Vec::new();
    while let Some(entry) = entries.next_entry() {
        found.push(String::from_utf8_lossy(entry.path).into_owned());
    }
    let _ = entries.cached_trees();
    (found, entries.is_whole())
}

#[test]
fn each_version_is_read() {
    for (version, id_bytes, flags) in [(2, 20, [0x8000, 0]), (3, 32, [0, 0x2000]), (4, 20, [0x8000, 0])] {
        let index = index_of(version, id_bytes);
        assert_eq!(paths(&index, id_bytes), (vec!["deep/er/one".into(), "deep/er/two".into()], true), "{version}");
        let mut entries = Entries::of(&index, id_bytes).expect("an index");
        let entry = entries.next_entry().expect("an entry");
        let stat = Stat { changed: [0, 1], modified: [2, 3], inode: 5, size: 9 };
        assert_eq!((entry.stat, entry.mode, entry.flags), (stat, 6, flags), "{version}");
        assert_eq!(entry.id, vec![7; id_bytes], "{version}");
    }
}

#[test]
fn a_split_or_shortened_index_is_not_whole() {
    let whole = index_of(2, 20);
    let mut split = whole.clone();
    let at = split.len() - 30;
    split[at..at + 4].copy_from_slice(SPLIT);
    assert!(!paths(&split, 20).1);
    // An index that is cut after its entries differs from a complete one only in its checksum.
    let end = whole.len() - 10;
    for length in (0..whole.len()).filter(|length| *length != end) {
        assert!(!paths(&whole[..length], 20).1, "{length}");
    }
}

/// Changes each byte of each version to values that make numbers large, and removes pieces.
#[test]
fn damaged_indices_are_read_without_harm() {
    for version in 2..=4 {
        let whole = index_of(version, 20);
        for at in 0..whole.len() {
            for value in [0, 1, 0x40, 0x7f, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let _ = paths(&damaged, 20);
                let _ = paths(&damaged[at..], 20);
                damaged.truncate(at);
                let _ = paths(&damaged, 20);
            }
        }
        let huge = [&whole[..8], &[0xff; 4], &whole[12..]].concat();
        assert_eq!(paths(&huge, 20).0.len(), 2, "{version}");
    }
}

#[test]
fn trees_of_directories_are_read_with_their_paths() {
    let record = |name: &str, entries: i64, subtrees: usize| format!("{name}\0{entries} {subtrees}\n").into_bytes();
    let id = |byte: u8| vec![byte; 20];
    let whole = [
        [record("", 3, 2), id(1)].concat(),
        record("a", -1, 1),
        [record("b\n", 1, 0), id(2)].concat(),
        [record("c", 1, 0), id(3)].concat(),
    ]
    .concat();
    let expected = vec![(Vec::new(), &[1; 20][..]), (b"a/b\n".to_vec(), &[2; 20]), (b"c".to_vec(), &[3; 20])];
    assert_eq!(trees_of(&whole, 20), Some(expected));
    for length in 1..whole.len() {
        assert_eq!(trees_of(&whole[..length], 20), None, "{length}");
    }
    // Thousands of nested directories would make paths that take much time.
    let deep = record("name", -1, 1).repeat(100_000);
    assert_eq!(trees_of(&deep, 20), None);
}
