//! Receipts from end to end: written, changed, cut, raced, killed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use super::*;

fn options(dir: &Path) -> Options {
    Options::new(dir.join(FILE_NAME), dir.join("state"))
}

fn entry(number: u64) -> Entry {
    Entry { conversation_id: Some(number), rule: Some("a-rule".into()), ..Entry::new("file_read", hash(b"{}"), "low") }
}

/// Two receipts a call.
fn write(log: &Log, calls: u64) {
    for number in 0..calls {
        let opened = log.intent(&entry(number)).unwrap();
        log.settle(opened, &Outcome::done(hash(b"result"))).unwrap();
    }
}

fn verdict(options: &Options) -> Verdict {
    verify(options, &Check::default()).unwrap().verdict
}

#[test]
fn calls_become_a_chain_that_verifies() {
    for hmac in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { hmac, ..options(dir.path()) };
        let log = Log::open(options.clone()).unwrap();
        write(&log, 100);
        log.denied(&Entry { risk: "blocked".into(), ..entry(7) }).unwrap();
        let opened = log.intent(&Entry { risk: "high".into(), ..entry(8) }).unwrap();
        log.settle(opened, &Outcome::failed(None)).unwrap();
        drop(log);
        let report = verify(&options, &Check::default()).unwrap();
        assert_eq!((&report.verdict, report.receipts), (&Verdict::Whole, 203), "{report:?}");
        assert_eq!((report.unknown.len(), report.notes.len()), (0, 0), "{report:?}");
        let head = report.head.unwrap();
        let noted = Check { expect_head: Some(head), ..Check::default() };
        write(&Log::open(options.clone()).unwrap(), 1);
        assert_eq!(verify(&options, &noted).unwrap().verdict, Verdict::Whole);
    }
}

#[test]
fn a_receipt_edited_by_hand_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let log = Log::open(options.clone()).unwrap();
    (0..3).for_each(|number| drop(log.denied(&entry(number)).unwrap()));
    let text = fs::read_to_string(&options.path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[1] = lines[1].replace("denied", "allowed");
    fs::write(&options.path, lines.join("\n") + "\n").unwrap();
    assert!(matches!(verdict(&options), Verdict::Broken { receipt: 2, .. }), "{:?}", verdict(&options));
}

/// A closed log of this number of denied calls.
fn closed(options: &Options, receipts: u64) -> Vec<u8> {
    let log = Log::open(options.clone()).unwrap();
    (0..receipts).for_each(|number| drop(log.denied(&entry(number)).unwrap()));
    drop(log);
    fs::read(&options.path).unwrap()
}

fn lines_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

#[test]
fn a_record_that_is_deleted_swapped_or_doubled_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let lines = lines_of(&closed(&options, 150));
    let broken_at = |lines: &[Vec<u8>]| {
        fs::write(&options.path, lines.concat()).unwrap();
        match verdict(&options) {
            Verdict::Broken { receipt, .. } => receipt,
            other => panic!("{other:?}"),
        }
    };
    for at in 0..lines.len() {
        let number = at as u64 + 1;
        let mut doubled = lines.clone();
        doubled.insert(at, lines[at].clone());
        assert_eq!(broken_at(&doubled), number + 1);
        if at + 1 < lines.len() {
            let mut deleted = lines.clone();
            deleted.remove(at);
            assert_eq!(broken_at(&deleted), number);
            let mut swapped = lines.clone();
            swapped.swap(at, at + 1);
            assert_eq!(broken_at(&swapped), number);
        }
    }
}

#[test]
fn a_rewritten_record_breaks_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let mut lines = lines_of(&closed(&options, 5));
    let mut record = record::Parsed::read(lines[1].trim_ascii_end()).unwrap().record.into_owned();
    record.risk = Some("high".into());
    lines[1] = record.line().0;
    fs::write(&options.path, lines.concat()).unwrap();
    assert!(matches!(verdict(&options), Verdict::Broken { receipt: 3, .. }), "{:?}", verdict(&options));
}

#[test]
fn an_outcome_settles_only_an_open_call() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    write(&Log::open(options.clone()).unwrap(), 1);
    let lines = lines_of(&fs::read(&options.path).unwrap());
    let mut again = record::Parsed::read(lines[1].trim_ascii_end()).unwrap();
    again.record.seq = 3;
    again.record.previous_hash = again.receipt_hash.to_owned().into();
    let forged = again.record.into_owned().line().0;
    fs::write(&options.path, [lines.concat(), forged].concat()).unwrap();
    assert!(matches!(verdict(&options), Verdict::Broken { receipt: 3, .. }), "{:?}", verdict(&options));
}

#[test]
fn a_log_cut_at_any_byte_is_reported_and_continues() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let whole = closed(&options, 12);
    let head = fs::read(options.head_path()).unwrap();
    let anchors = fs::read(options.anchors_path()).unwrap();
    let last_line = whole.len() - lines_of(&whole)[11].len();
    for cut in 0..=whole.len() {
        fs::write(&options.path, &whole[..cut]).unwrap();
        let code = verdict(&options).exit_code();
        let expected = match cut {
            _ if cut == whole.len() => 0,
            _ if cut > last_line => 8,
            _ => 9,
        };
        assert_eq!(code, expected, "cut at {cut}: {:?}", verdict(&options));
        // A log that continues after a cut notes it, and the cut can still be detected.
        if cut % 197 == 0 || cut == whole.len() || (cut > last_line && cut % 23 == 0) {
            write(&Log::open(options.clone()).unwrap(), 1);
            let report = verify(&options, &Check::default()).unwrap();
            assert_eq!(report.verdict.exit_code(), if cut == whole.len() { 0 } else { 9 }, "{cut} {report:?}");
            let text = fs::read_to_string(&options.path).unwrap();
            assert_eq!(text.contains("recovery"), cut != whole.len(), "{cut}");
            let torn = &whole[..cut][memchr::memrchr(b'\n', &whole[..cut]).map_or(0, |at| at + 1)..];
            let torn_parts: Vec<Vec<u8>> = fs::read_dir(options.torn_path())
                .map(|entries| entries.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect())
                .unwrap_or_default();
            assert_eq!(torn_parts.concat(), torn, "{cut}");
            let _ = fs::remove_dir_all(options.torn_path());
            fs::write(options.head_path(), &head).unwrap();
            fs::write(options.anchors_path(), &anchors).unwrap();
        }
    }
}

/// A second file for each intent made the call wait for the disk twice.
#[test]
fn an_intent_updates_the_head_file_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let log = Log::open(options.clone()).unwrap();
    let inode = || fs::metadata(options.head_path()).unwrap().ino();
    let head = || head::read(&options).unwrap().unwrap().seq;
    let _ = log.intent(&Entry { risk: "high".into(), ..entry(1) }).unwrap();
    let first = inode();
    for number in 2..=12 {
        let _ = log.intent(&Entry { risk: "high".into(), ..entry(number) }).unwrap();
        assert_eq!((inode(), head()), (first, number));
    }
    // A head file that is missing or was cut short is whole again after the next intent.
    for (number, damaged) in [(13, None), (14, Some(&b""[..])), (15, Some(&b"{\"hash\""[..]))] {
        match damaged {
            None => fs::remove_file(options.head_path()).unwrap(),
            Some(bytes) => fs::write(options.head_path(), bytes).unwrap(),
        }
        let _ = log.intent(&Entry { risk: "high".into(), ..entry(number) }).unwrap();
        assert_eq!(head(), number);
    }
    // An older head file, as after a power failure, isn't a sign of a cut.
    let older = fs::read(options.head_path()).unwrap();
    let _ = log.intent(&Entry { risk: "high".into(), ..entry(16) }).unwrap();
    fs::write(options.head_path(), older).unwrap();
    assert_eq!(verdict(&options), Verdict::Whole);
}

#[test]
fn an_older_copy_and_another_log_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let older = closed(&options, 5);
    let newer = closed(&options, 5);
    let noted = verify(&options, &Check::default()).unwrap().head;
    assert_eq!(lines_of(&newer).len(), 10);
    fs::write(&options.path, &older).unwrap();
    assert_eq!(verdict(&options).exit_code(), 9);
    // Without head file and anchors only a noted head reveals it.
    fs::remove_file(options.head_path()).unwrap();
    let anchors = fs::read(options.anchors_path()).unwrap();
    fs::remove_file(options.anchors_path()).unwrap();
    let blind = verify(&options, &Check::default()).unwrap();
    assert!(matches!(&blind.verdict, Verdict::Unconfirmed { why } if why.contains("cut off")), "{blind:?}");
    assert_eq!(blind.missing, ["head", "anchors"]);
    let check = Check { expect_head: noted, ..Check::default() };
    assert_eq!(verify(&options, &check).unwrap().verdict.exit_code(), 9);
    // Another whole log in the place of this one.
    let elsewhere = tempfile::tempdir().unwrap();
    let forged = closed(&Options::new(elsewhere.path().join("r"), elsewhere.path().into()), 12);
    fs::write(options.anchors_path(), &anchors).unwrap();
    fs::write(&options.path, &forged).unwrap();
    assert_eq!(verdict(&options).exit_code(), 9);
    fs::remove_file(&options.path).unwrap();
    assert_eq!(verdict(&options).exit_code(), 9);
    // The same log with another end: the anchors know better.
    fs::write(&options.path, lines_of(&newer)[..3].concat()).unwrap();
    closed(&options, 20);
    assert_eq!(verdict(&options).exit_code(), 9);
}

#[test]
fn a_sealed_log_cannot_be_rewritten_or_continued_after_a_cut() {
    let dir = tempfile::tempdir().unwrap();
    let plain = options(dir.path());
    let sealing = Options { hmac: true, ..plain.clone() };
    closed(&plain, 3);
    let whole = closed(&sealing, 200);
    let report = verify(&sealing, &Check::default()).unwrap();
    assert_eq!((&report.verdict, report.receipts), (&Verdict::Whole, 204), "{report:?}");
    // A log that was sealed once stays sealed, whatever the setting.
    closed(&plain, 1);
    assert_eq!(verdict(&plain), Verdict::Whole);
    assert!(fs::read_to_string(&plain.path).unwrap().lines().last().unwrap().contains("\"mac\""));
    // Without the key the seals can't be checked, and the report says so.
    let log_id = report.log_id.unwrap();
    let usual = plain.verification_key_path(&log_id);
    let away = dir.path().join("away.json");
    fs::rename(&usual, &away).unwrap();
    let report = verify(&plain, &Check::default()).unwrap();
    assert_eq!((report.verdict, report.notes.len(), report.warnings.len()), (Verdict::Whole, 0, 1));
    let check = Check { key: Some(away), ..Check::default() };
    let report = verify(&plain, &check).unwrap();
    assert_eq!((report.verdict, report.notes.len(), report.warnings.len()), (Verdict::Whole, 0, 0));
    // A key that can't be read checks nothing, and says so.
    for wrong in [dir.path().join("mistyped.json"), plain.path.clone()] {
        let refused = verify(&plain, &Check { key: Some(wrong), ..Check::default() }).unwrap_err();
        assert_eq!(refused.kind, ReceiptErrorKind::NamedKey);
    }
    // That of another log, and of one that is gone, neither.
    let third = tempfile::tempdir().unwrap();
    for other in [Options::new(third.path().join("r"), third.path().into()), options(&third.path().join("none"))] {
        if other.path.parent().unwrap().exists() {
            closed(&other, 3);
        }
        let report = verify(&other, &check).unwrap();
        assert!(matches!(&report.verdict, Verdict::Unconfirmed { why } if why.contains("another log")), "{report:?}");
    }
    // The key has moved on: a log that was cut into an older epoch takes no more.
    fs::write(&plain.path, lines_of(&whole)[..70].concat()).unwrap();
    let refused = Log::open(plain.clone()).unwrap().denied(&entry(1)).unwrap_err();
    assert_eq!(refused.kind, ReceiptErrorKind::Key);
    // All hashes are right, but without seals: the key shows that there must be seals.
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Options::new(plain.path.clone(), elsewhere.path().into());
    for name in [&plain.path, &plain.head_path()] {
        fs::remove_file(name).unwrap();
    }
    closed(&other, 10);
    let text = fs::read_to_string(&plain.path).unwrap();
    let mut previous = record::NO_HASH.to_owned();
    let forged: Vec<u8> = text
        .lines()
        .flat_map(|line| {
            let mut record = record::Parsed::read(line.as_bytes()).unwrap().record.into_owned();
            record.log_id = log_id.clone().into();
            record.previous_hash = previous.clone().into();
            let (line, hash) = record.line();
            previous = hash;
            line
        })
        .collect();
    fs::write(&plain.path, forged).unwrap();
    let blind = Options { state: elsewhere.path().into(), ..plain.clone() };
    fs::remove_file(blind.anchors_path()).unwrap();
    fs::remove_file(plain.head_path()).unwrap();
    assert_eq!(verify(&blind, &Check::default()).unwrap().missing, ["head", "anchors"]);
    let report = verify(&blind, &check).unwrap().verdict;
    assert!(matches!(report, Verdict::Broken { receipt: 4, .. }), "{report:?}");
}

#[test]
fn a_changed_end_takes_no_more_receipts() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let bytes = closed(&options, 3);
    for change in [b"x", b"\0"] {
        let mut changed = bytes.clone();
        let at = changed.len() - 20;
        changed[at..=at].copy_from_slice(change);
        fs::write(&options.path, &changed).unwrap();
        let refused = Log::open(options.clone()).unwrap().intent(&entry(1)).unwrap_err();
        assert_eq!(refused.kind, ReceiptErrorKind::Broken);
        assert_eq!(fs::read(&options.path).unwrap(), changed);
        assert!(matches!(verdict(&options), Verdict::Broken { receipt: 3, .. }));
    }
}

#[test]
fn a_log_that_is_moved_away_while_it_is_open_goes_on_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let log = Log::open(options.clone()).unwrap();
    write(&log, 3);
    log.anchor().unwrap();
    fs::rename(&options.path, dir.path().join("away")).unwrap();
    write(&log, 1);
    let text = fs::read_to_string(&options.path).unwrap();
    assert_eq!(text.lines().count(), 3, "a recovery, an intent, its outcome");
    assert!(text.contains("log-missing") && text.contains("had 6 receipts"), "{text}");
    drop(log);
    // Until the anchors are moved away too, the old log is missed.
    assert_eq!(verdict(&options).exit_code(), 9);
    fs::remove_file(options.anchors_path()).unwrap();
    assert_eq!(verify(&options, &Check::default()).unwrap().missing, ["anchors"]);
    // The next session creates new ones.
    closed(&options, 1);
    assert_eq!(verdict(&options), Verdict::Whole);
}

/// `verify` said "all hold" of a sealed log of which 12 of 16 receipts had been cut off, with the head and the anchors.
#[test]
fn a_cut_log_without_head_and_anchors_is_not_called_whole_and_the_next_session_notes_it() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { hmac: true, ..options(dir.path()) };
    let whole = closed(&options, 16);
    fs::write(&options.path, lines_of(&whole)[..4].concat()).unwrap();
    for path in [options.head_path(), options.anchors_path()] {
        fs::remove_file(path).unwrap();
    }
    let report = verify(&options, &Check::default()).unwrap();
    assert_eq!((report.verdict.exit_code(), report.receipts), (9, 4), "{report:?}");
    closed(&options, 1);
    let report = verify(&options, &Check::default()).unwrap();
    assert!(report.notes.iter().any(|note| note.contains("head-missing: the log has 4 receipts")), "{report:?}");
}

#[test]
fn an_open_intent_is_reported_after_its_session_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let (one, two) = (Log::open(options.clone()).unwrap(), Log::open(options.clone()).unwrap());
    let opened = one.intent(&entry(1)).unwrap();
    let id = opened.id().to_string();
    assert_eq!((one.open_intents().unwrap(), two.open_intents().unwrap()), (vec![], vec![]), "it may still run");
    drop((one, opened));
    let report = two.open_intents().unwrap();
    assert_eq!((report.len(), report[0].seq, &report[0].id, report[0].tool.as_str()), (1, 1, &id, "file_read"));
    assert_eq!(verify(&options, &Check::default()).unwrap().unknown, report);
    assert_eq!(find(&options, &id).unwrap(), find(&options, "1").unwrap());
    assert_eq!(find(&options, "receipt-0").unwrap(), None);
}

#[test]
fn an_open_call_of_a_killed_session_is_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    assert_eq!(take_unknown(&options).unwrap(), [], "no log");
    let (one, two) = (Log::open(options.clone()).unwrap(), Log::open(options.clone()).unwrap());
    let (first, settled) = (one.intent(&entry(1)).unwrap(), two.intent(&entry(2)).unwrap());
    let id = first.id().to_string();
    assert_eq!(take_unknown(&options).unwrap(), [], "both may still run");
    two.settle(settled, &Outcome::done(hash(b""))).unwrap();
    drop((one, first));
    let ids = |report: Vec<OpenIntent>| report.into_iter().map(|open| open.id).collect::<Vec<_>>();
    assert_eq!(ids(take_unknown(&options).unwrap()), std::slice::from_ref(&id));
    assert_eq!(take_unknown(&options).unwrap(), [], "once");
    let left = two.intent(&entry(3)).unwrap();
    let later = left.id().to_string();
    drop((two, left));
    // A line that isn't whole is read when it is.
    let whole = fs::read(&options.path).unwrap();
    fs::write(&options.path, &whole[..whole.len() - 9]).unwrap();
    assert_eq!(take_unknown(&options).unwrap(), []);
    fs::write(&options.path, &whole).unwrap();
    assert_eq!(ids(take_unknown(&options).unwrap()), std::slice::from_ref(&later));
    // Another log is read from its start, a broken note too.
    fs::write(options.state.join("receipts-told.json"), "{").unwrap();
    assert_eq!(ids(take_unknown(&options).unwrap()), [id, later]);
}

#[test]
fn a_clock_that_goes_back_is_only_a_note() {
    static NOW: AtomicI64 = AtomicI64::new(1_795_000_000_000);
    let dir = tempfile::tempdir().unwrap();
    let options = Options { clock: || NOW.load(Ordering::SeqCst), ..options(dir.path()) };
    closed(&options, 2);
    NOW.fetch_sub(86_400_000, Ordering::SeqCst);
    closed(&options, 2);
    let report = verify(&options, &Check::default()).unwrap();
    assert_eq!((report.verdict, report.receipts), (Verdict::Whole, 4));
    assert!(report.notes[0].contains("receipt 3"), "{:?}", report.notes);
}

#[test]
fn long_and_strange_texts_are_cut_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let log = Log::open(options.clone()).unwrap();
    let strange = "\u{1}\"\\\n\u{1b}[2J\u{202e}é".repeat(100);
    let entry = Entry {
        tool: strange.clone(),
        args_hash: strange.clone(),
        risk: strange.clone(),
        approver: Some(strange.clone()),
        rule: Some(strange.clone()),
        sandbox: Some(strange.clone()),
        outside: Some(strange.clone()),
        conversation_id: Some(u64::MAX),
    };
    let opened = log.intent(&entry).unwrap();
    log.settle(opened, &Outcome::done(strange.clone())).unwrap();
    log.denied(&entry).unwrap();
    assert_eq!(verdict(&options), Verdict::Whole);
    let stored = newest(&options, 1).unwrap().remove(0);
    assert_eq!(stored.number, 3);
    assert!(strange.starts_with(&*stored.record.unwrap().tool.unwrap()));
    assert!(stored.line.len() < LINE_BYTES_MAX);
}

#[test]
fn anchors_come_often_enough() {
    static NOW: AtomicI64 = AtomicI64::new(0);
    let dir = tempfile::tempdir().unwrap();
    let options = Options { clock: || NOW.load(Ordering::SeqCst), ..options(dir.path()) };
    let anchors = || fs::read_to_string(options.anchors_path()).map_or(0, |text| text.lines().count());
    let log = Log::open(options.clone()).unwrap();
    write(&log, 31);
    assert_eq!(anchors(), 1, "before the first receipt");
    write(&log, 1);
    assert_eq!(anchors(), 2, "after 64 receipts");
    NOW.store(ANCHOR_EVERY_MS, Ordering::SeqCst);
    write(&log, 1);
    assert_eq!(anchors(), 3, "after ten minutes");
    drop(log);
    assert_eq!(anchors(), 4, "at the end");
    drop(Log::open(options.clone()).unwrap());
    assert_eq!(anchors(), 4, "where nothing was written");
}

#[test]
fn only_a_plain_file_is_accepted_as_log() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let log = Log::open(options.clone()).unwrap();
    std::os::unix::fs::symlink(dir.path().join("elsewhere"), &options.path).unwrap();
    assert_eq!(log.intent(&entry(1)).unwrap_err().kind, ReceiptErrorKind::Access);
    assert!(!dir.path().join("elsewhere").exists());
    fs::remove_file(&options.path).unwrap();
    nix::unistd::mkfifo(&options.path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(log.intent(&entry(1)).unwrap_err().kind, ReceiptErrorKind::Access);
    assert!(verify(&options, &Check::default()).is_err());
}
