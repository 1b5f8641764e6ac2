-- The gateway's database on PostgreSQL, version 6: the same tables and columns as the steps for SQLite together, which a test
-- compares. A released version is never edited; a later one is added beside it.
CREATE TABLE schema_version (version BIGINT NOT NULL);
INSERT INTO schema_version VALUES (6);
CREATE TABLE node (node_id TEXT PRIMARY KEY, until_ms BIGINT NOT NULL);
CREATE TABLE instance (one BIGINT PRIMARY KEY CHECK (one = 1), system_id TEXT NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE tenant (tenant TEXT PRIMARY KEY, mode TEXT NOT NULL, flags TEXT NOT NULL DEFAULT '{}', epoch BIGINT NOT NULL DEFAULT 1);
CREATE TABLE member (tenant TEXT NOT NULL, "user" TEXT NOT NULL, role TEXT NOT NULL, PRIMARY KEY (tenant, "user"));
CREATE TABLE token (
    id TEXT PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, "user" TEXT NOT NULL, tenant TEXT NOT NULL,
    role TEXT NOT NULL, created_ms BIGINT NOT NULL, expires_ms BIGINT, revoked_ms BIGINT, family TEXT
);
CREATE INDEX token_family ON token (family) WHERE family IS NOT NULL;
CREATE TABLE session (
    sha256 TEXT PRIMARY KEY, family TEXT NOT NULL, "user" TEXT NOT NULL, tenant TEXT NOT NULL, role TEXT NOT NULL,
    expires_ms BIGINT NOT NULL, used BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE pair_code (sha256 TEXT PRIMARY KEY, "user" TEXT NOT NULL, tenant TEXT NOT NULL, role TEXT NOT NULL, expires_ms BIGINT NOT NULL);
CREATE TABLE head (tenant TEXT PRIMARY KEY, position BIGINT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE stream (tenant TEXT NOT NULL, stream TEXT NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (tenant, stream));
CREATE TABLE event (
    tenant TEXT NOT NULL, position BIGINT NOT NULL, event_id TEXT NOT NULL, stream TEXT NOT NULL,
    stream_version BIGINT NOT NULL, event_type TEXT NOT NULL, source TEXT NOT NULL, project TEXT NOT NULL, run_id TEXT,
    step_id TEXT, trace_id TEXT, request_id TEXT, actor TEXT NOT NULL, surface_id TEXT, app_id TEXT, causation_id TEXT,
    correlation_id TEXT, occurred_at TEXT, recorded_at TEXT NOT NULL, body TEXT NOT NULL, previous_hash TEXT NOT NULL,
    hash TEXT NOT NULL, PRIMARY KEY (tenant, position), UNIQUE (tenant, event_id), UNIQUE (tenant, stream, stream_version)
);
CREATE INDEX event_run ON event (tenant, run_id, position) WHERE run_id IS NOT NULL;
CREATE INDEX event_type ON event (tenant, event_type, position);
CREATE TABLE idempotency (
    tenant TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, actor TEXT NOT NULL, request_hash TEXT NOT NULL,
    state TEXT NOT NULL, status BIGINT, response TEXT, at_ms BIGINT NOT NULL, node TEXT, PRIMARY KEY (tenant, kind, key)
);
CREATE TABLE memory (
    tenant TEXT NOT NULL, scope TEXT NOT NULL, scope_id TEXT NOT NULL, key TEXT COLLATE "C" NOT NULL, value TEXT NOT NULL,
    version BIGINT NOT NULL, expires_ms BIGINT, by TEXT NOT NULL, PRIMARY KEY (tenant, scope, scope_id, key)
);
CREATE TABLE blackboard (
    tenant TEXT NOT NULL, run_id TEXT NOT NULL, key TEXT COLLATE "C" NOT NULL, value TEXT NOT NULL, version BIGINT NOT NULL,
    by TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (tenant, run_id, key)
);
CREATE TABLE kill_switch (
    tenant TEXT NOT NULL, scope TEXT NOT NULL, subject TEXT NOT NULL, since TEXT NOT NULL, by TEXT NOT NULL, reason TEXT,
    PRIMARY KEY (tenant, scope, subject)
);
CREATE TABLE licence (
    tenant TEXT NOT NULL, licence_id TEXT NOT NULL, subject TEXT NOT NULL, actions TEXT NOT NULL, class TEXT, project TEXT,
    surface_id TEXT, valid_until_ms BIGINT NOT NULL, uses_max BIGINT, uses BIGINT NOT NULL DEFAULT 0, reason TEXT NOT NULL,
    by TEXT NOT NULL, revoked TEXT, PRIMARY KEY (tenant, licence_id)
);
CREATE TABLE strategy_lock (
    tenant TEXT NOT NULL, lock_id TEXT NOT NULL, scope TEXT NOT NULL, surface_id TEXT, actions TEXT NOT NULL,
    three_wise BIGINT NOT NULL, valid_from_ms BIGINT NOT NULL, valid_until_ms BIGINT NOT NULL, reason TEXT NOT NULL,
    author TEXT NOT NULL, state TEXT NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (tenant, lock_id)
);
CREATE TABLE lock_approval (tenant TEXT NOT NULL, lock_id TEXT NOT NULL, "user" TEXT NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (tenant, lock_id, "user"));
CREATE TABLE heat (tenant TEXT NOT NULL, surface_id TEXT NOT NULL, thousandths BIGINT NOT NULL, at_ms BIGINT NOT NULL,
    PRIMARY KEY (tenant, surface_id));
CREATE TABLE budget_limit (tenant TEXT NOT NULL, kind TEXT NOT NULL, limit_value BIGINT NOT NULL, PRIMARY KEY (tenant, kind));
CREATE TABLE budget_use (tenant TEXT NOT NULL, run_id TEXT NOT NULL, calls BIGINT NOT NULL DEFAULT 0,
    cost_pico_usd BIGINT NOT NULL DEFAULT 0, tokens BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (tenant, run_id));
CREATE TABLE canvas (
    tenant TEXT NOT NULL, canvas_id TEXT NOT NULL, project TEXT NOT NULL, rev BIGINT NOT NULL, last_position BIGINT NOT NULL,
    state_hash TEXT NOT NULL, PRIMARY KEY (tenant, canvas_id)
);
CREATE TABLE canvas_snapshot (
    tenant TEXT NOT NULL, canvas_id TEXT NOT NULL, rev BIGINT NOT NULL, atoms TEXT NOT NULL, state_hash TEXT NOT NULL, position BIGINT,
    PRIMARY KEY (tenant, canvas_id, rev)
);
CREATE TABLE question (
    tenant TEXT NOT NULL, question_id TEXT NOT NULL, project TEXT NOT NULL, run_id TEXT, stream TEXT NOT NULL, digest TEXT NOT NULL,
    card TEXT NOT NULL, asked_by TEXT NOT NULL, state TEXT NOT NULL, answer TEXT, by TEXT, note TEXT, asked_ms BIGINT NOT NULL,
    deadline_ms BIGINT NOT NULL, status BIGINT, outcome TEXT, node TEXT, PRIMARY KEY (tenant, question_id)
);
CREATE INDEX question_open ON question (tenant, asked_ms) WHERE state = 'open';
CREATE TABLE reservation (
    tenant TEXT NOT NULL, reservation_id TEXT NOT NULL, project TEXT NOT NULL, "user" TEXT NOT NULL, run_id TEXT,
    request_id TEXT NOT NULL, trace_id TEXT NOT NULL, stream TEXT NOT NULL, action TEXT NOT NULL, node TEXT, PRIMARY KEY (tenant, reservation_id)
);
CREATE TABLE run (
    tenant TEXT NOT NULL, run_id TEXT NOT NULL, project TEXT NOT NULL, "user" TEXT NOT NULL, conversation_id BIGINT, state TEXT NOT NULL,
    question TEXT NOT NULL, text TEXT NOT NULL DEFAULT '', failure TEXT, usage TEXT NOT NULL DEFAULT '{}', started_ms BIGINT NOT NULL,
    ended_ms BIGINT, node TEXT, PRIMARY KEY (tenant, run_id)
);
CREATE INDEX run_started ON run (tenant, started_ms);
CREATE TABLE figure (tenant TEXT NOT NULL, kpi TEXT NOT NULL, action TEXT NOT NULL, at_ms BIGINT NOT NULL, thousandths BIGINT NOT NULL);
CREATE INDEX figure_at ON figure (tenant, kpi, at_ms);
CREATE TABLE kpi_rule (
    tenant TEXT NOT NULL, kpi TEXT NOT NULL, action TEXT NOT NULL, op TEXT NOT NULL, thousandths BIGINT NOT NULL,
    window_s BIGINT NOT NULL, samples_min BIGINT NOT NULL, PRIMARY KEY (tenant, kpi, action)
);
CREATE TABLE artifact (
    tenant TEXT NOT NULL, canvas_id TEXT NOT NULL, sha256 TEXT NOT NULL, bytes BIGINT NOT NULL, type TEXT NOT NULL, name TEXT NOT NULL,
    by TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (tenant, canvas_id, sha256)
);
CREATE TABLE artifact_part (tenant TEXT NOT NULL, sha256 TEXT NOT NULL, n BIGINT NOT NULL, data BYTEA NOT NULL,
    PRIMARY KEY (tenant, sha256, n));
CREATE TABLE route (tenant TEXT NOT NULL, service TEXT NOT NULL, backend TEXT NOT NULL, location TEXT, version BIGINT NOT NULL,
    PRIMARY KEY (tenant, service));
CREATE TABLE share (
    tenant TEXT NOT NULL, share_id TEXT NOT NULL, project TEXT NOT NULL, owner TEXT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL,
    cols BIGINT NOT NULL, rows BIGINT NOT NULL, watch TEXT NOT NULL, approve TEXT NOT NULL, state TEXT NOT NULL, why TEXT,
    started_ms BIGINT NOT NULL, ended_ms BIGINT, node TEXT, PRIMARY KEY (tenant, share_id)
);
CREATE TABLE share_chunk (tenant TEXT NOT NULL, share_id TEXT NOT NULL, n BIGINT NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (tenant, share_id, n));
CREATE TABLE erased (tenant TEXT NOT NULL, position BIGINT NOT NULL, body_sha256 TEXT NOT NULL, PRIMARY KEY (tenant, position));

-- The log is append-only, but for texts that were erased and whose hash is known.
CREATE FUNCTION event_changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'UPDATE' AND EXISTS (
        SELECT 1 FROM erased WHERE tenant = OLD.tenant AND position = OLD.position
        AND NEW.body = '{"erased":true,"sha256":"' || body_sha256 || '"}'
    ) AND to_jsonb(NEW) - 'body' = to_jsonb(OLD) - 'body' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the log is append-only';
END $$;
CREATE TRIGGER event_changed BEFORE UPDATE OR DELETE ON event FOR EACH ROW EXECUTE FUNCTION event_changed();
CREATE TRIGGER event_emptied BEFORE TRUNCATE ON event FOR EACH STATEMENT EXECUTE FUNCTION event_changed();

-- Requests work as a role that sees the rows of the tenants that its transaction names, and no others. The tables that say who
-- a token belongs to are read before a tenant is known, so they have no such rule.
DO $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'reedclaw_app') THEN
        BEGIN
            CREATE ROLE reedclaw_app NOLOGIN NOBYPASSRLS;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            -- Another database of the server has been given its tables at the same moment.
            NULL;
        END;
    END IF;
    IF NOT pg_has_role(current_user, 'reedclaw_app', 'MEMBER') THEN
        EXECUTE format('GRANT reedclaw_app TO %I', current_user);
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO reedclaw_app', current_schema());
END $$;
DO $$ DECLARE name TEXT; BEGIN
    FOR name IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO reedclaw_app', name);
    END LOOP;
    FOR name IN SELECT c.table_name FROM information_schema.columns c WHERE c.table_schema = current_schema()
        AND c.column_name = 'tenant' AND c.table_name NOT IN ('tenant', 'token', 'session', 'pair_code') LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY own_rows ON %I USING (tenant = ANY ((SELECT '
            'string_to_array(current_setting(''reedclaw.tenants'', true), '',''))::text[]))', name);
    END LOOP;
END $$;
REVOKE UPDATE, DELETE ON event FROM reedclaw_app;
GRANT UPDATE (body) ON event TO reedclaw_app;
REVOKE INSERT, UPDATE, DELETE ON schema_version, instance FROM reedclaw_app;
