-- The gateway's database, version 1. A released version is never edited; a later one is added beside it.
CREATE TABLE instance (one INTEGER PRIMARY KEY CHECK (one = 1), system_id TEXT NOT NULL, created_at TEXT NOT NULL) STRICT;
CREATE TABLE tenant (tenant TEXT PRIMARY KEY, mode TEXT NOT NULL, flags TEXT NOT NULL DEFAULT '{}', epoch INTEGER NOT NULL DEFAULT 1)
    STRICT, WITHOUT ROWID;
CREATE TABLE member (tenant TEXT NOT NULL, user TEXT NOT NULL, role TEXT NOT NULL, PRIMARY KEY (tenant, user)) STRICT, WITHOUT ROWID;
CREATE TABLE token (
    id TEXT PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, user TEXT NOT NULL, tenant TEXT NOT NULL,
    role TEXT NOT NULL, created_ms INTEGER NOT NULL, expires_ms INTEGER, revoked_ms INTEGER, family TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX token_family ON token (family) WHERE family IS NOT NULL;
CREATE TABLE session (
    sha256 TEXT PRIMARY KEY, family TEXT NOT NULL, user TEXT NOT NULL, tenant TEXT NOT NULL, role TEXT NOT NULL,
    expires_ms INTEGER NOT NULL, used INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE pair_code (sha256 TEXT PRIMARY KEY, user TEXT NOT NULL, tenant TEXT NOT NULL, role TEXT NOT NULL, expires_ms INTEGER NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE TABLE head (tenant TEXT PRIMARY KEY, position INTEGER NOT NULL, hash TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE stream (tenant TEXT NOT NULL, stream TEXT NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (tenant, stream))
    STRICT, WITHOUT ROWID;
CREATE TABLE event (
    tenant TEXT NOT NULL, position INTEGER NOT NULL, event_id TEXT NOT NULL, stream TEXT NOT NULL,
    stream_version INTEGER NOT NULL, event_type TEXT NOT NULL, source TEXT NOT NULL, project TEXT NOT NULL, run_id TEXT,
    step_id TEXT, trace_id TEXT, request_id TEXT, actor TEXT NOT NULL, surface_id TEXT, app_id TEXT, causation_id TEXT,
    correlation_id TEXT, occurred_at TEXT, recorded_at TEXT NOT NULL, body TEXT NOT NULL, previous_hash TEXT NOT NULL,
    hash TEXT NOT NULL, PRIMARY KEY (tenant, position), UNIQUE (tenant, event_id), UNIQUE (tenant, stream, stream_version)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_run ON event (tenant, run_id, position) WHERE run_id IS NOT NULL;
CREATE INDEX event_type ON event (tenant, event_type, position);
CREATE TRIGGER event_update BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER event_delete BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TABLE idempotency (
    tenant TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, actor TEXT NOT NULL, request_hash TEXT NOT NULL,
    state TEXT NOT NULL, status INTEGER, response TEXT, at_ms INTEGER NOT NULL, PRIMARY KEY (tenant, kind, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE memory (
    tenant TEXT NOT NULL, scope TEXT NOT NULL, scope_id TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
    version INTEGER NOT NULL, expires_ms INTEGER, by TEXT NOT NULL, PRIMARY KEY (tenant, scope, scope_id, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE blackboard (
    tenant TEXT NOT NULL, run_id TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, version INTEGER NOT NULL,
    by TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (tenant, run_id, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE kill_switch (
    tenant TEXT NOT NULL, scope TEXT NOT NULL, subject TEXT NOT NULL, since TEXT NOT NULL, by TEXT NOT NULL, reason TEXT,
    PRIMARY KEY (tenant, scope, subject)
) STRICT, WITHOUT ROWID;
CREATE TABLE licence (
    tenant TEXT NOT NULL, licence_id TEXT NOT NULL, subject TEXT NOT NULL, actions TEXT NOT NULL, class TEXT, project TEXT,
    surface_id TEXT, valid_until_ms INTEGER NOT NULL, uses_max INTEGER, uses INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL,
    by TEXT NOT NULL, revoked TEXT, PRIMARY KEY (tenant, licence_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE strategy_lock (
    tenant TEXT NOT NULL, lock_id TEXT NOT NULL, scope TEXT NOT NULL, surface_id TEXT, actions TEXT NOT NULL,
    three_wise INTEGER NOT NULL, valid_from_ms INTEGER NOT NULL, valid_until_ms INTEGER NOT NULL, reason TEXT NOT NULL,
    author TEXT NOT NULL, state TEXT NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (tenant, lock_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE lock_approval (tenant TEXT NOT NULL, lock_id TEXT NOT NULL, user TEXT NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (tenant, lock_id, user)) STRICT, WITHOUT ROWID;
CREATE TABLE heat (tenant TEXT NOT NULL, surface_id TEXT NOT NULL, thousandths INTEGER NOT NULL, at_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant, surface_id)) STRICT, WITHOUT ROWID;
CREATE TABLE budget_limit (tenant TEXT NOT NULL, kind TEXT NOT NULL, limit_value INTEGER NOT NULL, PRIMARY KEY (tenant, kind))
    STRICT, WITHOUT ROWID;
CREATE TABLE budget_use (tenant TEXT NOT NULL, run_id TEXT NOT NULL, calls INTEGER NOT NULL DEFAULT 0,
    cost_pico_usd INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (tenant, run_id)) STRICT, WITHOUT ROWID;
CREATE TABLE canvas (
    tenant TEXT NOT NULL, canvas_id TEXT NOT NULL, project TEXT NOT NULL, rev INTEGER NOT NULL, last_position INTEGER NOT NULL,
    state_hash TEXT NOT NULL, PRIMARY KEY (tenant, canvas_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE canvas_snapshot (
    tenant TEXT NOT NULL, canvas_id TEXT NOT NULL, rev INTEGER NOT NULL, atoms TEXT NOT NULL, state_hash TEXT NOT NULL,
    PRIMARY KEY (tenant, canvas_id, rev)
) STRICT, WITHOUT ROWID;
