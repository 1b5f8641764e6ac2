-- Version 8: how far each tenant's log was passed on to NATS.
CREATE TABLE relay (tenant TEXT PRIMARY KEY, position INTEGER NOT NULL) STRICT, WITHOUT ROWID;
