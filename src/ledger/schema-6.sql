-- Version 6: sessions that are shared, and their recordings.
CREATE TABLE share (
    tenant TEXT NOT NULL, share_id TEXT NOT NULL, project TEXT NOT NULL, owner TEXT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL,
    cols INTEGER NOT NULL, rows INTEGER NOT NULL, watch TEXT NOT NULL, approve TEXT NOT NULL, state TEXT NOT NULL, why TEXT,
    started_ms INTEGER NOT NULL, ended_ms INTEGER, node TEXT, PRIMARY KEY (tenant, share_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE share_chunk (tenant TEXT NOT NULL, share_id TEXT NOT NULL, n INTEGER NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (tenant, share_id, n)) STRICT, WITHOUT ROWID;
