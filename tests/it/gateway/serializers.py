"""Bodies that schemathesis makes for types of which it knows nothing: frames of a shared session are sent as they are."""

import schemathesis

schemathesis.serializer.alias("application/x-ndjson", "application/octet-stream")
