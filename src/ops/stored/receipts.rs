//! The receipts of tool calls: where the log is, whether it holds, and a report about that. It must not know how a report is
//! printed.

use crate::app;
use crate::base::text::counted;
use crate::config::{Env, ReceiptSettings, Settings};
use crate::proto::Failure;
use crate::receipts::{self, Check, Options, Report, Tally, Verdict};

/// The log of a user, even if receipts are switched off now.
///
/// # Errors
/// There is no state directory.
pub fn log(settings: &Settings, env: &Env) -> Result<Option<Options>, Failure> {
    let receipts = ReceiptSettings { enabled: true, ..settings.receipts.clone() };
    app::receipt_options(&Settings { receipts, ..settings.clone() }, env)
}

/// The whole log, checked.
#[derive(Debug)]
pub struct Checked {
    /// The place of the log.
    pub options: Options,
    /// The result.
    pub report: Report,
}

impl Checked {
    /// Checks every receipt of a log.
    ///
    /// # Errors
    /// The log can't be read.
    pub fn of(options: Options, check: &Check) -> Result<Self, Failure> {
        let report = receipts::verify(&options, check)?;
        Ok(Self { options, report })
    }

    /// Returns whether every receipt is whole, though the end of the log may be unconfirmed.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        matches!(self.report.verdict, Verdict::Whole | Verdict::Unconfirmed { .. })
    }

    /// The result in words, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        report_lines(&self.options, &self.report)
    }
}

/// Checks every receipt of a user's log; `None` if none are written.
///
/// # Errors
/// There is no state directory, or the log can't be read.
pub fn verify(settings: &Settings, env: &Env) -> Result<Option<Checked>, Failure> {
    let options = app::receipt_options(settings, env)?;
    options.map(|options| Checked::of(options, &Check::default())).transpose()
}

/// Counts the calls in a user's log, and checks the receipts that are new since the last count; `None` if none are written.
///
/// # Errors
/// There is no state directory, or the log can't be read.
pub fn tally(settings: &Settings, env: &Env) -> Result<Option<Tally>, Failure> {
    let options = app::receipt_options(settings, env)?;
    Ok(options.map(|options| receipts::tally(&options)).transpose()?)
}

fn report_lines(options: &Options, report: &Report) -> Vec<String> {
    let count = counted(usize::try_from(report.receipts).unwrap_or(usize::MAX), "receipt");
    let path = options.path.display();
    let mut lines = vec![match &report.verdict {
        Verdict::Whole => format!("{count} in {path}: all hold"),
        Verdict::Broken { receipt, why } => format!("receipt {receipt}: {why}"),
        Verdict::Torn { bytes } => {
            format!(
                "{count} hold; the last line was not written to its end ({bytes} bytes), the next receipt moves it away"
            )
        }
        Verdict::Cut { why, .. } => format!("{path}: {why}"),
        Verdict::Unconfirmed { .. } => format!("{count} in {path} hold"),
    }];
    match &report.verdict {
        Verdict::Broken { .. } => lines.push(format!("{count} before it hold; {path}")),
        Verdict::Cut { is_other_log: true, .. } => lines.push(format!(
            "if you moved the log away yourself, move {} away as well",
            options.anchors_path().display()
        )),
        Verdict::Unconfirmed { why } => lines.push(format!("warning: {why}")),
        Verdict::Whole | Verdict::Torn { .. } | Verdict::Cut { .. } => {}
    }
    lines.extend(report.head.iter().map(|head| format!("head {head}")));
    lines.extend(report.unknown.iter().map(|open| {
        format!("receipt {}: unknown outcome: {} at {}, {}", open.seq, open.tool, open.timestamp, open.id)
    }));
    lines.extend(report.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    lines
}
