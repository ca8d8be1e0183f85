-- Where a batch's finished jobs are told.
CREATE TABLE webhook (
    batch_id INTEGER NOT NULL PRIMARY KEY,
    url TEXT NOT NULL,
    secret TEXT NOT NULL,  -- signs the messages
    told_seq INTEGER DEFAULT 0 NOT NULL,  -- position in the batch's list of finished jobs up to which all were told
    attempts INTEGER DEFAULT 0 NOT NULL,  -- that failed since the last message arrived
    error TEXT DEFAULT '' NOT NULL,  -- of the last attempt
    next_time REAL  -- when to look again; NULL: all was told, or it was given up
);
CREATE INDEX webhook_by_next ON webhook (next_time);
