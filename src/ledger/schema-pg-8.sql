-- Version 8 on PostgreSQL: the same.
CREATE TABLE relay (tenant TEXT PRIMARY KEY, position BIGINT NOT NULL);
ALTER TABLE relay ENABLE ROW LEVEL SECURITY;
ALTER TABLE relay FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON relay USING (tenant = ANY ((SELECT
    string_to_array(current_setting('reedclaw.tenants', true), ','))::text[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON relay TO reedclaw_app;
UPDATE schema_version SET version = 8;
