-- What starts runs again and again.
CREATE TABLE schedules (
    name     TEXT NOT NULL PRIMARY KEY,
    revision BLOB NOT NULL,    -- of the last change; every change has another
    due      INTEGER,          -- when it is looked at next; absent: no time makes it due
    last_run BLOB,             -- the run that it started last
    waits    INTEGER NOT NULL, -- 1: also due when its last run has ended
    body     BLOB NOT NULL     -- opaque to the store
) WITHOUT ROWID, STRICT;

CREATE INDEX schedules_due ON schedules (due) WHERE due IS NOT NULL;
CREATE INDEX schedules_waits ON schedules (last_run) WHERE waits = 1;

CREATE VIEW schedules_view AS
SELECT name, strftime('%Y-%m-%d %H:%M:%f', due / 1000.0, 'unixepoch') AS due, lower(hex(last_run)) AS last_run, waits,
       length(body) AS bytes
FROM schedules;
