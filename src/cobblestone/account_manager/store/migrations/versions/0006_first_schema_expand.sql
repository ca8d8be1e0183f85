CREATE TABLE account (
    id IDENTIFIER,
    email_addr TEXT NOT NULL UNIQUE,
    name TEXT DEFAULT '' NOT NULL,
    passwd_hash TEXT DEFAULT '' NOT NULL,
    authenticator TEXT NOT NULL UNIQUE,
    weak_authenticator TEXT NOT NULL UNIQUE,
    project_secret TEXT DEFAULT '' NOT NULL,
    language TEXT DEFAULT '' NOT NULL,
    session_epoch INTEGER DEFAULT 0 NOT NULL,
    is_operator INTEGER DEFAULT 0 NOT NULL,
    choices TEXT DEFAULT '{}' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    email_verified_time REAL
);

CREATE TABLE api_token (
    id IDENTIFIER,
    name TEXT DEFAULT '' NOT NULL,
    token_hash TEXT DEFAULT '' NOT NULL UNIQUE,
    scopes TEXT DEFAULT '' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    expire_time REAL,
    revoke_time REAL,
    used_time REAL
);

CREATE TABLE daily (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    day INTEGER NOT NULL,
    cpu_ec REAL DEFAULT 0 NOT NULL,
    cpu_time REAL DEFAULT 0 NOT NULL,
    gpu_ec REAL DEFAULT 0 NOT NULL,
    gpu_time REAL DEFAULT 0 NOT NULL,
    njobs_success REAL DEFAULT 0 NOT NULL,
    njobs_error REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id, day)
);
CREATE INDEX daily_of_day ON daily (day);

CREATE TABLE ended_session (
    session_hash TEXT NOT NULL PRIMARY KEY,
    expire_time REAL DEFAULT 0 NOT NULL
);
CREATE INDEX ended_session_expired ON ended_session (expire_time);

CREATE TABLE figure (
    account_id INTEGER NOT NULL PRIMARY KEY,
    shown REAL DEFAULT 0 NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    starter REAL DEFAULT 0 NOT NULL,
    address_block TEXT DEFAULT '' NOT NULL
);
CREATE INDEX figure_of_block ON figure (address_block);

CREATE TABLE granted_account (
    account_id INTEGER NOT NULL,
    project_id INTEGER NOT NULL,
    told_name TEXT NOT NULL,
    weak_key TEXT DEFAULT '' NOT NULL,
    record TEXT DEFAULT '{}' NOT NULL,
    PRIMARY KEY (account_id, project_id),
    UNIQUE (project_id, told_name)
);

CREATE TABLE host (
    id IDENTIFIER,
    account_id INTEGER NOT NULL,
    host_key TEXT NOT NULL,
    host_cpid TEXT DEFAULT '' NOT NULL,
    domain_name TEXT DEFAULT '' NOT NULL,
    address_block TEXT DEFAULT '' NOT NULL,
    p_vendor TEXT DEFAULT '' NOT NULL,
    p_model TEXT DEFAULT '' NOT NULL,
    ncpus INTEGER DEFAULT 1 NOT NULL,
    p_fpops REAL DEFAULT 0 NOT NULL,
    gpu_model TEXT DEFAULT '' NOT NULL,
    ngpus INTEGER DEFAULT 0 NOT NULL,
    gpu_flops REAL DEFAULT 0 NOT NULL,
    os_name TEXT DEFAULT '' NOT NULL,
    os_version TEXT DEFAULT '' NOT NULL,
    client_version INTEGER DEFAULT 0 NOT NULL,
    venue TEXT DEFAULT '' NOT NULL,
    hidden INTEGER DEFAULT 0 NOT NULL,
    meter TEXT,
    why TEXT DEFAULT '[]' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    contact_time REAL DEFAULT 0 NOT NULL
);
CREATE INDEX host_of_account ON host (account_id, id);
CREATE INDEX host_of_block ON host (address_block, p_model, create_time);
CREATE INDEX host_of_client ON host (account_id, host_cpid);
CREATE INDEX host_of_gpu_model ON host (gpu_model, account_id);
CREATE INDEX host_of_model ON host (p_model, account_id);

CREATE TABLE host_project (
    host_id INTEGER NOT NULL,
    project_id INTEGER NOT NULL,
    project_host_id INTEGER DEFAULT 0 NOT NULL,
    record TEXT DEFAULT '{}' NOT NULL,
    expected REAL DEFAULT 0 NOT NULL,
    kept_back REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (host_id, project_id)
);
CREATE INDEX host_project_kept_back ON host_project (kept_back);

CREATE TABLE keyword (
    id INTEGER NOT NULL PRIMARY KEY,
    kind TEXT DEFAULT 'subject' NOT NULL,
    name TEXT DEFAULT '' NOT NULL
);

CREATE TABLE ledger (
    id IDENTIFIER,
    host_id INTEGER NOT NULL,
    account_id INTEGER NOT NULL,
    project_id INTEGER NOT NULL,
    day INTEGER NOT NULL,
    kind TEXT DEFAULT 'contact' NOT NULL,
    cpu_ec REAL DEFAULT 0 NOT NULL,
    cpu_time REAL DEFAULT 0 NOT NULL,
    gpu_ec REAL DEFAULT 0 NOT NULL,
    gpu_time REAL DEFAULT 0 NOT NULL,
    njobs_success REAL DEFAULT 0 NOT NULL,
    njobs_error REAL DEFAULT 0 NOT NULL,
    kept_back REAL DEFAULT 0 NOT NULL,
    limits TEXT DEFAULT '' NOT NULL,
    UNIQUE (host_id, project_id, day, kind)
);
CREATE INDEX ledger_of_account ON ledger (account_id, day);
CREATE INDEX ledger_of_day ON ledger (day);
CREATE INDEX ledger_of_project ON ledger (project_id, day);

CREATE TABLE listed_job (
    project_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    account_id INTEGER NOT NULL,
    granted REAL DEFAULT 0 NOT NULL,
    until REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (project_id, name)
);
CREATE INDEX listed_job_of_account ON listed_job (account_id);

CREATE TABLE mail (
    id IDENTIFIER,
    create_time REAL DEFAULT 0 NOT NULL,
    recipient TEXT DEFAULT '' NOT NULL,
    subject TEXT DEFAULT '' NOT NULL,
    body TEXT DEFAULT '' NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    next_time REAL DEFAULT 0 NOT NULL,
    sent_time REAL,
    error TEXT DEFAULT '' NOT NULL
);
CREATE INDEX mail_waiting ON mail (next_time) WHERE sent_time IS NULL;

CREATE TABLE news (
    id IDENTIFIER,
    title TEXT DEFAULT '' NOT NULL,
    text TEXT DEFAULT '' NOT NULL,
    time REAL DEFAULT 0 NOT NULL
);

CREATE TABLE one_time_code (
    id IDENTIFIER,
    user_id INTEGER DEFAULT 0 NOT NULL,
    purpose TEXT DEFAULT '' NOT NULL,
    code_hash TEXT DEFAULT '' NOT NULL UNIQUE,
    payload TEXT DEFAULT '' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    expire_time REAL,
    used_time REAL
);
CREATE INDEX code_by_user ON one_time_code (user_id, purpose);

CREATE TABLE project (
    id IDENTIFIER,
    url TEXT NOT NULL,
    address_key TEXT NOT NULL UNIQUE,
    url_signature TEXT DEFAULT '' NOT NULL,
    name TEXT DEFAULT '' NOT NULL,
    share REAL DEFAULT 1 NOT NULL,
    stopped INTEGER DEFAULT 0 NOT NULL,
    shared_key TEXT DEFAULT '' NOT NULL,
    keywords TEXT DEFAULT '{}' NOT NULL,
    versions TEXT DEFAULT '[]' NOT NULL,
    dryness TEXT DEFAULT '{}' NOT NULL,
    done REAL DEFAULT 0 NOT NULL,
    done_time REAL DEFAULT 0 NOT NULL,
    failures INTEGER DEFAULT 0 NOT NULL,
    next_check REAL DEFAULT 0 NOT NULL,
    problem TEXT DEFAULT '' NOT NULL,
    checked_time REAL DEFAULT 0 NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    expected REAL DEFAULT 0 NOT NULL
);

CREATE TABLE project_account (
    account_id INTEGER NOT NULL,
    project_id INTEGER NOT NULL,
    weak_key TEXT DEFAULT '' NOT NULL,
    failures INTEGER DEFAULT 0 NOT NULL,
    next_try REAL,
    problem TEXT DEFAULT '' NOT NULL,
    total REAL DEFAULT 0 NOT NULL,
    recent REAL DEFAULT 0 NOT NULL,
    recent_time REAL DEFAULT 0 NOT NULL,
    told_time REAL,
    told_problem TEXT DEFAULT '' NOT NULL,
    PRIMARY KEY (account_id, project_id)
);
CREATE INDEX project_account_due ON project_account (next_try);

CREATE TABLE project_accounting (
    project_id INTEGER NOT NULL PRIMARY KEY,
    token TEXT DEFAULT '' NOT NULL,
    vouched INTEGER DEFAULT 0 NOT NULL,
    next_day INTEGER DEFAULT 0 NOT NULL,
    next_ask REAL DEFAULT 0 NOT NULL,
    asked_time REAL DEFAULT 0 NOT NULL,
    failures INTEGER DEFAULT 0 NOT NULL,
    problem TEXT DEFAULT '' NOT NULL
);
