-- Version 7 on PostgreSQL: the same. `timeline` is that of the server, which changes when another server takes its place.
CREATE TABLE anchor (tenant TEXT PRIMARY KEY, position BIGINT NOT NULL, hash TEXT NOT NULL, announced BIGINT NOT NULL);
ALTER TABLE anchor ENABLE ROW LEVEL SECURITY;
ALTER TABLE anchor FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON anchor USING (tenant = ANY ((SELECT
    string_to_array(current_setting('reedclaw.tenants', true), ','))::text[]));
GRANT SELECT ON anchor TO reedclaw_app;
ALTER TABLE node ADD COLUMN address TEXT;
ALTER TABLE node ADD COLUMN started_ms BIGINT;
ALTER TABLE instance ADD COLUMN timeline BIGINT;
CREATE OR REPLACE FUNCTION event_changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'UPDATE' AND EXISTS (
        SELECT 1 FROM erased WHERE tenant = OLD.tenant AND position = OLD.position
        AND NEW.body = '{"erased":true,"sha256":"' || body_sha256 || '"}'
    ) AND to_jsonb(NEW) - 'body' = to_jsonb(OLD) - 'body' THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'DELETE' AND EXISTS (
        SELECT 1 FROM anchor WHERE tenant = OLD.tenant AND position >= OLD.position
    ) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the log is append-only';
END $$;
UPDATE schema_version SET version = 7;
