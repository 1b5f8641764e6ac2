-- Version 2: questions to persons, what running calls have reserved, and runs of the agent.
CREATE TABLE question (
    tenant TEXT NOT NULL, question_id TEXT NOT NULL, project TEXT NOT NULL, run_id TEXT, stream TEXT NOT NULL, digest TEXT NOT NULL,
    card TEXT NOT NULL, asked_by TEXT NOT NULL, state TEXT NOT NULL, answer TEXT, by TEXT, note TEXT, asked_ms INTEGER NOT NULL,
    deadline_ms INTEGER NOT NULL, status INTEGER, outcome TEXT, PRIMARY KEY (tenant, question_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX question_open ON question (tenant, asked_ms) WHERE state = 'open';
CREATE TABLE reservation (
    tenant TEXT NOT NULL, reservation_id TEXT NOT NULL, project TEXT NOT NULL, user TEXT NOT NULL, run_id TEXT,
    request_id TEXT NOT NULL, trace_id TEXT NOT NULL, stream TEXT NOT NULL, action TEXT NOT NULL, PRIMARY KEY (tenant, reservation_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE run (
    tenant TEXT NOT NULL, run_id TEXT NOT NULL, project TEXT NOT NULL, user TEXT NOT NULL, conversation_id INTEGER, state TEXT NOT NULL,
    question TEXT NOT NULL, text TEXT NOT NULL DEFAULT '', failure TEXT, usage TEXT NOT NULL DEFAULT '{}', started_ms INTEGER NOT NULL,
    ended_ms INTEGER, PRIMARY KEY (tenant, run_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_started ON run (tenant, started_ms);
