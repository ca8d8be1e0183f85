"""History since the first day, badges and milestones, profiles, messages to teams, and indexes for ranks (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "0004"
down_revision = "0003"

TABLES = """
CREATE TABLE credit_day (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    day INTEGER NOT NULL,
    n_days INTEGER DEFAULT 1 NOT NULL,
    granted REAL DEFAULT 0 NOT NULL,
    n_results INTEGER DEFAULT 0 NOT NULL,
    total REAL DEFAULT 0 NOT NULL,
    total_results INTEGER DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id, day)
);
CREATE INDEX credit_day_by_age ON credit_day (n_days, day);

CREATE TABLE app_day (
    app_id INTEGER NOT NULL,
    day INTEGER NOT NULL,
    n_success INTEGER DEFAULT 0 NOT NULL,
    n_error INTEGER DEFAULT 0 NOT NULL,
    n_unsent INTEGER DEFAULT 0 NOT NULL,
    n_in_progress INTEGER DEFAULT 0 NOT NULL,
    n_results INTEGER DEFAULT 0 NOT NULL,
    granted REAL DEFAULT 0 NOT NULL,
    n_hosts INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (app_id, day)
);
INSERT INTO app_day (app_id, day, n_success, n_error) SELECT app_id, CAST(round(completed_time / 86400 - 0.4999999) AS INTEGER),
    sum(CASE WHEN error_mask = 0 THEN 1 ELSE 0 END), sum(CASE WHEN error_mask <> 0 THEN 1 ELSE 0 END)
    FROM workunit WHERE completed_time IS NOT NULL GROUP BY 1, 2;

CREATE TABLE app_host_day (
    app_id INTEGER NOT NULL,
    host_id INTEGER NOT NULL,
    last_day INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (app_id, host_id)
);

CREATE TABLE milestone (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    credit INTEGER NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id, credit)
);

CREATE TABLE badge (
    id IDENTIFIER,
    kind TEXT DEFAULT '' NOT NULL,
    level REAL DEFAULT 0 NOT NULL,
    UNIQUE (kind, level)
);

CREATE TABLE badge_owner (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    badge_id INTEGER NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id, badge_id)
);

CREATE TABLE profile (
    user_id INTEGER NOT NULL PRIMARY KEY,
    text TEXT DEFAULT '' NOT NULL,
    picture BLOB,
    searchable INTEGER DEFAULT 0 NOT NULL,
    time REAL DEFAULT 0 NOT NULL
);

CREATE TABLE team_message (
    id IDENTIFIER,
    team_id INTEGER DEFAULT 0 NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    title TEXT DEFAULT '' NOT NULL,
    text TEXT DEFAULT '' NOT NULL,
    time REAL DEFAULT 0 NOT NULL
);
CREATE INDEX team_message_by_team ON team_message (team_id, id);

ALTER TABLE user_account ADD COLUMN team_messages INTEGER DEFAULT 1 NOT NULL;
ALTER TABLE app ADD COLUMN show_outputs INTEGER DEFAULT 0 NOT NULL;
"""

RANKS = """
DROP INDEX user_by_credit;
CREATE INDEX user_by_credit ON user_account (expavg_credit, id) WHERE erased_time IS NULL;
DROP INDEX user_by_total;
CREATE INDEX user_by_total ON user_account (total_credit, id) WHERE erased_time IS NULL;
DROP INDEX host_by_credit;
CREATE INDEX host_by_credit ON host (expavg_credit, id) WHERE merged_into IS NULL AND removed_time IS NULL;
DROP INDEX host_by_total;
CREATE INDEX host_by_total ON host (total_credit, id) WHERE merged_into IS NULL AND removed_time IS NULL;
DROP INDEX team_by_credit;
CREATE INDEX team_by_credit ON team (expavg_credit, id);
DROP INDEX team_by_total;
CREATE INDEX team_by_total ON team (total_credit, id);
"""


def upgrade() -> None:
    run(TABLES)
    run(RANKS)
