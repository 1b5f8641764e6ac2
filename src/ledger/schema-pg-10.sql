-- Version 10 on PostgreSQL: the same.
CREATE TABLE machine (number BIGINT PRIMARY KEY, node TEXT);
GRANT SELECT, INSERT, UPDATE, DELETE ON machine TO reedclaw_app;
UPDATE schema_version SET version = 10;
