-- Version 3: measured figures and the rules over them, files of canvases, and routes to back-ends.
CREATE TABLE figure (tenant TEXT NOT NULL, kpi TEXT NOT NULL, action TEXT NOT NULL, at_ms INTEGER NOT NULL, thousandths INTEGER NOT NULL) STRICT;
CREATE INDEX figure_at ON figure (tenant, kpi, at_ms);
CREATE TABLE kpi_rule (
    tenant TEXT NOT NULL, kpi TEXT NOT NULL, action TEXT NOT NULL, op TEXT NOT NULL, thousandths INTEGER NOT NULL,
    window_s INTEGER NOT NULL, samples_min INTEGER NOT NULL, PRIMARY KEY (tenant, kpi, action)
) STRICT, WITHOUT ROWID;
CREATE TABLE artifact (
    tenant TEXT NOT NULL, canvas_id TEXT NOT NULL, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL, type TEXT NOT NULL, name TEXT NOT NULL,
    by TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (tenant, canvas_id, sha256)
) STRICT, WITHOUT ROWID;
CREATE TABLE artifact_part (tenant TEXT NOT NULL, sha256 TEXT NOT NULL, n INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (tenant, sha256, n)) STRICT;
CREATE TABLE route (tenant TEXT NOT NULL, service TEXT NOT NULL, backend TEXT NOT NULL, location TEXT, version INTEGER NOT NULL,
    PRIMARY KEY (tenant, service)) STRICT, WITHOUT ROWID;
