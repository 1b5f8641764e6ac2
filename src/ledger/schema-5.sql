-- Version 5: the gateway that does something, so that others can settle it after its end, and where a snapshot is in the log.
CREATE TABLE node (node_id TEXT PRIMARY KEY, until_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
ALTER TABLE idempotency ADD COLUMN node TEXT;
ALTER TABLE question ADD COLUMN node TEXT;
ALTER TABLE reservation ADD COLUMN node TEXT;
ALTER TABLE run ADD COLUMN node TEXT;
ALTER TABLE canvas_snapshot ADD COLUMN position INTEGER;
