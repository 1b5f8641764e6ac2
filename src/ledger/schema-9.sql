-- Version 9: limits of projects and users with spans of time, and what was used in which hour. Earlier use counts for the whole tenant.
CREATE TABLE budget_rule (
    tenant TEXT NOT NULL, project TEXT NOT NULL, actor TEXT NOT NULL, span TEXT NOT NULL, kind TEXT NOT NULL, limit_value INTEGER NOT NULL,
    PRIMARY KEY (tenant, project, actor, span, kind)
) STRICT, WITHOUT ROWID;
INSERT INTO budget_rule SELECT tenant, '', '', 'total', kind, limit_value FROM budget_limit;
DROP TABLE budget_limit;
CREATE TABLE budget_spent (
    tenant TEXT NOT NULL, project TEXT NOT NULL, actor TEXT NOT NULL, hour INTEGER NOT NULL, calls INTEGER NOT NULL,
    cost_pico_usd INTEGER NOT NULL, tokens INTEGER NOT NULL, PRIMARY KEY (tenant, project, actor, hour)
) STRICT, WITHOUT ROWID;
INSERT INTO budget_spent SELECT tenant, '', '', 0, sum(calls), sum(cost_pico_usd), sum(tokens) FROM budget_use GROUP BY tenant;
ALTER TABLE reservation ADD COLUMN hour INTEGER;
