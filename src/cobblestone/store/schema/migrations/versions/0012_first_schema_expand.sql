-- Hot rows are kept short: texts of results stand in result_text, descriptions of hosts and files in one JSON column.
-- Times are Unix seconds. Every partial index serves one query of a daemon or of the scheduler (store/work).

-- Replies to creating requests, so that a repetition does not create a second thing.
CREATE TABLE api_reply (
    request_key TEXT NOT NULL PRIMARY KEY,
    digest TEXT DEFAULT '' NOT NULL,  -- of the request's body
    reply TEXT DEFAULT '' NOT NULL,
    expire_time REAL DEFAULT 0 NOT NULL
);
CREATE INDEX api_reply_expired ON api_reply (expire_time);

CREATE TABLE api_token (
    id IDENTIFIER,
    name TEXT DEFAULT '' NOT NULL,
    token_hash TEXT DEFAULT '' NOT NULL UNIQUE,
    user_id INTEGER,  -- whose own data it opens; NULL: a token of the project
    scopes TEXT DEFAULT '' NOT NULL,  -- space-separated: read submit manage account compute accounting
    share REAL DEFAULT 1 NOT NULL,  -- of the computers, against other submitters
    create_time REAL DEFAULT 0 NOT NULL,
    expire_time REAL,
    revoke_time REAL,
    host_id INTEGER  -- the browser that it belongs to
);

CREATE TABLE app (
    id IDENTIFIER,
    name TEXT DEFAULT '' NOT NULL UNIQUE,
    user_friendly_name TEXT DEFAULT '' NOT NULL,
    deprecated INTEGER DEFAULT 0 NOT NULL,
    beta INTEGER DEFAULT 0 NOT NULL,
    comparison TEXT DEFAULT '{}' NOT NULL,
    assimilator TEXT DEFAULT '' NOT NULL,
    credit_system TEXT DEFAULT '' NOT NULL,
    fixed_credit REAL DEFAULT 0 NOT NULL,  -- of a job that names no amount, under the system "fixed"
    host_scale_check INTEGER DEFAULT 0 NOT NULL,
    partial_credit INTEGER DEFAULT 0 NOT NULL,  -- trickle messages bring provisional credit
    credit_per_cpu_second REAL DEFAULT 0 NOT NULL,  -- published average where programs cannot count; 0: from the sums below
    credit_function TEXT DEFAULT '' NOT NULL,  -- FILE.py:function, for the system "assigned"
    min_avg_pfc REAL DEFAULT 1 NOT NULL,
    flops_scale REAL DEFAULT 1 NOT NULL,
    counted_benchmark_credit REAL DEFAULT 0 NOT NULL,  -- sums that flops_scale comes from
    counted_credit REAL DEFAULT 0 NOT NULL,
    counted_cpu_seconds REAL DEFAULT 0 NOT NULL,
    counted_jobs INTEGER DEFAULT 0 NOT NULL,
    limits TEXT DEFAULT '{}' NOT NULL,
    rules TEXT DEFAULT '{}' NOT NULL,
    output_specs TEXT DEFAULT '[]' NOT NULL,
    dispatch TEXT DEFAULT '{}' NOT NULL,
    command TEXT DEFAULT '[]' NOT NULL,  -- the scientist's command line with placeholders, as JSON; [] for native programs
    create_time REAL DEFAULT 0 NOT NULL,
    show_outputs INTEGER DEFAULT 0 NOT NULL  -- volunteers see the answers that their computers found
);

-- Credit by app of users, hosts and teams: summed from the ledger by a daemon, for top lists.
CREATE TABLE app_credit (
    owner TEXT NOT NULL,  -- user, host or team
    app_id INTEGER NOT NULL,
    owner_id INTEGER NOT NULL,
    n_results INTEGER DEFAULT 0 NOT NULL,
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, app_id, owner_id)
);
CREATE INDEX app_credit_by_owner ON app_credit (owner, owner_id);
CREATE INDEX app_credit_by_recent ON app_credit (owner, app_id, expavg_credit);
CREATE INDEX app_credit_by_total ON app_credit (owner, app_id, total_credit);

-- What an app's jobs did on each day; kept for ever.
CREATE TABLE app_day (
    app_id INTEGER NOT NULL,
    day INTEGER NOT NULL,
    n_success INTEGER DEFAULT 0 NOT NULL,  -- jobs done …
    n_error INTEGER DEFAULT 0 NOT NULL,  -- … and given up
    n_unsent INTEGER DEFAULT 0 NOT NULL,  -- tasks, when they were last counted on that day
    n_in_progress INTEGER DEFAULT 0 NOT NULL,
    n_results INTEGER DEFAULT 0 NOT NULL,  -- credited
    granted REAL DEFAULT 0 NOT NULL,
    n_hosts INTEGER DEFAULT 0 NOT NULL,  -- that were credited
    PRIMARY KEY (app_id, day)
);

-- The last day on which a computer was credited for an app, so that the computers of a day are counted once.
CREATE TABLE app_host_day (
    app_id INTEGER NOT NULL,
    host_id INTEGER NOT NULL,
    last_day INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (app_id, host_id)
);

CREATE TABLE app_version (
    id IDENTIFIER,
    app_id INTEGER DEFAULT 0 NOT NULL,
    platform TEXT DEFAULT '' NOT NULL,
    version_num INTEGER DEFAULT 0 NOT NULL,
    plan_class TEXT DEFAULT '' NOT NULL,
    deprecated INTEGER DEFAULT 0 NOT NULL,
    beta INTEGER DEFAULT 0 NOT NULL,
    api_version TEXT DEFAULT '' NOT NULL,
    command_line TEXT DEFAULT '' NOT NULL,
    files TEXT DEFAULT '[]' NOT NULL,
    min_client_version INTEGER DEFAULT 0 NOT NULL,
    max_client_version INTEGER DEFAULT 0 NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    rollout_fraction REAL DEFAULT 1 NOT NULL,  -- part of the hosts that may get it
    rollout_plan TEXT DEFAULT '{}' NOT NULL,  -- JSON: how that part grows (see policy/dispatch/rollout.py)
    pfc_n INTEGER DEFAULT 0 NOT NULL,
    pfc_avg REAL DEFAULT 0 NOT NULL,
    pfc_var REAL DEFAULT 0 NOT NULL,
    pfc_q REAL DEFAULT 0 NOT NULL,
    pfc_scale REAL DEFAULT 0 NOT NULL,  -- 0: not known
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    UNIQUE (app_id, platform, version_num, plan_class)
);

-- Who did what with the project; rows are only ever added.
CREATE TABLE audit_entry (
    id IDENTIFIER,
    time REAL DEFAULT 0 NOT NULL,
    actor TEXT DEFAULT '' NOT NULL,  -- user:ID NAME, token:ID NAME, or system
    origin TEXT DEFAULT '' NOT NULL,  -- web, api, command line, or server; and the address
    action TEXT DEFAULT '' NOT NULL,
    target TEXT DEFAULT '' NOT NULL,  -- noun and id, such as "host 12"
    before TEXT DEFAULT 'null' NOT NULL,  -- JSON
    after TEXT DEFAULT 'null' NOT NULL
);
CREATE INDEX audit_by_target ON audit_entry (target);

CREATE TABLE badge (
    id IDENTIFIER,
    kind TEXT DEFAULT '' NOT NULL,  -- total, recent or rank
    level REAL DEFAULT 0 NOT NULL,  -- credit, credit a day, or the best so many percent
    UNIQUE (kind, level)
);

CREATE TABLE badge_owner (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    badge_id INTEGER NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id, badge_id)
);

CREATE TABLE batch (
    id IDENTIFIER,
    name TEXT DEFAULT '' NOT NULL,
    app_id INTEGER DEFAULT 0 NOT NULL,
    token_id INTEGER,
    request_key TEXT UNIQUE,  -- makes a repeated submission harmless
    state INTEGER DEFAULT 0 NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    complete_time REAL,
    njobs INTEGER DEFAULT 0 NOT NULL,
    n_success INTEGER DEFAULT 0 NOT NULL,
    n_error INTEGER DEFAULT 0 NOT NULL,
    priority INTEGER DEFAULT 0 NOT NULL,
    fair_weight REAL DEFAULT 1 NOT NULL,  -- share of its submitter, divided by the batches that he had running
    turn REAL DEFAULT 0 NOT NULL,  -- place in the queue of its last job
    released_seq INTEGER DEFAULT 0 NOT NULL,  -- of a retired batch: up to where answers were released; -1: all
    archived INTEGER DEFAULT 0 NOT NULL  -- of a retired batch: none of its jobs is left here
);
CREATE INDEX batch_to_archive ON batch (id) WHERE state = 4 AND archived = 0;
CREATE INDEX batch_unfinished ON batch (token_id) WHERE state IN (0, 1);

CREATE TABLE code_sign_key (
    id IDENTIFIER,
    public_key TEXT DEFAULT '' NOT NULL,  -- text in the family's form, stripped
    create_time REAL DEFAULT 0 NOT NULL,
    is_current INTEGER DEFAULT 0 NOT NULL,
    successor_signature TEXT DEFAULT '' NOT NULL  -- the current key, signed with this older one
);

-- What people agreed to, and took back: nothing is ever changed here, the last row of a kind holds.
CREATE TABLE consent (
    id IDENTIFIER,
    user_id INTEGER DEFAULT 0 NOT NULL,
    kind TEXT DEFAULT '' NOT NULL,
    agreed INTEGER DEFAULT 0 NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    source TEXT DEFAULT '' NOT NULL  -- page or program where it was said
);
CREATE INDEX consent_by_user ON consent (user_id, kind, id);

-- Its sums and recent averages.
CREATE TABLE contribution (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    total_credit REAL DEFAULT 0 NOT NULL,  -- in the unit of the kind, and that a day
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id, kind)
);

-- The ledger of what computers gave beside computing; rows are only ever added.
CREATE TABLE contribution_entry (
    id IDENTIFIER,
    time REAL DEFAULT 0 NOT NULL,
    kind TEXT DEFAULT '' NOT NULL,  -- storage: byte-days; received, sent: bytes
    host_id INTEGER DEFAULT 0 NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    amount REAL DEFAULT 0 NOT NULL,
    work_start REAL DEFAULT 0 NOT NULL,
    facts TEXT DEFAULT '{}' NOT NULL  -- JSON: what the amount was computed from
);
CREATE INDEX contribution_by_host ON contribution_entry (host_id, id);
CREATE INDEX contribution_by_user ON contribution_entry (user_id, id);

-- Credit since the first day, summed from the ledger by a daemon: days, of which old ones become weeks and spans of four weeks.
CREATE TABLE credit_day (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    day INTEGER NOT NULL,  -- the first one, days since 1970 (UTC)
    n_days INTEGER DEFAULT 1 NOT NULL,
    granted REAL DEFAULT 0 NOT NULL,
    n_results INTEGER DEFAULT 0 NOT NULL,
    total REAL DEFAULT 0 NOT NULL,  -- of all entries until then
    total_results INTEGER DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id, day)
);
CREATE INDEX credit_day_by_age ON credit_day (n_days, day);

-- When the daily task let averages decay that had not been touched: with the ledger, all that a recent average depends on.
CREATE TABLE credit_decay (
    id IDENTIFIER,
    time REAL DEFAULT 0 NOT NULL,
    table_name TEXT DEFAULT '' NOT NULL,
    first_id INTEGER DEFAULT 0 NOT NULL,
    last_id INTEGER DEFAULT 0 NOT NULL,
    last_entry_id INTEGER DEFAULT 0 NOT NULL  -- the newest ledger entry at that time
);

CREATE TABLE credit_entry (
    id IDENTIFIER,
    time REAL DEFAULT 0 NOT NULL,
    result_id INTEGER DEFAULT 0 NOT NULL,
    workunit_id INTEGER DEFAULT 0 NOT NULL,
    host_id INTEGER DEFAULT 0 NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    team_id INTEGER,
    app_version_id INTEGER,
    kind TEXT DEFAULT '' NOT NULL,  -- grant, trickle (provisional), correction
    system TEXT DEFAULT '' NOT NULL,
    claimed REAL DEFAULT 0 NOT NULL,
    granted REAL DEFAULT 0 NOT NULL,
    unit REAL DEFAULT 0 NOT NULL,  -- credit per GFLOPS-day
    work_start REAL DEFAULT 0 NOT NULL,
    reasons TEXT DEFAULT '[]' NOT NULL,
    facts TEXT DEFAULT '{}' NOT NULL  -- JSON: what the amount was computed from
);
CREATE INDEX credit_by_host ON credit_entry (host_id, time);
CREATE INDEX credit_by_result ON credit_entry (result_id);
CREATE INDEX credit_by_team ON credit_entry (team_id, time) WHERE team_id IS NOT NULL;
CREATE INDEX credit_by_user ON credit_entry (user_id, time);
-- A result is granted exactly once; corrections are further entries.
CREATE UNIQUE INDEX credit_once ON credit_entry (result_id) WHERE kind = 'grant';

-- When a new app version took over what a host had taught an earlier one: with the ledger, all that the means depend on.
CREATE TABLE credit_inheritance (
    id IDENTIFIER,
    time REAL DEFAULT 0 NOT NULL,
    host_id INTEGER DEFAULT 0 NOT NULL,
    from_version_id INTEGER DEFAULT 0 NOT NULL,
    to_version_id INTEGER DEFAULT 0 NOT NULL,
    last_entry_id INTEGER DEFAULT 0 NOT NULL  -- the newest ledger entry at that time
);

-- Ids of erased accounts and their computers, by which statistics sites know whom to forget.
CREATE TABLE deletion (
    owner TEXT NOT NULL,  -- user or host
    owner_id INTEGER NOT NULL,
    cpid TEXT DEFAULT '' NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id)
);

-- Sessions whose owners logged out before their time: their cookies are worth nothing any more.
CREATE TABLE ended_session (
    session_hash TEXT NOT NULL PRIMARY KEY,
    expire_time REAL DEFAULT 0 NOT NULL
);
CREATE INDEX ended_session_expired ON ended_session (expire_time);

CREATE TABLE file (
    name TEXT NOT NULL PRIMARY KEY,
    nbytes INTEGER DEFAULT 0 NOT NULL,
    md5 TEXT DEFAULT '' NOT NULL,
    gzipped_nbytes INTEGER,
    refs INTEGER DEFAULT 0 NOT NULL,  -- workunits and app versions that need it
    touched_time REAL DEFAULT 0 NOT NULL  -- last time that a client of the API said "I am about to refer to it"
);
CREATE INDEX file_unused ON file (touched_time) WHERE refs <= 0;

CREATE TABLE host (
    id IDENTIFIER,
    user_id INTEGER DEFAULT 0 NOT NULL,
    host_cpid TEXT DEFAULT '' NOT NULL,
    rpc_seqno INTEGER DEFAULT 0 NOT NULL,
    rpc_time REAL DEFAULT 0 NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    venue TEXT DEFAULT '' NOT NULL,
    domain_name TEXT DEFAULT '' NOT NULL,
    label TEXT DEFAULT '' NOT NULL,  -- the owner's own name for it
    hidden INTEGER DEFAULT 0 NOT NULL,  -- by its owner, also when the others are shown
    removed_time REAL,  -- the owner removed it from the list; it comes back when it calls again
    external_ip_addr TEXT DEFAULT '' NOT NULL,
    description TEXT DEFAULT '{}' NOT NULL,
    blocked_reason TEXT DEFAULT '' NOT NULL,
    trouble TEXT DEFAULT '' NOT NULL,  -- what apps of every platform lack there: a code and a fingerprint of the environment
    trouble_time REAL DEFAULT 0 NOT NULL,
    merged_into INTEGER,
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL
);
CREATE INDEX host_by_cpid ON host (user_id, host_cpid);
CREATE INDEX host_by_credit ON host (expavg_credit, id, merged_into, removed_time) WHERE merged_into IS NULL AND removed_time IS NULL;
CREATE INDEX host_by_total ON host (total_credit, id, merged_into, removed_time) WHERE merged_into IS NULL AND removed_time IS NULL;
CREATE INDEX host_merged ON host (merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX host_removed ON host (removed_time) WHERE removed_time IS NOT NULL;

CREATE TABLE host_app_version (
    host_id INTEGER NOT NULL,
    app_version_id INTEGER NOT NULL,
    max_jobs_per_day INTEGER DEFAULT 0 NOT NULL,
    n_jobs_today INTEGER DEFAULT 0 NOT NULL,
    quota_day INTEGER DEFAULT 0 NOT NULL,
    consecutive_valid INTEGER DEFAULT 0 NOT NULL,
    pfc_n INTEGER DEFAULT 0 NOT NULL,
    pfc_avg REAL DEFAULT 0 NOT NULL,
    pfc_var REAL DEFAULT 0 NOT NULL,
    pfc_q REAL DEFAULT 0 NOT NULL,
    et_n INTEGER DEFAULT 0 NOT NULL,
    et_avg REAL DEFAULT 0 NOT NULL,
    et_var REAL DEFAULT 0 NOT NULL,
    et_q REAL DEFAULT 0 NOT NULL,
    turnaround_n INTEGER DEFAULT 0 NOT NULL,
    turnaround_avg REAL DEFAULT 0 NOT NULL,
    turnaround_var REAL DEFAULT 0 NOT NULL,
    turnaround_q REAL DEFAULT 0 NOT NULL,
    error_rate REAL DEFAULT 0.1 NOT NULL,
    scale_probation INTEGER DEFAULT 1 NOT NULL,
    host_scale_time REAL DEFAULT 0 NOT NULL,
    bad_results INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (host_id, app_version_id)
);

-- What each computer claims to keep, and the question that it was asked (see `cobblestone.policy.storage`).
CREATE TABLE host_storage (
    host_id INTEGER NOT NULL PRIMARY KEY,
    nbytes INTEGER DEFAULT 0 NOT NULL,
    seen REAL DEFAULT 0 NOT NULL,
    proven REAL DEFAULT 0 NOT NULL,
    claimed REAL DEFAULT 0 NOT NULL,
    challenge TEXT,  -- JSON
    answer TEXT DEFAULT '' NOT NULL,
    answer_time REAL DEFAULT 0 NOT NULL,
    answer_claimed REAL DEFAULT 0 NOT NULL
);
CREATE INDEX host_storage_answered ON host_storage (host_id) WHERE answer <> '';

-- Files that computers were asked to keep for further jobs, while storage is counted.
CREATE TABLE kept_file (
    host_id INTEGER NOT NULL,
    file_name TEXT NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    network TEXT DEFAULT '' NOT NULL,  -- that the computer called from: one file counts once in it
    nbytes INTEGER DEFAULT 0 NOT NULL,
    listed INTEGER DEFAULT 0 NOT NULL,  -- the computer says that it has it
    counted INTEGER DEFAULT 0 NOT NULL,  -- 1: counts; -1: counts for another computer of this account or network; 0: not decided
    PRIMARY KEY (host_id, file_name)
);
CREATE INDEX kept_file_by_name ON kept_file (file_name, counted);
CREATE INDEX kept_file_to_count ON kept_file (host_id) WHERE listed = 1 AND counted = 0;

-- Mails on their way out.
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

CREATE TABLE meta (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT DEFAULT '' NOT NULL
);

-- When users and teams had their first result (0) and reached round amounts of credit.
CREATE TABLE milestone (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    credit INTEGER NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id, credit)
);

CREATE TABLE msg_from_host (
    id IDENTIFIER,
    host_id INTEGER DEFAULT 0 NOT NULL,
    result_name TEXT DEFAULT '' NOT NULL,
    variety TEXT DEFAULT '' NOT NULL,
    time INTEGER DEFAULT 0 NOT NULL,
    text TEXT DEFAULT '' NOT NULL,
    digest TEXT DEFAULT '' NOT NULL,
    receive_time REAL DEFAULT 0 NOT NULL,
    handled INTEGER DEFAULT 0 NOT NULL,
    UNIQUE (host_id, result_name, time, digest)
);

CREATE TABLE msg_to_host (
    id IDENTIFIER,
    host_id INTEGER DEFAULT 0 NOT NULL,
    result_name TEXT DEFAULT '' NOT NULL,
    text TEXT DEFAULT '' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    sent_time REAL
);
CREATE INDEX msg_to_host_waiting ON msg_to_host (host_id) WHERE sent_time IS NULL;

CREATE TABLE news (
    id IDENTIFIER,
    title TEXT DEFAULT '' NOT NULL,
    text TEXT DEFAULT '' NOT NULL,
    time REAL DEFAULT 0 NOT NULL
);

-- Links and codes that work once: for a new password, a new address, or in place of the second factor.
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

-- What volunteers say of themselves.
CREATE TABLE profile (
    user_id INTEGER NOT NULL PRIMARY KEY,
    text TEXT DEFAULT '' NOT NULL,
    picture BLOB,  -- made by us from what was sent
    searchable INTEGER DEFAULT 0 NOT NULL,  -- by search engines
    time REAL DEFAULT 0 NOT NULL
);

-- The state of the project every few minutes, for rates and small drawings.
CREATE TABLE project_sample (
    time REAL NOT NULL PRIMARY KEY,
    figures TEXT DEFAULT '{}' NOT NULL  -- JSON: name -> number
);

-- Inputs that were counted as received, each once per computer.
CREATE TABLE received_file (
    host_id INTEGER NOT NULL,
    file_name TEXT NOT NULL,
    PRIMARY KEY (host_id, file_name)
);
CREATE INDEX received_file_by_name ON received_file (file_name);

CREATE TABLE result (
    id IDENTIFIER,
    name TEXT DEFAULT '' NOT NULL UNIQUE,
    workunit_id INTEGER DEFAULT 0 NOT NULL,
    app_id INTEGER DEFAULT 0 NOT NULL,
    priority INTEGER DEFAULT 0 NOT NULL,
    turn REAL DEFAULT 0 NOT NULL,
    server_state INTEGER DEFAULT 2 NOT NULL,
    outcome INTEGER DEFAULT 0 NOT NULL,
    client_state INTEGER DEFAULT 0 NOT NULL,
    validate_state INTEGER DEFAULT 0 NOT NULL,
    file_delete_state INTEGER DEFAULT 0 NOT NULL,
    host_id INTEGER,
    user_id INTEGER,
    app_version_id INTEGER,
    create_time REAL DEFAULT 0 NOT NULL,
    sent_time REAL,
    report_deadline REAL,
    received_time REAL,
    cpu_time REAL DEFAULT 0 NOT NULL,
    elapsed_time REAL DEFAULT 0 NOT NULL,
    exit_status INTEGER DEFAULT 0 NOT NULL,
    claimed_credit REAL DEFAULT 0 NOT NULL,
    granted_credit REAL DEFAULT 0 NOT NULL,
    peak_flops REAL DEFAULT 0 NOT NULL,
    fpops_counted REAL DEFAULT 0 NOT NULL,
    intops_counted REAL DEFAULT 0 NOT NULL,
    outlier INTEGER DEFAULT 0 NOT NULL,  -- the validator asks to keep its run time out of statistics
    trickle_seconds REAL DEFAULT 0 NOT NULL,  -- run time that trickle messages were credited for
    told_remaining REAL,  -- seconds that the client said it still needs, of a job that will be late
    told_time REAL  -- when it said so
);
CREATE INDEX result_by_app ON result (app_id);
CREATE INDEX result_by_host ON result (host_id, id);
CREATE INDEX result_by_user ON result (user_id, id);
CREATE INDEX result_by_workunit ON result (workunit_id, user_id);
CREATE INDEX result_delete ON result (id) WHERE file_delete_state = 1;
CREATE INDEX result_in_progress ON result (host_id) WHERE server_state = 4;
CREATE INDEX result_unsent ON result (priority DESC, turn, id) WHERE server_state = 2;

CREATE TABLE result_text (
    result_id INTEGER NOT NULL PRIMARY KEY,
    stderr BLOB,  -- zlib
    report TEXT DEFAULT '{}' NOT NULL  -- JSON: reasons, peak memory and disk, counted FLOPs, files as reported
);

-- The processes of the server that were heard of within a day.
CREATE TABLE server_process (
    process_key TEXT NOT NULL PRIMARY KEY,
    host TEXT DEFAULT '' NOT NULL,
    pid INTEGER DEFAULT 0 NOT NULL,
    roles TEXT DEFAULT '' NOT NULL,  -- separated by spaces
    version TEXT DEFAULT '' NOT NULL,
    started REAL DEFAULT 0 NOT NULL,
    beat_time REAL DEFAULT 0 NOT NULL,
    ended INTEGER DEFAULT 0 NOT NULL,
    daemons TEXT DEFAULT '[]' NOT NULL  -- JSON: name, state, last beat and last error of each
);

CREATE TABLE team (
    id IDENTIFIER,
    name TEXT DEFAULT '' NOT NULL,
    name_lc TEXT DEFAULT '' NOT NULL UNIQUE,
    founder_id INTEGER,
    create_time REAL DEFAULT 0 NOT NULL,
    description TEXT DEFAULT '' NOT NULL,
    url TEXT DEFAULT '' NOT NULL,
    country TEXT DEFAULT '' NOT NULL,
    joinable INTEGER DEFAULT 1 NOT NULL,
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL
);
CREATE INDEX team_by_credit ON team (expavg_credit, id);
CREATE INDEX team_by_total ON team (total_credit, id);

-- What founders tell their teams.
CREATE TABLE team_message (
    id IDENTIFIER,
    team_id INTEGER DEFAULT 0 NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    title TEXT DEFAULT '' NOT NULL,
    text TEXT DEFAULT '' NOT NULL,
    time REAL DEFAULT 0 NOT NULL
);
CREATE INDEX team_message_by_team ON team_message (team_id, id);

-- Accounts whose credit an account manager is told, under names of its own.
CREATE TABLE told_account (
    token_id INTEGER NOT NULL,
    account TEXT NOT NULL,
    user_id INTEGER NOT NULL,
    weak_authenticator TEXT DEFAULT '' NOT NULL,  -- that it showed: with another one it is told nothing any more
    enrol_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (token_id, account),
    UNIQUE (token_id, user_id)
);

CREATE TABLE upload (
    name TEXT NOT NULL PRIMARY KEY,
    result_id INTEGER DEFAULT 0 NOT NULL,
    nbytes INTEGER DEFAULT 0 NOT NULL,
    md5 TEXT DEFAULT '' NOT NULL,
    gzipped INTEGER DEFAULT 0 NOT NULL,
    data BLOB,  -- small files; NULL: on disk, see files.py
    time REAL DEFAULT 0 NOT NULL
);
CREATE INDEX upload_by_result ON upload (result_id);

CREATE TABLE user_account (
    id IDENTIFIER,
    name TEXT DEFAULT '' NOT NULL,
    email_addr TEXT DEFAULT '' NOT NULL UNIQUE,
    authenticator TEXT DEFAULT '' NOT NULL UNIQUE,
    weak_authenticator TEXT DEFAULT '' NOT NULL UNIQUE,
    passwd_hash TEXT DEFAULT '' NOT NULL,
    cross_project_id TEXT DEFAULT '' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    team_id INTEGER,
    venue TEXT DEFAULT '' NOT NULL,
    country TEXT DEFAULT '' NOT NULL,
    url TEXT DEFAULT '' NOT NULL,
    global_prefs TEXT DEFAULT '' NOT NULL,
    global_prefs_time REAL DEFAULT 0 NOT NULL,
    project_prefs TEXT DEFAULT '' NOT NULL,
    show_hosts INTEGER DEFAULT 1 NOT NULL,
    role TEXT DEFAULT '' NOT NULL,  -- empty: volunteer; operator
    blocked_reason TEXT DEFAULT '' NOT NULL,  -- not empty: its computers get no work
    send_email INTEGER DEFAULT 1 NOT NULL,  -- about computers that fail
    language TEXT DEFAULT '' NOT NULL,  -- of pages and mails; empty: the browser's
    totp_secret TEXT DEFAULT '' NOT NULL,  -- sealed with the project's secret; empty: no second factor
    totp_step INTEGER DEFAULT 0 NOT NULL,  -- the last one-time password that was used
    session_epoch INTEGER DEFAULT 0 NOT NULL,  -- raised to end all sessions
    erase_time REAL,  -- when the account is to be erased
    erased_time REAL,
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    email_verified_time REAL,  -- when a link that was sent to the address was opened
    team_messages INTEGER DEFAULT 1 NOT NULL  -- messages of the team's founder
);
CREATE INDEX user_by_credit ON user_account (expavg_credit, id, erased_time) WHERE erased_time IS NULL;
CREATE INDEX user_by_team ON user_account (team_id);
CREATE INDEX user_by_total ON user_account (total_credit, id, erased_time) WHERE erased_time IS NULL;
CREATE INDEX user_to_erase ON user_account (erase_time) WHERE erase_time IS NOT NULL AND erased_time IS NULL;

CREATE TABLE workunit (
    id IDENTIFIER,
    name TEXT DEFAULT '' NOT NULL UNIQUE,
    app_id INTEGER DEFAULT 0 NOT NULL,
    batch_id INTEGER,
    label TEXT DEFAULT '' NOT NULL,  -- the submitter's own name of the job
    create_time REAL DEFAULT 0 NOT NULL,
    priority INTEGER DEFAULT 0 NOT NULL,
    command_line TEXT DEFAULT '' NOT NULL,
    input_files TEXT DEFAULT '[]' NOT NULL,
    output_specs TEXT DEFAULT '[]' NOT NULL,
    rsc_fpops_est REAL DEFAULT 0 NOT NULL,
    rsc_fpops_bound REAL DEFAULT 0 NOT NULL,
    rsc_memory_bound REAL DEFAULT 0 NOT NULL,
    rsc_disk_bound REAL DEFAULT 0 NOT NULL,
    rsc_bandwidth_bound REAL DEFAULT 0 NOT NULL,
    delay_bound REAL DEFAULT 0 NOT NULL,
    min_quorum INTEGER DEFAULT 0 NOT NULL,
    target_nresults INTEGER DEFAULT 0 NOT NULL,
    max_error_results INTEGER DEFAULT 0 NOT NULL,
    max_total_results INTEGER DEFAULT 0 NOT NULL,
    max_success_results INTEGER DEFAULT 0 NOT NULL,
    need_validate INTEGER DEFAULT 0 NOT NULL,
    canonical_result_id INTEGER,
    canonical_credit REAL DEFAULT 0 NOT NULL,
    fixed_credit REAL DEFAULT 0 NOT NULL,
    transition_time REAL,
    error_mask INTEGER DEFAULT 0 NOT NULL,
    assimilate_state INTEGER DEFAULT 0 NOT NULL,
    file_delete_state INTEGER DEFAULT 0 NOT NULL,
    hr_class INTEGER DEFAULT 0 NOT NULL,
    app_version_id INTEGER,
    target_host_id INTEGER,
    target_user_id INTEGER,
    target_team_id INTEGER,
    size_class INTEGER DEFAULT -1 NOT NULL,
    turn REAL DEFAULT 0 NOT NULL,  -- place in the queue among results of one priority
    completed_seq INTEGER,  -- position in the batch's list of finished jobs
    completed_time REAL,
    handler_failures INTEGER DEFAULT 0 NOT NULL,  -- times that the project's own function failed on it
    retry_time REAL DEFAULT 0 NOT NULL,  -- do not try validation or assimilation again before
    handler_problem TEXT DEFAULT '' NOT NULL  -- what that function said last; empty: nothing is wrong
);
CREATE INDEX wu_archive ON workunit (batch_id, completed_time) WHERE file_delete_state = 2;
CREATE INDEX wu_assimilate ON workunit (id) WHERE assimilate_state = 1;
CREATE INDEX wu_by_batch ON workunit (batch_id, completed_seq);
CREATE INDEX wu_delete ON workunit (id) WHERE file_delete_state = 1;
CREATE INDEX wu_due ON workunit (transition_time) WHERE transition_time IS NOT NULL;
CREATE INDEX wu_targeted ON workunit (id) WHERE assimilate_state = 0
    AND (target_host_id IS NOT NULL OR target_user_id IS NOT NULL OR target_team_id IS NOT NULL);
CREATE INDEX wu_validate ON workunit (id) WHERE need_validate = 1;
