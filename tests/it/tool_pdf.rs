//! The text of PDF files, as `reedclaw tool` reads it.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::tool::{SECRET, call, home, is_refused};

/// A PDF with a page for each text.
fn pdf(pages: &[&str]) -> Vec<u8> {
    let kids: Vec<String> = (0..pages.len()).map(|at| format!("{} 0 R", 4 + 2 * at)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
    ];
    for (at, text) in pages.iter().enumerate() {
        let stream = format!("BT /F1 24 Tf 72 700 Td ({text}) Tj ET");
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {} 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
            5 + 2 * at
        ));
        objects.push(format!("<< /Length {} >>\nstream\n{stream}\nendstream", stream.len()));
    }
    let mut file = "%PDF-1.4\n".to_owned();
    let mut places = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        places.push(file.len());
        file.push_str(&format!("{} 0 obj\n{object}\nendobj\n", at + 1));
    }
    let table = file.len();
    file.push_str(&format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1));
    places.iter().for_each(|place| file.push_str(&format!("{place:010} 00000 n \n")));
    file.push_str(&format!("trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n", objects.len() + 1));
    file.into_bytes()
}

#[test]
fn the_text_of_a_pdf_is_read_page_by_page() {
    let home = home();
    fs::write(home.path().join("ws/three.pdf"), pdf(&["First page", "Second page", "Third page"])).expect("a PDF");
    let read = |arguments: Value| call(home.path(), "pdf_extract", &arguments, &["--yes"]);
    let (code, result) = read(json!({"path": "three.pdf"}));
    assert_eq!(code, Some(0), "{result}");
    let text = result["output"].as_str().expect("text");
    for part in ["[page 1]\nFirst page", "[page 2]\nSecond page", "[page 3]\nThird page"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(result["metadata"]["pages"], 3);
    let (_, result) = read(json!({"path": "three.pdf", "pages": "2-"}));
    assert!(!result["output"].as_str().expect("text").contains("First page") && result["metadata"]["shown"] == 2);
    let (code, result) = call(home.path(), "pdf_read", &json!({"path": "three.pdf", "pages": "3"}), &["--yes"]);
    assert_eq!((code, result["output"].as_str()), (Some(0), Some("[page 3]\nThird page\n")), "by its other name");

    fs::write(home.path().join("ws/empty.pdf"), pdf(&[""])).expect("a PDF");
    fs::write(home.path().join("ws/cut.pdf"), &pdf(&["x"])[..200]).expect("half a PDF");
    // Pages that contain themselves, and a stream that claims to be much longer than the file.
    let round = String::from_utf8(pdf(&["x"])).expect("text").replace("/Kids [4 0 R]", "/Kids [2 0 R]");
    fs::write(home.path().join("ws/round.pdf"), round).expect("a PDF");
    fs::write(home.path().join("ws/noise.pdf"), [b"%PDF-1.7\n".as_slice(), &[0xab; 4000]].concat()).expect("noise");
    fs::write(home.path().join("outside.pdf"), pdf(&[SECRET])).expect("a PDF");
    symlink("../outside.pdf", home.path().join("ws/link.pdf")).expect("a link");
    for (path, expected) in [
        ("a.txt", "not-pdf"),
        ("missing.pdf", "not-found"),
        ("empty.pdf", "no-text"),
        ("cut.pdf", "unreadable"),
        ("noise.pdf", "unreadable"),
    ] {
        let (code, result) = read(json!({"path": path}));
        assert_eq!((code, &result["error"]["code"]), (Some(1), &json!(expected)), "{path} {result}");
    }
    for path in ["round.pdf", "link.pdf", "../outside.pdf", "fifo"] {
        let (code, result) = read(json!({"path": path}));
        assert!(is_refused(code, &result), "{path} {result}");
    }
    let (code, result) = read(json!({"path": "three.pdf", "pages": "x"}));
    assert!(code == Some(1) && result["error"]["code"] == "bad-arguments", "{result}");
    let (code, result) = read(json!({"path": "three.pdf", "pages": "7"}));
    assert!(code == Some(1) && result["error"]["code"] == "bad-range", "{result}");
}
