//! The headers that name a caller of the gateway: any bytes are ids of the allowed form, or are refused.
#![no_main]

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use reedclaw::gateway::{ids, is_id};
use reedclaw::proto::team::Mode;

const NAMES: [&str; 11] = [
    "x-mode",
    "x-tenant-id",
    "x-project-id",
    "x-request-id",
    "x-trace-id",
    "x-run-id",
    "x-step-id",
    "x-surface-id",
    "x-app-id",
    "x-user-id",
    "traceparent",
];

fuzz_target!(|lines: Vec<(u8, Vec<u8>)>| {
    let mut headers = HeaderMap::new();
    for (name, bytes) in lines.iter().take(64) {
        if let Ok(value) = HeaderValue::from_bytes(bytes) {
            headers.append(HeaderName::from_static(NAMES[usize::from(*name) % NAMES.len()]), value);
        }
    }
    for mode in [Mode::Lab, Mode::Saas] {
        let Ok(found) = ids(&headers, mode) else { continue };
        let optional = [found.run_id, found.step_id, found.surface_id, found.app_id, found.user];
        let all = [found.tenant, found.project, found.trace_id].into_iter().chain(optional.into_iter().flatten());
        all.for_each(|id| assert!(is_id(&id), "{id:?}"));
    }
});
