-- Version 4: texts of a person that were erased. The hash of each stays, so that the chain holds without the text.
CREATE TABLE erased (tenant TEXT NOT NULL, position INTEGER NOT NULL, body_sha256 TEXT NOT NULL, PRIMARY KEY (tenant, position))
    STRICT, WITHOUT ROWID;
DROP TRIGGER event_update;
CREATE TRIGGER event_update BEFORE UPDATE ON event WHEN NOT EXISTS (
    SELECT 1 FROM erased WHERE tenant = OLD.tenant AND position = OLD.position AND tenant = NEW.tenant AND position = NEW.position
    AND NEW.body = '{"erased":true,"sha256":"' || body_sha256 || '"}' AND NEW.hash = OLD.hash AND NEW.previous_hash = OLD.previous_hash
) BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
