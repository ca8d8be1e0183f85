-- What it may submit.  An account that may submit has a token of its own, whose hash no text has: 'user' and the account's number.
ALTER TABLE api_token ADD COLUMN apps TEXT;  -- names, as JSON; NULL: all
ALTER TABLE api_token ADD COLUMN max_jobs INTEGER;  -- its unfinished jobs at a time; NULL: no limit
