-- Version 7: where a log begins once its oldest events were removed, the event that tells of it, and where gateways listen.
CREATE TABLE anchor (tenant TEXT PRIMARY KEY, position INTEGER NOT NULL, hash TEXT NOT NULL, announced INTEGER NOT NULL)
    STRICT, WITHOUT ROWID;
ALTER TABLE node ADD COLUMN address TEXT;
ALTER TABLE node ADD COLUMN started_ms INTEGER;
ALTER TABLE instance ADD COLUMN timeline INTEGER;
DROP TRIGGER event_delete;
CREATE TRIGGER event_delete BEFORE DELETE ON event
    WHEN NOT EXISTS (SELECT 1 FROM anchor WHERE tenant = OLD.tenant AND position >= OLD.position)
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
