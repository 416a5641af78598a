-- What a runner serves, so that a run that nobody takes can be told why.
ALTER TABLE runners ADD COLUMN serves TEXT NOT NULL DEFAULT '';
