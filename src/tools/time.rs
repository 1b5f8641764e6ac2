//! `time`: what time it is, here and elsewhere.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::{Offer, Place, Plan, Spec, Tool, Work, text};
use crate::gate::Permit;
use crate::host::now_unix_ms;
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};

/// The tool.
pub(super) struct Time;

impl Tool for Time {
    fn spec(&self) -> Spec {
        Spec {
            name: "time".into(),
            aliases: &[],
            description: "Tells the date and the time: local, UTC, or in a time zone.".into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "zone": {"type": "string", "description": "an IANA name such as Europe/Berlin; local where absent"},
                },
                "additionalProperties": false,
            }),
        }
    }

    fn offer(&self) -> Offer {
        Offer::Extra
    }

    fn plan(&self, arguments: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        zone(text(arguments, "zone"))?;
        Ok(Plan::of(Action::Inert { name: "time".into() }))
    }

    fn run(&mut self, permit: &Permit, _: &mut Work<'_>) -> Outcome {
        let zone = match zone(text(permit.arguments(), "zone")) {
            Ok(zone) => zone,
            Err(error) => return error.into(),
        };
        let now_ms = now_unix_ms();
        let now = Timestamp::from_millisecond(now_ms).unwrap_or_default();
        let there = now.to_zoned(zone);
        let shown = there.strftime("%Y-%m-%d %H:%M:%S %:z, %A").to_string();
        let name = there.time_zone().iana_name().unwrap_or("local").to_owned();
        let utc = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Outcome::of(format!("{shown} ({name})")).with("utc", utc).with("zone", name).with("unix_ms", now_ms)
    }
}

fn zone(name: &str) -> Result<TimeZone, ToolError> {
    match name {
        "" | "local" => Ok(TimeZone::try_system().unwrap_or(TimeZone::UTC)),
        "UTC" | "utc" | "Z" => Ok(TimeZone::UTC),
        name => TimeZone::get(name).map_err(|_| {
            ToolError::new("bad-zone", format!("no time zone is called {name}"), "IANA names, such as Europe/Berlin")
        }),
    }
}
