-- Version 11 on PostgreSQL: the same.
ALTER TABLE node ADD COLUMN url TEXT;
ALTER TABLE node ADD COLUMN loopback TEXT;
UPDATE schema_version SET version = 11;
