CREATE TABLE api_reply (
    request_key TEXT NOT NULL PRIMARY KEY,
    digest TEXT DEFAULT '' NOT NULL,
    reply TEXT DEFAULT '' NOT NULL,
    expire_time REAL DEFAULT 0 NOT NULL
);
CREATE INDEX api_reply_expired ON api_reply (expire_time);

CREATE TABLE api_token (
    id IDENTIFIER,
    name TEXT DEFAULT '' NOT NULL,
    token_hash TEXT DEFAULT '' NOT NULL UNIQUE,
    user_id INTEGER,
    scopes TEXT DEFAULT '' NOT NULL,
    share REAL DEFAULT 1 NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    expire_time REAL,
    revoke_time REAL,
    host_id INTEGER
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
    fixed_credit REAL DEFAULT 0 NOT NULL,
    host_scale_check INTEGER DEFAULT 0 NOT NULL,
    partial_credit INTEGER DEFAULT 0 NOT NULL,
    credit_per_cpu_second REAL DEFAULT 0 NOT NULL,
    credit_function TEXT DEFAULT '' NOT NULL,
    min_avg_pfc REAL DEFAULT 1 NOT NULL,
    flops_scale REAL DEFAULT 1 NOT NULL,
    counted_benchmark_credit REAL DEFAULT 0 NOT NULL,
    counted_credit REAL DEFAULT 0 NOT NULL,
    counted_cpu_seconds REAL DEFAULT 0 NOT NULL,
    counted_jobs INTEGER DEFAULT 0 NOT NULL,
    limits TEXT DEFAULT '{}' NOT NULL,
    rules TEXT DEFAULT '{}' NOT NULL,
    output_specs TEXT DEFAULT '[]' NOT NULL,
    dispatch TEXT DEFAULT '{}' NOT NULL,
    command TEXT DEFAULT '[]' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    show_outputs INTEGER DEFAULT 0 NOT NULL
);

CREATE TABLE app_credit (
    owner TEXT NOT NULL,
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
    rollout_fraction REAL DEFAULT 1 NOT NULL,
    rollout_plan TEXT DEFAULT '{}' NOT NULL,
    pfc_n INTEGER DEFAULT 0 NOT NULL,
    pfc_avg REAL DEFAULT 0 NOT NULL,
    pfc_var REAL DEFAULT 0 NOT NULL,
    pfc_q REAL DEFAULT 0 NOT NULL,
    pfc_scale REAL DEFAULT 0 NOT NULL,
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    UNIQUE (app_id, platform, version_num, plan_class)
);

CREATE TABLE audit_entry (
    id IDENTIFIER,
    time REAL DEFAULT 0 NOT NULL,
    actor TEXT DEFAULT '' NOT NULL,
    origin TEXT DEFAULT '' NOT NULL,
    action TEXT DEFAULT '' NOT NULL,
    target TEXT DEFAULT '' NOT NULL,
    before TEXT DEFAULT 'null' NOT NULL,
    after TEXT DEFAULT 'null' NOT NULL
);
CREATE INDEX audit_by_target ON audit_entry (target);

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

CREATE TABLE batch (
    id IDENTIFIER,
    name TEXT DEFAULT '' NOT NULL,
    app_id INTEGER DEFAULT 0 NOT NULL,
    token_id INTEGER,
    request_key TEXT UNIQUE,
    state INTEGER DEFAULT 0 NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    complete_time REAL,
    njobs INTEGER DEFAULT 0 NOT NULL,
    n_success INTEGER DEFAULT 0 NOT NULL,
    n_error INTEGER DEFAULT 0 NOT NULL,
    priority INTEGER DEFAULT 0 NOT NULL,
    fair_weight REAL DEFAULT 1 NOT NULL,
    turn REAL DEFAULT 0 NOT NULL,
    released_seq INTEGER DEFAULT 0 NOT NULL,
    archived INTEGER DEFAULT 0 NOT NULL
);
CREATE INDEX batch_to_archive ON batch (id) WHERE state = 4 AND archived = 0;
CREATE INDEX batch_unfinished ON batch (token_id) WHERE state IN (0, 1);

CREATE TABLE code_sign_key (
    id IDENTIFIER,
    public_key TEXT DEFAULT '' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    is_current INTEGER DEFAULT 0 NOT NULL,
    successor_signature TEXT DEFAULT '' NOT NULL
);

CREATE TABLE consent (
    id IDENTIFIER,
    user_id INTEGER DEFAULT 0 NOT NULL,
    kind TEXT DEFAULT '' NOT NULL,
    agreed INTEGER DEFAULT 0 NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    source TEXT DEFAULT '' NOT NULL
);
CREATE INDEX consent_by_user ON consent (user_id, kind, id);

CREATE TABLE contribution (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id, kind)
);

CREATE TABLE contribution_entry (
    id IDENTIFIER,
    time REAL DEFAULT 0 NOT NULL,
    kind TEXT DEFAULT '' NOT NULL,
    host_id INTEGER DEFAULT 0 NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    amount REAL DEFAULT 0 NOT NULL,
    work_start REAL DEFAULT 0 NOT NULL,
    facts TEXT DEFAULT '{}' NOT NULL
);
CREATE INDEX contribution_by_host ON contribution_entry (host_id, id);
CREATE INDEX contribution_by_user ON contribution_entry (user_id, id);

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

CREATE TABLE credit_decay (
    id IDENTIFIER,
    time REAL DEFAULT 0 NOT NULL,
    table_name TEXT DEFAULT '' NOT NULL,
    first_id INTEGER DEFAULT 0 NOT NULL,
    last_id INTEGER DEFAULT 0 NOT NULL,
    last_entry_id INTEGER DEFAULT 0 NOT NULL
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
    kind TEXT DEFAULT '' NOT NULL,
    system TEXT DEFAULT '' NOT NULL,
    claimed REAL DEFAULT 0 NOT NULL,
    granted REAL DEFAULT 0 NOT NULL,
    unit REAL DEFAULT 0 NOT NULL,
    work_start REAL DEFAULT 0 NOT NULL,
    reasons TEXT DEFAULT '[]' NOT NULL,
    facts TEXT DEFAULT '{}' NOT NULL
);
CREATE INDEX credit_by_host ON credit_entry (host_id, time);
CREATE INDEX credit_by_result ON credit_entry (result_id);
CREATE INDEX credit_by_team ON credit_entry (team_id, time) WHERE team_id IS NOT NULL;
CREATE INDEX credit_by_user ON credit_entry (user_id, time);
CREATE UNIQUE INDEX credit_once ON credit_entry (result_id) WHERE kind = 'grant';

CREATE TABLE credit_inheritance (
    id IDENTIFIER,
    time REAL DEFAULT 0 NOT NULL,
    host_id INTEGER DEFAULT 0 NOT NULL,
    from_version_id INTEGER DEFAULT 0 NOT NULL,
    to_version_id INTEGER DEFAULT 0 NOT NULL,
    last_entry_id INTEGER DEFAULT 0 NOT NULL
);

CREATE TABLE deletion (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    cpid TEXT DEFAULT '' NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id)
);

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
    refs INTEGER DEFAULT 0 NOT NULL,
    touched_time REAL DEFAULT 0 NOT NULL
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
    label TEXT DEFAULT '' NOT NULL,
    hidden INTEGER DEFAULT 0 NOT NULL,
    removed_time REAL,
    external_ip_addr TEXT DEFAULT '' NOT NULL,
    description TEXT DEFAULT '{}' NOT NULL,
    blocked_reason TEXT DEFAULT '' NOT NULL,
    trouble TEXT DEFAULT '' NOT NULL,
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

CREATE TABLE host_storage (
    host_id INTEGER NOT NULL PRIMARY KEY,
    nbytes INTEGER DEFAULT 0 NOT NULL,
    seen REAL DEFAULT 0 NOT NULL,
    proven REAL DEFAULT 0 NOT NULL,
    claimed REAL DEFAULT 0 NOT NULL,
    challenge TEXT,
    answer TEXT DEFAULT '' NOT NULL,
    answer_time REAL DEFAULT 0 NOT NULL,
    answer_claimed REAL DEFAULT 0 NOT NULL
);
CREATE INDEX host_storage_answered ON host_storage (host_id) WHERE answer <> '';

CREATE TABLE kept_file (
    host_id INTEGER NOT NULL,
    file_name TEXT NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    network TEXT DEFAULT '' NOT NULL,
    nbytes INTEGER DEFAULT 0 NOT NULL,
    listed INTEGER DEFAULT 0 NOT NULL,
    counted INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (host_id, file_name)
);
CREATE INDEX kept_file_by_name ON kept_file (file_name, counted);
CREATE INDEX kept_file_to_count ON kept_file (host_id) WHERE listed = 1 AND counted = 0;

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

CREATE TABLE profile (
    user_id INTEGER NOT NULL PRIMARY KEY,
    text TEXT DEFAULT '' NOT NULL,
    picture BLOB,
    searchable INTEGER DEFAULT 0 NOT NULL,
    time REAL DEFAULT 0 NOT NULL
);

CREATE TABLE project_sample (
    time REAL NOT NULL PRIMARY KEY,
    figures TEXT DEFAULT '{}' NOT NULL
);

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
    outlier INTEGER DEFAULT 0 NOT NULL,
    trickle_seconds REAL DEFAULT 0 NOT NULL,
    told_remaining REAL,
    told_time REAL
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
    stderr BLOB,
    report TEXT DEFAULT '{}' NOT NULL
);

CREATE TABLE server_process (
    process_key TEXT NOT NULL PRIMARY KEY,
    host TEXT DEFAULT '' NOT NULL,
    pid INTEGER DEFAULT 0 NOT NULL,
    roles TEXT DEFAULT '' NOT NULL,
    version TEXT DEFAULT '' NOT NULL,
    started REAL DEFAULT 0 NOT NULL,
    beat_time REAL DEFAULT 0 NOT NULL,
    ended INTEGER DEFAULT 0 NOT NULL,
    daemons TEXT DEFAULT '[]' NOT NULL
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

CREATE TABLE team_message (
    id IDENTIFIER,
    team_id INTEGER DEFAULT 0 NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    title TEXT DEFAULT '' NOT NULL,
    text TEXT DEFAULT '' NOT NULL,
    time REAL DEFAULT 0 NOT NULL
);
CREATE INDEX team_message_by_team ON team_message (team_id, id);

CREATE TABLE told_account (
    token_id INTEGER NOT NULL,
    account TEXT NOT NULL,
    user_id INTEGER NOT NULL,
    weak_authenticator TEXT DEFAULT '' NOT NULL,
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
    data BLOB,
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
    role TEXT DEFAULT '' NOT NULL,
    blocked_reason TEXT DEFAULT '' NOT NULL,
    send_email INTEGER DEFAULT 1 NOT NULL,
    language TEXT DEFAULT '' NOT NULL,
    totp_secret TEXT DEFAULT '' NOT NULL,
    totp_step INTEGER DEFAULT 0 NOT NULL,
    session_epoch INTEGER DEFAULT 0 NOT NULL,
    erase_time REAL,
    erased_time REAL,
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    email_verified_time REAL,
    team_messages INTEGER DEFAULT 1 NOT NULL
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
    label TEXT DEFAULT '' NOT NULL,
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
    turn REAL DEFAULT 0 NOT NULL,
    completed_seq INTEGER,
    completed_time REAL,
    handler_failures INTEGER DEFAULT 0 NOT NULL,
    retry_time REAL DEFAULT 0 NOT NULL,
    handler_problem TEXT DEFAULT '' NOT NULL
);
CREATE INDEX wu_archive ON workunit (batch_id, completed_time) WHERE file_delete_state = 2;
CREATE INDEX wu_assimilate ON workunit (id) WHERE assimilate_state = 1;
CREATE INDEX wu_by_batch ON workunit (batch_id, completed_seq);
CREATE INDEX wu_delete ON workunit (id) WHERE file_delete_state = 1;
CREATE INDEX wu_due ON workunit (transition_time) WHERE transition_time IS NOT NULL;
CREATE INDEX wu_targeted ON workunit (id) WHERE assimilate_state = 0
    AND (target_host_id IS NOT NULL OR target_user_id IS NOT NULL OR target_team_id IS NOT NULL);
CREATE INDEX wu_validate ON workunit (id) WHERE need_validate = 1;
