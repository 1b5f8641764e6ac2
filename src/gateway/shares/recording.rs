//! A recording as asciicast, version 3: lines of JSON for terminal players. The model's events, which players ignore, are lines
//! of the type `x-reedclaw`; before the marker of a line that isn't a plain shell line, one of them names its route.

use serde_json::{Value, json};

/// The first line.
pub fn head(row: &Value, started_s: i64) -> String {
    let term = json!({"cols": row["cols"], "rows": row["rows"]});
    format!("{}\n", json!({"version": 3, "term": term, "timestamp": started_s, "title": row["title"]}))
}

/// Turns frames into lines, those between two times in milliseconds. Times in a line count from the line before.
pub struct Lines {
    from: u64,
    to: u64,
    last: u64,
    at: u64,
}

impl Lines {
    /// Makes a converter for the frames between two times.
    pub fn between(from_ms: u64, to_ms: u64) -> Self {
        Self { from: from_ms, to: to_ms, last: from_ms, at: 0 }
    }

    /// The lines of a piece of a recording.
    pub fn of(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for frame in piece.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            // A frame without a time has the time of the previous frame.
            self.at = frame["at_ms"].as_u64().unwrap_or(self.at).max(self.at);
            if self.at < self.from || self.at > self.to {
                continue;
            }
            for (code, data) in events(&frame) {
                let interval = (self.at - self.last.min(self.at)) as f64 / 1_000.0;
                self.last = self.at;
                out.push_str(&format!("{}\n", json!([interval, code, data])));
            }
        }
        out
    }
}

fn events(frame: &Value) -> Vec<(&'static str, Value)> {
    let output = || ("o", frame["d"].clone());
    match frame["k"].as_str() {
        Some("o") => vec![output()],
        Some("l") => {
            let is_plain = frame["hidden"] != true && matches!(frame["to"].as_str(), None | Some("shell"));
            let about = json!({"k": "l", "to": frame["to"], "hidden": frame["hidden"] == true});
            let about = (!is_plain).then(|| ("x-reedclaw", about.to_string().into()));
            about.into_iter().chain([("m", frame["text"].clone()), output()]).collect()
        }
        Some("r") => vec![("r", format!("{}x{}", frame["cols"], frame["rows"]).into())],
        Some("c" | "e" | "q" | "a" | "g") => {
            let mut event = frame.clone();
            if let Some(fields) = event.as_object_mut() {
                fields.remove("at_ms");
            }
            vec![("x-reedclaw", event.to_string().into())]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_asciicast_with_times_between_its_lines() {
        let head = head(&json!({"cols": 80, "rows": 24, "title": "work"}), 1_700_000_000);
        let head: Value = serde_json::from_str(&head).expect("JSON");
        assert_eq!((&head["version"], &head["term"]["cols"], &head["title"]), (&json!(3), &json!(80), &json!("work")));
        let piece = "{\"k\":\"l\",\"text\":\"ls\",\"d\":\"> ls\\r\\n\",\"at_ms\":1000}\n{\"k\":\"o\",\"d\":\"file\\r\\n\",\"at_ms\":1250}\n\
                     {\"k\":\"o\",\"d\":\"held\"}\n{\"k\":\"c\",\"status\":0,\"at_ms\":1500}\n{\"k\":\"r\",\"cols\":100,\"rows\":30,\"at_ms\":2000}\n";
        let all = Lines::between(0, u64::MAX).of(piece);
        assert_eq!(
            all,
            "[1.0,\"m\",\"ls\"]\n[0.0,\"o\",\"> ls\\r\\n\"]\n[0.25,\"o\",\"file\\r\\n\"]\n[0.0,\"o\",\"held\"]\n\
             [0.25,\"x-reedclaw\",\"{\\\"k\\\":\\\"c\\\",\\\"status\\\":0}\"]\n[0.5,\"r\",\"100x30\"]\n"
        );
        let more = "{\"k\":\"l\",\"text\":\"hi\",\"to\":\"model\",\"d\":\"? hi\",\"at_ms\":0}\n\
                     {\"k\":\"l\",\"text\":\"\",\"to\":\"shell\",\"hidden\":true,\"d\":\"…\",\"at_ms\":0}\n";
        assert_eq!(
            Lines::between(0, u64::MAX).of(more),
            "[0.0,\"x-reedclaw\",\"{\\\"hidden\\\":false,\\\"k\\\":\\\"l\\\",\\\"to\\\":\\\"model\\\"}\"]\n[0.0,\"m\",\"hi\"]\n[0.0,\"o\",\"? hi\"]\n\
             [0.0,\"x-reedclaw\",\"{\\\"hidden\\\":true,\\\"k\\\":\\\"l\\\",\\\"to\\\":\\\"shell\\\"}\"]\n[0.0,\"m\",\"\"]\n[0.0,\"o\",\"…\"]\n"
        );
        let part = Lines::between(1_200, 1_400).of(piece);
        assert_eq!(part, "[0.05,\"o\",\"file\\r\\n\"]\n[0.0,\"o\",\"held\"]\n");
    }
}
