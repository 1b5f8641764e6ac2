-- Version 12: which gateway works in a project's workspace, and the number of that right in the events of its work. It lasts as long as
-- the gateway's row in `node`.
CREATE TABLE workspace_lease (
    tenant TEXT NOT NULL, project TEXT NOT NULL, machine INTEGER NOT NULL, node TEXT, fence INTEGER NOT NULL,
    PRIMARY KEY (tenant, project, machine)
) STRICT, WITHOUT ROWID;
ALTER TABLE event ADD COLUMN fence INTEGER;
