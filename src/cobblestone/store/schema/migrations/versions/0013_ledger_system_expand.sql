ALTER TABLE result ADD COLUMN avg_ncpus REAL DEFAULT 0 NOT NULL;
ALTER TABLE result ADD COLUMN checks INTEGER DEFAULT 0 NOT NULL;

CREATE TABLE ledger_record (
    app_id INTEGER NOT NULL,
    host_id INTEGER NOT NULL,
    app_version_id INTEGER NOT NULL,
    usage TEXT NOT NULL,
    state TEXT DEFAULT '{}' NOT NULL,
    PRIMARY KEY (app_id, host_id, app_version_id, usage)
);

CREATE TABLE ledger_event (
    app_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    facts TEXT DEFAULT '{}' NOT NULL,
    PRIMARY KEY (app_id, seq)
);

CREATE TABLE escrow (
    result_id INTEGER NOT NULL PRIMARY KEY,
    workunit_id INTEGER DEFAULT 0 NOT NULL,
    app_id INTEGER DEFAULT 0 NOT NULL,
    host_id INTEGER DEFAULT 0 NOT NULL,
    app_version_id INTEGER DEFAULT 0 NOT NULL,
    usage TEXT DEFAULT '' NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    price REAL DEFAULT 0 NOT NULL,
    audit INTEGER DEFAULT 0 NOT NULL
);
CREATE INDEX escrow_by_host ON escrow (host_id, price);
CREATE INDEX escrow_by_user ON escrow (user_id, price);
CREATE INDEX escrow_by_workunit ON escrow (workunit_id);
