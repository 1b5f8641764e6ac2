-- Version 12 on PostgreSQL: the same.
CREATE TABLE workspace_lease (
    tenant TEXT NOT NULL, project TEXT NOT NULL, machine BIGINT NOT NULL, node TEXT, fence BIGINT NOT NULL,
    PRIMARY KEY (tenant, project, machine)
);
ALTER TABLE workspace_lease ENABLE ROW LEVEL SECURITY;
ALTER TABLE workspace_lease FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON workspace_lease USING (tenant = ANY ((SELECT
    string_to_array(current_setting('reedclaw.tenants', true), ','))::text[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON workspace_lease TO reedclaw_app;
ALTER TABLE event ADD COLUMN fence BIGINT;
UPDATE schema_version SET version = 12;
