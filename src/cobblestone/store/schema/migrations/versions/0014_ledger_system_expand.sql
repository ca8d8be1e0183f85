ALTER TABLE result ADD COLUMN avg_ncpus REAL DEFAULT 0 NOT NULL;  -- processors that it was sent for; 0: not known
ALTER TABLE result ADD COLUMN checks INTEGER DEFAULT 0 NOT NULL;  -- further results that check it

-- What the credit system "ledger" knows of an app (host 0, version 0), its versions (host 0), and versions on hosts.
CREATE TABLE ledger_record (
    app_id INTEGER NOT NULL,
    host_id INTEGER NOT NULL,
    app_version_id INTEGER NOT NULL,
    usage TEXT NOT NULL,  -- processors that a job uses
    state TEXT DEFAULT '{}' NOT NULL,  -- JSON
    PRIMARY KEY (app_id, host_id, app_version_id, usage)
);

-- What happened under that system, in order: with it, every record and every amount can be computed again.
CREATE TABLE ledger_event (
    app_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    kind TEXT DEFAULT '' NOT NULL,
    facts TEXT DEFAULT '{}' NOT NULL,  -- JSON
    PRIMARY KEY (app_id, seq)
);

-- Results whose credit is provisional: a failed check of their host takes it back.
CREATE TABLE escrow (
    result_id INTEGER NOT NULL PRIMARY KEY,
    workunit_id INTEGER DEFAULT 0 NOT NULL,
    app_id INTEGER DEFAULT 0 NOT NULL,
    host_id INTEGER DEFAULT 0 NOT NULL,
    app_version_id INTEGER DEFAULT 0 NOT NULL,
    usage TEXT DEFAULT '' NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    price REAL DEFAULT 0 NOT NULL,
    audit INTEGER DEFAULT 0 NOT NULL  -- computed again: 0 no, 1 asked for, 2 found right, 3 found wrong
);
CREATE INDEX escrow_by_host ON escrow (host_id, price);
CREATE INDEX escrow_by_user ON escrow (user_id, price);
CREATE INDEX escrow_by_workunit ON escrow (workunit_id);
