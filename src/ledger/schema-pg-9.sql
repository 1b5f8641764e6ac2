-- Version 9 on PostgreSQL: the same.
CREATE TABLE budget_rule (
    tenant TEXT NOT NULL, project TEXT NOT NULL, actor TEXT NOT NULL, span TEXT NOT NULL, kind TEXT NOT NULL, limit_value BIGINT NOT NULL,
    PRIMARY KEY (tenant, project, actor, span, kind)
);
CREATE TABLE budget_spent (
    tenant TEXT NOT NULL, project TEXT NOT NULL, actor TEXT NOT NULL, hour BIGINT NOT NULL, calls BIGINT NOT NULL,
    cost_pico_usd BIGINT NOT NULL, tokens BIGINT NOT NULL, PRIMARY KEY (tenant, project, actor, hour)
);
ALTER TABLE budget_limit NO FORCE ROW LEVEL SECURITY;
ALTER TABLE budget_use NO FORCE ROW LEVEL SECURITY;
INSERT INTO budget_rule SELECT tenant, '', '', 'total', kind, limit_value FROM budget_limit;
INSERT INTO budget_spent SELECT tenant, '', '', 0, sum(calls), sum(cost_pico_usd), sum(tokens) FROM budget_use GROUP BY tenant;
ALTER TABLE budget_use FORCE ROW LEVEL SECURITY;
DROP TABLE budget_limit;
ALTER TABLE reservation ADD COLUMN hour BIGINT;
ALTER TABLE budget_rule ENABLE ROW LEVEL SECURITY;
ALTER TABLE budget_rule FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON budget_rule USING (tenant = ANY ((SELECT
    string_to_array(current_setting('reedclaw.tenants', true), ','))::text[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON budget_rule TO reedclaw_app;
ALTER TABLE budget_spent ENABLE ROW LEVEL SECURITY;
ALTER TABLE budget_spent FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON budget_spent USING (tenant = ANY ((SELECT
    string_to_array(current_setting('reedclaw.tenants', true), ','))::text[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON budget_spent TO reedclaw_app;
UPDATE schema_version SET version = 9;
