-- The family's numbers; until now every team was exported as one of type 1.
ALTER TABLE team ADD COLUMN type INTEGER DEFAULT 1 NOT NULL;
-- As its founder wrote it, for statistics sites: not safe to show as it is.
ALTER TABLE team ADD COLUMN name_html TEXT DEFAULT '' NOT NULL;
