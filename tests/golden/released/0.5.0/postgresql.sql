SELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.api_reply (
    request_key text NOT NULL,
    digest text DEFAULT ''::text NOT NULL,
    reply text DEFAULT ''::text NOT NULL,
    expire_time double precision DEFAULT 0 NOT NULL
);
CREATE TABLE public.api_token (
    id bigint NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    token_hash text DEFAULT ''::text NOT NULL,
    user_id bigint,
    scopes text DEFAULT ''::text NOT NULL,
    share double precision DEFAULT 1 NOT NULL,
    create_time double precision DEFAULT 0 NOT NULL,
    expire_time double precision,
    revoke_time double precision,
    host_id bigint,
    apps text,
    max_jobs bigint
);
CREATE SEQUENCE public.api_token_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.api_token_id_seq OWNED BY public.api_token.id;
CREATE TABLE public.app (
    id bigint NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    user_friendly_name text DEFAULT ''::text NOT NULL,
    deprecated bigint DEFAULT 0 NOT NULL,
    beta bigint DEFAULT 0 NOT NULL,
    comparison text DEFAULT '{}'::text NOT NULL,
    assimilator text DEFAULT ''::text NOT NULL,
    credit_system text DEFAULT ''::text NOT NULL,
    fixed_credit double precision DEFAULT 0 NOT NULL,
    host_scale_check bigint DEFAULT 0 NOT NULL,
    partial_credit bigint DEFAULT 0 NOT NULL,
    credit_per_cpu_second double precision DEFAULT 0 NOT NULL,
    credit_function text DEFAULT ''::text NOT NULL,
    min_avg_pfc double precision DEFAULT 1 NOT NULL,
    flops_scale double precision DEFAULT 1 NOT NULL,
    counted_benchmark_credit double precision DEFAULT 0 NOT NULL,
    counted_credit double precision DEFAULT 0 NOT NULL,
    counted_cpu_seconds double precision DEFAULT 0 NOT NULL,
    counted_jobs bigint DEFAULT 0 NOT NULL,
    limits text DEFAULT '{}'::text NOT NULL,
    rules text DEFAULT '{}'::text NOT NULL,
    output_specs text DEFAULT '[]'::text NOT NULL,
    dispatch text DEFAULT '{}'::text NOT NULL,
    command text DEFAULT '[]'::text NOT NULL,
    create_time double precision DEFAULT 0 NOT NULL,
    show_outputs bigint DEFAULT 0 NOT NULL
);
CREATE TABLE public.app_credit (
    owner text NOT NULL,
    app_id bigint NOT NULL,
    owner_id bigint NOT NULL,
    n_results bigint DEFAULT 0 NOT NULL,
    total_credit double precision DEFAULT 0 NOT NULL,
    expavg_credit double precision DEFAULT 0 NOT NULL,
    expavg_time double precision DEFAULT 0 NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');
CREATE TABLE public.app_day (
    app_id bigint NOT NULL,
    day bigint NOT NULL,
    n_success bigint DEFAULT 0 NOT NULL,
    n_error bigint DEFAULT 0 NOT NULL,
    n_unsent bigint DEFAULT 0 NOT NULL,
    n_in_progress bigint DEFAULT 0 NOT NULL,
    n_results bigint DEFAULT 0 NOT NULL,
    granted double precision DEFAULT 0 NOT NULL,
    n_hosts bigint DEFAULT 0 NOT NULL
);
CREATE TABLE public.app_host_day (
    app_id bigint NOT NULL,
    host_id bigint NOT NULL,
    last_day bigint DEFAULT 0 NOT NULL
);
CREATE SEQUENCE public.app_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.app_id_seq OWNED BY public.app.id;
CREATE TABLE public.app_version (
    id bigint NOT NULL,
    app_id bigint DEFAULT 0 NOT NULL,
    platform text DEFAULT ''::text NOT NULL,
    version_num bigint DEFAULT 0 NOT NULL,
    plan_class text DEFAULT ''::text NOT NULL,
    deprecated bigint DEFAULT 0 NOT NULL,
    beta bigint DEFAULT 0 NOT NULL,
    api_version text DEFAULT ''::text NOT NULL,
    command_line text DEFAULT ''::text NOT NULL,
    files text DEFAULT '[]'::text NOT NULL,
    min_client_version bigint DEFAULT 0 NOT NULL,
    max_client_version bigint DEFAULT 0 NOT NULL,
    create_time double precision DEFAULT 0 NOT NULL,
    rollout_fraction double precision DEFAULT 1 NOT NULL,
    rollout_plan text DEFAULT '{}'::text NOT NULL,
    pfc_n bigint DEFAULT 0 NOT NULL,
    pfc_avg double precision DEFAULT 0 NOT NULL,
    pfc_var double precision DEFAULT 0 NOT NULL,
    pfc_q double precision DEFAULT 0 NOT NULL,
    pfc_scale double precision DEFAULT 0 NOT NULL,
    total_credit double precision DEFAULT 0 NOT NULL,
    expavg_credit double precision DEFAULT 0 NOT NULL,
    expavg_time double precision DEFAULT 0 NOT NULL
);
CREATE SEQUENCE public.app_version_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.app_version_id_seq OWNED BY public.app_version.id;
CREATE TABLE public.audit_entry (
    id bigint NOT NULL,
    "time" double precision DEFAULT 0 NOT NULL,
    actor text DEFAULT ''::text NOT NULL,
    origin text DEFAULT ''::text NOT NULL,
    action text DEFAULT ''::text NOT NULL,
    target text DEFAULT ''::text NOT NULL,
    before text DEFAULT 'null'::text NOT NULL,
    after text DEFAULT 'null'::text NOT NULL
);
CREATE SEQUENCE public.audit_entry_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.audit_entry_id_seq OWNED BY public.audit_entry.id;
CREATE TABLE public.badge (
    id bigint NOT NULL,
    kind text DEFAULT ''::text NOT NULL,
    level double precision DEFAULT 0 NOT NULL
);
CREATE SEQUENCE public.badge_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.badge_id_seq OWNED BY public.badge.id;
CREATE TABLE public.badge_owner (
    owner text NOT NULL,
    owner_id bigint NOT NULL,
    badge_id bigint NOT NULL,
    create_time double precision DEFAULT 0 NOT NULL
);
CREATE TABLE public.batch (
    id bigint NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    app_id bigint DEFAULT 0 NOT NULL,
    token_id bigint,
    request_key text,
    state bigint DEFAULT 0 NOT NULL,
    create_time double precision DEFAULT 0 NOT NULL,
    complete_time double precision,
    njobs bigint DEFAULT 0 NOT NULL,
    n_success bigint DEFAULT 0 NOT NULL,
    n_error bigint DEFAULT 0 NOT NULL,
    priority bigint DEFAULT 0 NOT NULL,
    fair_weight double precision DEFAULT 1 NOT NULL,
    turn double precision DEFAULT 0 NOT NULL,
    released_seq bigint DEFAULT 0 NOT NULL,
    archived bigint DEFAULT 0 NOT NULL
);
CREATE SEQUENCE public.batch_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.batch_id_seq OWNED BY public.batch.id;
CREATE TABLE public.code_sign_key (
    id bigint NOT NULL,
    public_key text DEFAULT ''::text NOT NULL,
    create_time double precision DEFAULT 0 NOT NULL,
    is_current bigint DEFAULT 0 NOT NULL,
    successor_signature text DEFAULT ''::text NOT NULL
);
CREATE SEQUENCE public.code_sign_key_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.code_sign_key_id_seq OWNED BY public.code_sign_key.id;
CREATE TABLE public.consent (
    id bigint NOT NULL,
    user_id bigint DEFAULT 0 NOT NULL,
    kind text DEFAULT ''::text NOT NULL,
    agreed bigint DEFAULT 0 NOT NULL,
    "time" double precision DEFAULT 0 NOT NULL,
    source text DEFAULT ''::text NOT NULL
);
CREATE SEQUENCE public.consent_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.consent_id_seq OWNED BY public.consent.id;
CREATE TABLE public.contribution (
    owner text NOT NULL,
    owner_id bigint NOT NULL,
    kind text NOT NULL,
    total_credit double precision DEFAULT 0 NOT NULL,
    expavg_credit double precision DEFAULT 0 NOT NULL,
    expavg_time double precision DEFAULT 0 NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');
CREATE TABLE public.contribution_entry (
    id bigint NOT NULL,
    "time" double precision DEFAULT 0 NOT NULL,
    kind text DEFAULT ''::text NOT NULL,
    host_id bigint DEFAULT 0 NOT NULL,
    user_id bigint DEFAULT 0 NOT NULL,
    amount double precision DEFAULT 0 NOT NULL,
    work_start double precision DEFAULT 0 NOT NULL,
    facts text DEFAULT '{}'::text NOT NULL
);
CREATE SEQUENCE public.contribution_entry_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.contribution_entry_id_seq OWNED BY public.contribution_entry.id;
CREATE TABLE public.credit_day (
    owner text NOT NULL,
    owner_id bigint NOT NULL,
    day bigint NOT NULL,
    n_days bigint DEFAULT 1 NOT NULL,
    granted double precision DEFAULT 0 NOT NULL,
    n_results bigint DEFAULT 0 NOT NULL,
    total double precision DEFAULT 0 NOT NULL,
    total_results bigint DEFAULT 0 NOT NULL,
    expavg_credit double precision DEFAULT 0 NOT NULL,
    expavg_time double precision DEFAULT 0 NOT NULL
);
CREATE TABLE public.credit_decay (
    id bigint NOT NULL,
    "time" double precision DEFAULT 0 NOT NULL,
    table_name text DEFAULT ''::text NOT NULL,
    first_id bigint DEFAULT 0 NOT NULL,
    last_id bigint DEFAULT 0 NOT NULL,
    last_entry_id bigint DEFAULT 0 NOT NULL
);
CREATE SEQUENCE public.credit_decay_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.credit_decay_id_seq OWNED BY public.credit_decay.id;
CREATE TABLE public.credit_entry (
    id bigint NOT NULL,
    "time" double precision DEFAULT 0 NOT NULL,
    result_id bigint DEFAULT 0 NOT NULL,
    workunit_id bigint DEFAULT 0 NOT NULL,
    host_id bigint DEFAULT 0 NOT NULL,
    user_id bigint DEFAULT 0 NOT NULL,
    team_id bigint,
    app_version_id bigint,
    kind text DEFAULT ''::text NOT NULL,
    system text DEFAULT ''::text NOT NULL,
    claimed double precision DEFAULT 0 NOT NULL,
    granted double precision DEFAULT 0 NOT NULL,
    unit double precision DEFAULT 0 NOT NULL,
    work_start double precision DEFAULT 0 NOT NULL,
    reasons text DEFAULT '[]'::text NOT NULL,
    facts text DEFAULT '{}'::text NOT NULL
);
CREATE SEQUENCE public.credit_entry_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.credit_entry_id_seq OWNED BY public.credit_entry.id;
CREATE TABLE public.credit_inheritance (
    id bigint NOT NULL,
    "time" double precision DEFAULT 0 NOT NULL,
    host_id bigint DEFAULT 0 NOT NULL,
    from_version_id bigint DEFAULT 0 NOT NULL,
    to_version_id bigint DEFAULT 0 NOT NULL,
    last_entry_id bigint DEFAULT 0 NOT NULL
);
CREATE SEQUENCE public.credit_inheritance_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.credit_inheritance_id_seq OWNED BY public.credit_inheritance.id;
CREATE TABLE public.deletion (
    owner text NOT NULL,
    owner_id bigint NOT NULL,
    cpid text DEFAULT ''::text NOT NULL,
    "time" double precision DEFAULT 0 NOT NULL
);
CREATE TABLE public.ended_session (
    session_hash text NOT NULL,
    expire_time double precision DEFAULT 0 NOT NULL
);
CREATE TABLE public.escrow (
    result_id bigint NOT NULL,
    workunit_id bigint DEFAULT 0 NOT NULL,
    app_id bigint DEFAULT 0 NOT NULL,
    host_id bigint DEFAULT 0 NOT NULL,
    app_version_id bigint DEFAULT 0 NOT NULL,
    usage text DEFAULT ''::text NOT NULL,
    user_id bigint DEFAULT 0 NOT NULL,
    price double precision DEFAULT 0 NOT NULL,
    audit bigint DEFAULT 0 NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');
CREATE TABLE public.file (
    name text NOT NULL,
    nbytes bigint DEFAULT 0 NOT NULL,
    md5 text DEFAULT ''::text NOT NULL,
    gzipped_nbytes bigint,
    refs bigint DEFAULT 0 NOT NULL,
    touched_time double precision DEFAULT 0 NOT NULL
);
CREATE TABLE public.host (
    id bigint NOT NULL,
    user_id bigint DEFAULT 0 NOT NULL,
    host_cpid text DEFAULT ''::text NOT NULL,
    rpc_seqno bigint DEFAULT 0 NOT NULL,
    rpc_time double precision DEFAULT 0 NOT NULL,
    create_time double precision DEFAULT 0 NOT NULL,
    venue text DEFAULT ''::text NOT NULL,
    domain_name text DEFAULT ''::text NOT NULL,
    label text DEFAULT ''::text NOT NULL,
    hidden bigint DEFAULT 0 NOT NULL,
    removed_time double precision,
    external_ip_addr text DEFAULT ''::text NOT NULL,
    description text DEFAULT '{}'::text NOT NULL,
    blocked_reason text DEFAULT ''::text NOT NULL,
    trouble text DEFAULT ''::text NOT NULL,
    trouble_time double precision DEFAULT 0 NOT NULL,
    merged_into bigint,
    total_credit double precision DEFAULT 0 NOT NULL,
    expavg_credit double precision DEFAULT 0 NOT NULL,
    expavg_time double precision DEFAULT 0 NOT NULL
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');
CREATE TABLE public.host_app_version (
    host_id bigint NOT NULL,
    app_version_id bigint NOT NULL,
    max_jobs_per_day bigint DEFAULT 0 NOT NULL,
    n_jobs_today bigint DEFAULT 0 NOT NULL,
    quota_day bigint DEFAULT 0 NOT NULL,
    consecutive_valid bigint DEFAULT 0 NOT NULL,
    pfc_n bigint DEFAULT 0 NOT NULL,
    pfc_avg double precision DEFAULT 0 NOT NULL,
    pfc_var double precision DEFAULT 0 NOT NULL,
    pfc_q double precision DEFAULT 0 NOT NULL,
    et_n bigint DEFAULT 0 NOT NULL,
    et_avg double precision DEFAULT 0 NOT NULL,
    et_var double precision DEFAULT 0 NOT NULL,
    et_q double precision DEFAULT 0 NOT NULL,
    turnaround_n bigint DEFAULT 0 NOT NULL,
    turnaround_avg double precision DEFAULT 0 NOT NULL,
    turnaround_var double precision DEFAULT 0 NOT NULL,
    turnaround_q double precision DEFAULT 0 NOT NULL,
    error_rate double precision DEFAULT 0.1 NOT NULL,
    scale_probation bigint DEFAULT 1 NOT NULL,
    host_scale_time double precision DEFAULT 0 NOT NULL,
    bad_results bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');
CREATE SEQUENCE public.host_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.host_id_seq OWNED BY public.host.id;
CREATE TABLE public.host_storage (
    host_id bigint NOT NULL,
    nbytes bigint DEFAULT 0 NOT NULL,
    seen double precision DEFAULT 0 NOT NULL,
    proven double precision DEFAULT 0 NOT NULL,
    claimed double precision DEFAULT 0 NOT NULL,
    challenge text,
    answer text DEFAULT ''::text NOT NULL,
    answer_time double precision DEFAULT 0 NOT NULL,
    answer_claimed double precision DEFAULT 0 NOT NULL
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');
CREATE TABLE public.kept_file (
    host_id bigint NOT NULL,
    file_name text NOT NULL,
    user_id bigint DEFAULT 0 NOT NULL,
    network text DEFAULT ''::text NOT NULL,
    nbytes bigint DEFAULT 0 NOT NULL,
    listed bigint DEFAULT 0 NOT NULL,
    counted bigint DEFAULT 0 NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');
CREATE TABLE public.ledger_event (
    app_id bigint NOT NULL,
    seq bigint NOT NULL,
    "time" double precision DEFAULT 0 NOT NULL,
    kind text DEFAULT ''::text NOT NULL,
    facts text DEFAULT '{}'::text NOT NULL
);
CREATE TABLE public.ledger_record (
    app_id bigint NOT NULL,
    host_id bigint NOT NULL,
    app_version_id bigint NOT NULL,
    usage text NOT NULL,
    state text DEFAULT '{}'::text NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');
CREATE TABLE public.mail (
    id bigint NOT NULL,
    create_time double precision DEFAULT 0 NOT NULL,
    recipient text DEFAULT ''::text NOT NULL,
    subject text DEFAULT ''::text NOT NULL,
    body text DEFAULT ''::text NOT NULL,
    attempts bigint DEFAULT 0 NOT NULL,
    next_time double precision DEFAULT 0 NOT NULL,
    sent_time double precision,
    error text DEFAULT ''::text NOT NULL
);
CREATE SEQUENCE public.mail_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.mail_id_seq OWNED BY public.mail.id;
CREATE TABLE public.meta (
    key text NOT NULL,
    value text DEFAULT ''::text NOT NULL
);
CREATE TABLE public.milestone (
    owner text NOT NULL,
    owner_id bigint NOT NULL,
    credit bigint NOT NULL,
    "time" double precision DEFAULT 0 NOT NULL
);
CREATE TABLE public.msg_from_host (
    id bigint NOT NULL,
    host_id bigint DEFAULT 0 NOT NULL,
    result_name text DEFAULT ''::text NOT NULL,
    variety text DEFAULT ''::text NOT NULL,
    "time" bigint DEFAULT 0 NOT NULL,
    text text DEFAULT ''::text NOT NULL,
    digest text DEFAULT ''::text NOT NULL,
    receive_time double precision DEFAULT 0 NOT NULL,
    handled bigint DEFAULT 0 NOT NULL
);
CREATE SEQUENCE public.msg_from_host_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.msg_from_host_id_seq OWNED BY public.msg_from_host.id;
CREATE TABLE public.msg_to_host (
    id bigint NOT NULL,
    host_id bigint DEFAULT 0 NOT NULL,
    result_name text DEFAULT ''::text NOT NULL,
    text text DEFAULT ''::text NOT NULL,
    create_time double precision DEFAULT 0 NOT NULL,
    sent_time double precision
);
CREATE SEQUENCE public.msg_to_host_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.msg_to_host_id_seq OWNED BY public.msg_to_host.id;
CREATE TABLE public.news (
    id bigint NOT NULL,
    title text DEFAULT ''::text NOT NULL,
    text text DEFAULT ''::text NOT NULL,
    "time" double precision DEFAULT 0 NOT NULL
);
CREATE SEQUENCE public.news_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.news_id_seq OWNED BY public.news.id;
CREATE TABLE public.one_time_code (
    id bigint NOT NULL,
    user_id bigint DEFAULT 0 NOT NULL,
    purpose text DEFAULT ''::text NOT NULL,
    code_hash text DEFAULT ''::text NOT NULL,
    payload text DEFAULT ''::text NOT NULL,
    create_time double precision DEFAULT 0 NOT NULL,
    expire_time double precision,
    used_time double precision
);
CREATE SEQUENCE public.one_time_code_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.one_time_code_id_seq OWNED BY public.one_time_code.id;
CREATE TABLE public.process_program (
    member text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    version text NOT NULL,
    schema text NOT NULL,
    until double precision NOT NULL
);
CREATE TABLE public.profile (
    user_id bigint NOT NULL,
    text text DEFAULT ''::text NOT NULL,
    picture bytea,
    searchable bigint DEFAULT 0 NOT NULL,
    "time" double precision DEFAULT 0 NOT NULL
);
CREATE TABLE public.project_sample (
    "time" double precision NOT NULL,
    figures text DEFAULT '{}'::text NOT NULL
);
CREATE TABLE public.received_file (
    host_id bigint NOT NULL,
    file_name text NOT NULL
);
CREATE TABLE public.result (
    id bigint NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    workunit_id bigint DEFAULT 0 NOT NULL,
    app_id bigint DEFAULT 0 NOT NULL,
    priority bigint DEFAULT 0 NOT NULL,
    turn double precision DEFAULT 0 NOT NULL,
    server_state bigint DEFAULT 2 NOT NULL,
    outcome bigint DEFAULT 0 NOT NULL,
    client_state bigint DEFAULT 0 NOT NULL,
    validate_state bigint DEFAULT 0 NOT NULL,
    file_delete_state bigint DEFAULT 0 NOT NULL,
    host_id bigint,
    user_id bigint,
    app_version_id bigint,
    create_time double precision DEFAULT 0 NOT NULL,
    sent_time double precision,
    report_deadline double precision,
    received_time double precision,
    cpu_time double precision DEFAULT 0 NOT NULL,
    elapsed_time double precision DEFAULT 0 NOT NULL,
    exit_status bigint DEFAULT 0 NOT NULL,
    claimed_credit double precision DEFAULT 0 NOT NULL,
    granted_credit double precision DEFAULT 0 NOT NULL,
    peak_flops double precision DEFAULT 0 NOT NULL,
    fpops_counted double precision DEFAULT 0 NOT NULL,
    intops_counted double precision DEFAULT 0 NOT NULL,
    outlier bigint DEFAULT 0 NOT NULL,
    trickle_seconds double precision DEFAULT 0 NOT NULL,
    told_remaining double precision,
    told_time double precision,
    avg_ncpus double precision DEFAULT 0 NOT NULL,
    checks bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');
CREATE SEQUENCE public.result_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.result_id_seq OWNED BY public.result.id;
CREATE TABLE public.result_text (
    result_id bigint NOT NULL,
    stderr bytea,
    report text DEFAULT '{}'::text NOT NULL
);
CREATE TABLE public.schema_bears (
    one boolean DEFAULT true NOT NULL,
    oldest text NOT NULL,
    CONSTRAINT schema_bears_one_check CHECK (one)
);
CREATE TABLE public.server_process (
    process_key text NOT NULL,
    host text DEFAULT ''::text NOT NULL,
    pid bigint DEFAULT 0 NOT NULL,
    roles text DEFAULT ''::text NOT NULL,
    version text DEFAULT ''::text NOT NULL,
    started double precision DEFAULT 0 NOT NULL,
    beat_time double precision DEFAULT 0 NOT NULL,
    ended bigint DEFAULT 0 NOT NULL,
    daemons text DEFAULT '[]'::text NOT NULL
);
CREATE TABLE public.team (
    id bigint NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    name_lc text DEFAULT ''::text NOT NULL,
    founder_id bigint,
    create_time double precision DEFAULT 0 NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    url text DEFAULT ''::text NOT NULL,
    country text DEFAULT ''::text NOT NULL,
    joinable bigint DEFAULT 1 NOT NULL,
    total_credit double precision DEFAULT 0 NOT NULL,
    expavg_credit double precision DEFAULT 0 NOT NULL,
    expavg_time double precision DEFAULT 0 NOT NULL,
    type bigint DEFAULT 1 NOT NULL,
    name_html text DEFAULT ''::text NOT NULL
);
CREATE SEQUENCE public.team_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.team_id_seq OWNED BY public.team.id;
CREATE TABLE public.team_message (
    id bigint NOT NULL,
    team_id bigint DEFAULT 0 NOT NULL,
    user_id bigint DEFAULT 0 NOT NULL,
    title text DEFAULT ''::text NOT NULL,
    text text DEFAULT ''::text NOT NULL,
    "time" double precision DEFAULT 0 NOT NULL
);
CREATE SEQUENCE public.team_message_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.team_message_id_seq OWNED BY public.team_message.id;
CREATE TABLE public.told_account (
    token_id bigint NOT NULL,
    account text NOT NULL,
    user_id bigint NOT NULL,
    weak_authenticator text DEFAULT ''::text NOT NULL,
    enrol_time double precision DEFAULT 0 NOT NULL
);
CREATE TABLE public.upload (
    name text NOT NULL,
    result_id bigint DEFAULT 0 NOT NULL,
    nbytes bigint DEFAULT 0 NOT NULL,
    md5 text DEFAULT ''::text NOT NULL,
    gzipped bigint DEFAULT 0 NOT NULL,
    data bytea,
    "time" double precision DEFAULT 0 NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');
CREATE TABLE public.user_account (
    id bigint NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    email_addr text DEFAULT ''::text NOT NULL,
    authenticator text DEFAULT ''::text NOT NULL,
    weak_authenticator text DEFAULT ''::text NOT NULL,
    passwd_hash text DEFAULT ''::text NOT NULL,
    cross_project_id text DEFAULT ''::text NOT NULL,
    create_time double precision DEFAULT 0 NOT NULL,
    team_id bigint,
    venue text DEFAULT ''::text NOT NULL,
    country text DEFAULT ''::text NOT NULL,
    url text DEFAULT ''::text NOT NULL,
    global_prefs text DEFAULT ''::text NOT NULL,
    global_prefs_time double precision DEFAULT 0 NOT NULL,
    project_prefs text DEFAULT ''::text NOT NULL,
    show_hosts bigint DEFAULT 1 NOT NULL,
    role text DEFAULT ''::text NOT NULL,
    blocked_reason text DEFAULT ''::text NOT NULL,
    send_email bigint DEFAULT 1 NOT NULL,
    language text DEFAULT ''::text NOT NULL,
    totp_secret text DEFAULT ''::text NOT NULL,
    totp_step bigint DEFAULT 0 NOT NULL,
    session_epoch bigint DEFAULT 0 NOT NULL,
    erase_time double precision,
    erased_time double precision,
    total_credit double precision DEFAULT 0 NOT NULL,
    expavg_credit double precision DEFAULT 0 NOT NULL,
    expavg_time double precision DEFAULT 0 NOT NULL,
    email_verified_time double precision,
    team_messages bigint DEFAULT 1 NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');
CREATE SEQUENCE public.user_account_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.user_account_id_seq OWNED BY public.user_account.id;
CREATE TABLE public.webhook (
    batch_id bigint NOT NULL,
    url text NOT NULL,
    secret text NOT NULL,
    told_seq bigint DEFAULT 0 NOT NULL,
    attempts bigint DEFAULT 0 NOT NULL,
    error text DEFAULT ''::text NOT NULL,
    next_time double precision
);
CREATE TABLE public.workunit (
    id bigint NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    app_id bigint DEFAULT 0 NOT NULL,
    batch_id bigint,
    label text DEFAULT ''::text NOT NULL,
    create_time double precision DEFAULT 0 NOT NULL,
    priority bigint DEFAULT 0 NOT NULL,
    command_line text DEFAULT ''::text NOT NULL,
    input_files text DEFAULT '[]'::text NOT NULL,
    output_specs text DEFAULT '[]'::text NOT NULL,
    rsc_fpops_est double precision DEFAULT 0 NOT NULL,
    rsc_fpops_bound double precision DEFAULT 0 NOT NULL,
    rsc_memory_bound double precision DEFAULT 0 NOT NULL,
    rsc_disk_bound double precision DEFAULT 0 NOT NULL,
    rsc_bandwidth_bound double precision DEFAULT 0 NOT NULL,
    delay_bound double precision DEFAULT 0 NOT NULL,
    min_quorum bigint DEFAULT 0 NOT NULL,
    target_nresults bigint DEFAULT 0 NOT NULL,
    max_error_results bigint DEFAULT 0 NOT NULL,
    max_total_results bigint DEFAULT 0 NOT NULL,
    max_success_results bigint DEFAULT 0 NOT NULL,
    need_validate bigint DEFAULT 0 NOT NULL,
    canonical_result_id bigint,
    canonical_credit double precision DEFAULT 0 NOT NULL,
    fixed_credit double precision DEFAULT 0 NOT NULL,
    transition_time double precision,
    error_mask bigint DEFAULT 0 NOT NULL,
    assimilate_state bigint DEFAULT 0 NOT NULL,
    file_delete_state bigint DEFAULT 0 NOT NULL,
    hr_class bigint DEFAULT 0 NOT NULL,
    app_version_id bigint,
    target_host_id bigint,
    target_user_id bigint,
    target_team_id bigint,
    size_class bigint DEFAULT '-1'::integer NOT NULL,
    turn double precision DEFAULT 0 NOT NULL,
    completed_seq bigint,
    completed_time double precision,
    handler_failures bigint DEFAULT 0 NOT NULL,
    retry_time double precision DEFAULT 0 NOT NULL,
    handler_problem text DEFAULT ''::text NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.05');
CREATE SEQUENCE public.workunit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.workunit_id_seq OWNED BY public.workunit.id;
ALTER TABLE ONLY public.api_token ALTER COLUMN id SET DEFAULT nextval('public.api_token_id_seq'::regclass);
ALTER TABLE ONLY public.app ALTER COLUMN id SET DEFAULT nextval('public.app_id_seq'::regclass);
ALTER TABLE ONLY public.app_version ALTER COLUMN id SET DEFAULT nextval('public.app_version_id_seq'::regclass);
ALTER TABLE ONLY public.audit_entry ALTER COLUMN id SET DEFAULT nextval('public.audit_entry_id_seq'::regclass);
ALTER TABLE ONLY public.badge ALTER COLUMN id SET DEFAULT nextval('public.badge_id_seq'::regclass);
ALTER TABLE ONLY public.batch ALTER COLUMN id SET DEFAULT nextval('public.batch_id_seq'::regclass);
ALTER TABLE ONLY public.code_sign_key ALTER COLUMN id SET DEFAULT nextval('public.code_sign_key_id_seq'::regclass);
ALTER TABLE ONLY public.consent ALTER COLUMN id SET DEFAULT nextval('public.consent_id_seq'::regclass);
ALTER TABLE ONLY public.contribution_entry ALTER COLUMN id SET DEFAULT nextval('public.contribution_entry_id_seq'::regclass);
ALTER TABLE ONLY public.credit_decay ALTER COLUMN id SET DEFAULT nextval('public.credit_decay_id_seq'::regclass);
ALTER TABLE ONLY public.credit_entry ALTER COLUMN id SET DEFAULT nextval('public.credit_entry_id_seq'::regclass);
ALTER TABLE ONLY public.credit_inheritance ALTER COLUMN id SET DEFAULT nextval('public.credit_inheritance_id_seq'::regclass);
ALTER TABLE ONLY public.host ALTER COLUMN id SET DEFAULT nextval('public.host_id_seq'::regclass);
ALTER TABLE ONLY public.mail ALTER COLUMN id SET DEFAULT nextval('public.mail_id_seq'::regclass);
ALTER TABLE ONLY public.msg_from_host ALTER COLUMN id SET DEFAULT nextval('public.msg_from_host_id_seq'::regclass);
ALTER TABLE ONLY public.msg_to_host ALTER COLUMN id SET DEFAULT nextval('public.msg_to_host_id_seq'::regclass);
ALTER TABLE ONLY public.news ALTER COLUMN id SET DEFAULT nextval('public.news_id_seq'::regclass);
ALTER TABLE ONLY public.one_time_code ALTER COLUMN id SET DEFAULT nextval('public.one_time_code_id_seq'::regclass);
ALTER TABLE ONLY public.result ALTER COLUMN id SET DEFAULT nextval('public.result_id_seq'::regclass);
ALTER TABLE ONLY public.team ALTER COLUMN id SET DEFAULT nextval('public.team_id_seq'::regclass);
ALTER TABLE ONLY public.team_message ALTER COLUMN id SET DEFAULT nextval('public.team_message_id_seq'::regclass);
ALTER TABLE ONLY public.user_account ALTER COLUMN id SET DEFAULT nextval('public.user_account_id_seq'::regclass);
ALTER TABLE ONLY public.workunit ALTER COLUMN id SET DEFAULT nextval('public.workunit_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES
	('0017');
INSERT INTO public.api_reply VALUES
	('key', 'digest', '{}', 1802518200);
INSERT INTO public.api_token VALUES
	(1, 'manager', 'e21ef74355469b40c10cccc79861a8c966c833e2fb1eedb35f02704d20284168', NULL, 'accounting', 1, 1801913400, NULL, NULL, NULL, NULL, NULL),
	(2, 'user 1', 'user 1', 1, 'read submit', 2, 1801913400, NULL, NULL, NULL, '["search"]', 10);
INSERT INTO public.app VALUES
	(1, 'search', '', 0, 0, '{"kind":"bitwise","options":{}}', '', 'creditnew-deployed', 0, 0, 1, 0, '', 1, 1, 0, 0, 0, 0, '{"rsc_fpops_est":1000000000000.0,"rsc_fpops_bound":100000000000000.0,"rsc_memory_bound":500000000.0,"rsc_disk_bound":1000000000.0,"rsc_bandwidth_bound":0.0,"delay_bound":432000.0}', '{"min_quorum":2,"target_nresults":2,"max_error_results":2,"max_total_results":10,"max_success_results":6}', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', '{"min_version":0,"non_cpu_intensive":false,"homogeneous_redundancy":0,"homogeneous_app_version":false,"adaptive":false,"max_jobs_on_host":0,"max_jobs_in_progress":0,"max_gpu_jobs_in_progress":0,"max_jobs_per_rpc":0,"max_jobs_per_day_init":0,"locality":false,"size_classes":[],"keywords":[]}', '{"command":[],"stdout":"","command_line":"","inputs":[]}', 1800000000, 0),
	(2, 'fragile', '', 0, 0, '{"kind":"numeric","options":{}}', '', 'benchmark', 0, 0, 0, 0, '', 1, 1, 0, 0, 0, 0, '{"rsc_fpops_est":1000000000000.0,"rsc_fpops_bound":100000000000000.0,"rsc_memory_bound":500000000.0,"rsc_disk_bound":1000000000.0,"rsc_bandwidth_bound":0.0,"delay_bound":432000.0}', '{"min_quorum":2,"target_nresults":2,"max_error_results":2,"max_total_results":10,"max_success_results":6}', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', '{"min_version":0,"non_cpu_intensive":false,"homogeneous_redundancy":0,"homogeneous_app_version":false,"adaptive":false,"max_jobs_on_host":0,"max_jobs_in_progress":0,"max_gpu_jobs_in_progress":0,"max_jobs_per_rpc":0,"max_jobs_per_day_init":0,"locality":false,"size_classes":[],"keywords":[]}', '{"command":[],"stdout":"","command_line":"","inputs":[]}', 1800010800, 0),
	(3, 'survey', '', 0, 0, '{"kind":"bitwise","options":{}}', '', 'ledger', 0, 0, 0, 0, '', 1, 1, 0, 0, 0, 0, '{"rsc_fpops_est":1000000000000.0,"rsc_fpops_bound":100000000000000.0,"rsc_memory_bound":500000000.0,"rsc_disk_bound":1000000000.0,"rsc_bandwidth_bound":0.0,"delay_bound":432000.0}', '{"min_quorum":2,"target_nresults":2,"max_error_results":2,"max_total_results":10,"max_success_results":6}', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', '{"min_version":0,"non_cpu_intensive":false,"homogeneous_redundancy":0,"homogeneous_app_version":false,"adaptive":false,"max_jobs_on_host":0,"max_jobs_in_progress":0,"max_gpu_jobs_in_progress":0,"max_jobs_per_rpc":0,"max_jobs_per_day_init":0,"locality":false,"size_classes":[],"keywords":[]}', '{"command":[],"stdout":"","command_line":"","inputs":[]}', 1801047600, 0),
	(4, 'keeper', '', 0, 0, '{"kind":"bitwise","options":{}}', '', 'benchmark', 0, 0, 0, 0, '', 1, 1, 0, 0, 0, 0, '{"rsc_fpops_est":1000000000000.0,"rsc_fpops_bound":864000000000000.0,"rsc_memory_bound":500000000.0,"rsc_disk_bound":1000000000.0,"rsc_bandwidth_bound":0.0,"delay_bound":604800.0}', '{"min_quorum":1,"target_nresults":1,"max_error_results":3,"max_total_results":10,"max_success_results":6}', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', '{"min_version":0,"non_cpu_intensive":false,"homogeneous_redundancy":0,"homogeneous_app_version":false,"adaptive":false,"max_jobs_on_host":0,"max_jobs_in_progress":0,"max_gpu_jobs_in_progress":0,"max_jobs_per_rpc":0,"max_jobs_per_day_init":0,"locality":false,"size_classes":[],"keywords":[]}', '{"command":[],"stdout":"","command_line":"","inputs":[]}', 1801049400, 0),
	(5, 'open', '', 0, 0, '{"kind":"bitwise","options":{}}', '', 'benchmark', 0, 0, 0, 0, '', 1, 1, 0, 0, 0, 0, '{"rsc_fpops_est":1000000000000.0,"rsc_fpops_bound":100000000000000.0,"rsc_memory_bound":500000000.0,"rsc_disk_bound":1000000000.0,"rsc_bandwidth_bound":0.0,"delay_bound":432000.0}', '{"min_quorum":2,"target_nresults":2,"max_error_results":2,"max_total_results":10,"max_success_results":6}', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', '{"min_version":0,"non_cpu_intensive":false,"homogeneous_redundancy":0,"homogeneous_app_version":false,"adaptive":false,"max_jobs_on_host":0,"max_jobs_in_progress":0,"max_gpu_jobs_in_progress":0,"max_jobs_per_rpc":0,"max_jobs_per_day_init":0,"locality":false,"size_classes":[],"keywords":[]}', '{"command":[],"stdout":"","command_line":"","inputs":[]}', 1801999800, 0);
INSERT INTO public.app_credit VALUES
	('user', 1, 1, 4, 4.727267331433999, 0.20589389862176963, 1801047600),
	('host', 1, 1, 4, 4.727267331433999, 0.20589389862176963, 1801047600),
	('user', 1, 2, 2, 1.8019943019943023, 0.1780682336488133, 1800007200),
	('host', 1, 2, 2, 1.8019943019943023, 0.1780682336488133, 1800007200),
	('user', 1, 3, 2, 3.375771604938272, 0.16606445597800962, 1801047600),
	('host', 1, 3, 2, 3.375771604938272, 0.16606445597800962, 1801047600),
	('user', 3, 1, 3, 4.629865270553752, 0.45821798760251453, 1801049400),
	('host', 3, 1, 3, 4.629865270553752, 0.45821798760251453, 1801049400),
	('user', 3, 2, 3, 4.615894642311613, 0.45695257166391895, 1801049400),
	('host', 3, 2, 3, 4.615894642311613, 0.45695257166391895, 1801049400),
	('user', 4, 1, 1, 2.314814814814815, 0.22921533748675438, 1801049400),
	('host', 4, 1, 1, 2.314814814814815, 0.22921533748675438, 1801049400);
INSERT INTO public.app_day VALUES
	(1, 20833, 3, 0, 0, 0, 6, 5.275403608736943, 3),
	(2, 20833, 0, 1, 0, 0, 0, 0, 0),
	(2, 20839, 0, 2, 0, 0, 0, 0, 0),
	(1, 20845, 1, 0, 0, 0, 2, 4.62962962962963, 2),
	(3, 20845, 3, 0, 0, 0, 6, 9.24575991286537, 2),
	(4, 20845, 1, 0, 0, 0, 1, 2.314814814814815, 1),
	(1, 20856, 0, 0, 0, 0, 0, 0, 0),
	(2, 20856, 0, 0, 1, 0, 0, 0, 0),
	(3, 20856, 0, 0, 0, 0, 0, 0, 0),
	(4, 20856, 1, 0, 1, 0, 0, 0, 0);
INSERT INTO public.app_host_day VALUES
	(1, 1, 20845),
	(1, 2, 20833),
	(1, 3, 20845),
	(3, 1, 20845),
	(3, 2, 20845),
	(4, 1, 20845);
INSERT INTO public.app_version VALUES
	(1, 1, 'any', 100, '', 0, 0, '7.20.5', '', '[{"name":"search_eb2955b56cc4994434238ad0c04632b4.sh","open_name":"search.sh","nbytes":19,"md5":"15c2796b88a7fe61e29bd231598ac359","executable":false,"main_program":true,"copy_file":false,"signature":"197f729c38d92b78067215b842a67e65201c15d50c2486fec281bd8760da98fb\nd86da9c9327bcb9d9320431c5d62b7bc31326b3d54ef709f0c590ccbdb5425dc\nded53c81e8bc6df7fa6b27a472d30183aed0cd410dc61126c5aa542b3ec54f6a\ne8b81eb9d36407ad70f194ce05da46e2ae8018dd48f932aaef0669c2e3d43ebb\n.\n","gzipped_nbytes":null}]', 0, 0, 1800000000, 1, '{}', 6, 0.40333333333333343, 0.006722222222222226, 0.04033333333333335, 0, 5.275403608736943, 0.05324796818353283, 1801999800),
	(2, 2, 'any', 100, '', 0, 0, '7.20.5', '', '[{"name":"fragile_21f2c793b2dd479f6021e21d2bb202be.sh","open_name":"fragile.sh","nbytes":20,"md5":"d94ddbbb297e9aad4eb3f74d0368bae9","executable":false,"main_program":true,"copy_file":false,"signature":"72ad806067c4621caba3d4f773c5370e0535e0ee8390b28afefe08f676b22fdb\n7b4fccadb10f5e2b879dc29ae9cea5b04905b452590c23e35dcfe0fea618f34d\n2323dd3ff5123204a306ea3cbda929f0d98b06ca462c7212dd6fa1bdfb476c7d\n83602497ebf30ebb00f84fdae8989b21da7af02f8e908fa5c821362639b9af87\n.\n","gzipped_nbytes":null}]', 0, 0, 1800010800, 1, '{}', 0, 0, 0, 0, 0, 0, 0, 1800010800),
	(3, 1, 'any', 101, '', 0, 0, '7.20.5', '', '[{"name":"search_eb2955b56cc4994434238ad0c04632b4.sh","open_name":"search.sh","nbytes":19,"md5":"15c2796b88a7fe61e29bd231598ac359","executable":false,"main_program":true,"copy_file":false,"signature":"197f729c38d92b78067215b842a67e65201c15d50c2486fec281bd8760da98fb\nd86da9c9327bcb9d9320431c5d62b7bc31326b3d54ef709f0c590ccbdb5425dc\nded53c81e8bc6df7fa6b27a472d30183aed0cd410dc61126c5aa542b3ec54f6a\ne8b81eb9d36407ad70f194ce05da46e2ae8018dd48f932aaef0669c2e3d43ebb\n.\n","gzipped_nbytes":null}]', 0, 0, 1800529200, 1, '{}', 0, 0, 0, 0, 0, 4.62962962962963, 0.13499683530953124, 1801999800),
	(4, 3, 'any', 100, '', 0, 0, '7.20.5', '', '[{"name":"survey_d23bddda43e2ad10a8081b30db701dac.sh","open_name":"survey.sh","nbytes":19,"md5":"fb061c4309eaa50c99a55f65f6659d26","executable":false,"main_program":true,"copy_file":false,"signature":"93025a2722fd9dce7756cd3b4fec617136351f23449c81e2c51531d14ca2d15a\n73287ac0e0574d5e075bdf547d7a6b8aa4fd523fb05d64ea86c14c751626a0c8\n15f1a52911619ab14bb603508c875c4a5d652280433985600dead6374c712f3e\n519e283f1823fb92f72ccb69b81b41307dd48155f087cb70bbc45177be826039\n.\n","gzipped_nbytes":null}]', 0, 0, 1801047600, 1, '{}', 6, 0.38500000000000006, 0.0030249999999999995, 0.018149999999999996, 0, 9.24575991286537, 0.3079717791426081, 1801999800),
	(5, 4, 'any', 100, '', 0, 0, '7.20.5', '', '[{"name":"keeper_cbb10af7f398a86e3751da7b7ff9df34.sh","open_name":"keeper.sh","nbytes":19,"md5":"509930986cefdfa6af9c974479f067e3","executable":false,"main_program":true,"copy_file":false,"signature":"c6ad1ab82c78a261fdd18ed1c4a02c533d37bc270e58d116060b464ae8525208\n8f8682609f93a6aa2515bb886573175c516704604013825010b347805119f15f\na69c580ffb5b4c7575fd83b76a1d79f392816b978f4ebd6c68a68f84610e4c7d\n5668385e0617880b7ac4592324a88fd83bbad788576b348d775107ac3b698c64\n.\n","gzipped_nbytes":null}]', 0, 0, 1801049400, 1, '{}', 0, 0, 0, 0, 0, 4.62962962962963, 0.3063405792061827, 1801999800),
	(6, 5, 'any', 100, '', 0, 0, '7.20.5', '', '[{"name":"open_63b23a5920ed4fb2485119e1484c6213.sh","open_name":"open.sh","nbytes":17,"md5":"3c36cfadc83976efdc7469530e4a6937","executable":false,"main_program":true,"copy_file":false,"signature":"3b61d6997c2a958dc20392162a8b3d7ec65d8dc6c5e9b364071f5e69ed2f1744\n44ce238b62f5d1d9e1f4de842653a267d15719476f12e40a28abcd5059c362b9\n41cd0135e608073d79da64538b89d5fdb05d915c397819e071a62a7a21bb9713\n109c89083aebe4a4bcef8475245808544cf0d400079e70ac9443284c05601e43\n.\n","gzipped_nbytes":null}]', 0, 0, 1801999800, 1, '{}', 0, 0, 0, 0, 0, 0, 0, 1801999800);
INSERT INTO public.audit_entry VALUES
	(1, 1800529200, 'operator', 'test', 'cancel batch', 'batch 4', '{"state":"IN_PROGRESS"}', '{"state":"ABORTED"}'),
	(2, 1801913400, 'operator', 'test', 'changed', 'app search', 'null', 'null');
INSERT INTO public.badge VALUES
	(1, 'total', 0.01),
	(2, 'total', 1000000),
	(3, 'recent', 100),
	(4, 'recent', 1000),
	(5, 'recent', 10000),
	(6, 'recent', 100000),
	(7, 'rank', 25),
	(8, 'rank', 5),
	(9, 'rank', 1);
INSERT INTO public.badge_owner VALUES
	('user', 1, 1, 1801999800),
	('user', 2, 1, 1801999800),
	('user', 3, 1, 1801999800),
	('host', 1, 1, 1801999800),
	('host', 2, 1, 1801999800),
	('host', 3, 1, 1801999800);
INSERT INTO public.batch VALUES
	(1, 'batch', 1, NULL, NULL, 2, 1800000000, 1800010800, 3, 3, 0, 0, 1, 6000, 0, 0),
	(2, 'batch', 2, NULL, NULL, 2, 1800010800, 1800010800, 1, 0, 1, 0, 1, 8000, 0, 0),
	(3, 'batch', 2, NULL, NULL, 1, 1800010800, NULL, 1, 0, 0, 0, 1, 10000, 0, 0),
	(4, 'batch', 2, NULL, NULL, 3, 1800529200, NULL, 2, 0, 2, 0, 1, 14000, 0, 0),
	(5, 'batch', 1, NULL, NULL, 4, 1800529200, 1801047600, 1, 1, 0, 0, 1, 12000, -1, 0),
	(6, 'batch', 3, NULL, NULL, 2, 1801047600, 1801049400, 3, 3, 0, 0, 1, 18000, 0, 0),
	(7, 'batch', 4, NULL, NULL, 2, 1801049400, 1801049400, 1, 1, 0, 0, 1, 19000, 0, 0),
	(8, 'batch', 4, NULL, NULL, 2, 1801049400, 1801999800, 1, 1, 0, 0, 1, 20000, 0, 0),
	(9, 'batch', 5, NULL, NULL, 1, 1801999800, NULL, 2, 0, 0, 0, 1, 23000, 0, 0),
	(10, 'batch', 5, NULL, NULL, 1, 1801999800, NULL, 2, 0, 0, 0, 1, 27000, 0, 0);
INSERT INTO public.code_sign_key VALUES
	(1, '1024
fa441d79a09f8bf9cc4cbc43a419c872f2c1eee640ccf2a4d3e3324d7376369b
5913dd33f9c2dce10030c0bdc55c908336a2929cab2cec005d7a6365a00486fe
166accb197b4ede8bdf1fb35281870c3b3192b63323bb0e6d41619257d0d0264
d16d7759bfc42b87960b65658d730915b3394e0ac09e1a4cd33ccf18530f9cf1
0000000000000000000000000000000000000000000000000000000000000000
0000000000000000000000000000000000000000000000000000000000000000
0000000000000000000000000000000000000000000000000000000000000000
0000000000000000000000000000000000000000000000000000000000010001
.', 1800000000, 1, '');
INSERT INTO public.consent VALUES
	(1, 1, 'statistics', 1, 1801913400, 'page');
INSERT INTO public.contribution VALUES
	('host', 1, 'storage', 33750, 4102.422478525856, 1801675800),
	('user', 1, 'storage', 33750, 4102.422478525856, 1801675800),
	('host', 1, 'received', 5057, 567.1396775362633, 1801049400),
	('host', 1, 'sent', 420006, 276532.2892798756, 1801049400),
	('host', 2, 'received', 38, 70.15314907478258, 1801049400),
	('host', 2, 'sent', 210000, 6733862.943611199, 1801049400),
	('host', 3, 'received', 19, 456, 1800010800),
	('user', 1, 'received', 5057, 567.1396775362633, 1801049400),
	('user', 1, 'sent', 420006, 276532.2892798756, 1801049400),
	('user', 2, 'received', 38, 70.15314907478258, 1801049400),
	('user', 2, 'sent', 210000, 6733862.943611199, 1801049400),
	('user', 3, 'received', 19, 456, 1800010800);
INSERT INTO public.contribution_entry VALUES
	(1, 1801135800, 'storage', 1, 1, 2500, 1801071000, '{"until":1801114200.0,"file":"kept_2c78e7216b85903d179400aafe201993","offset":0,"length":5000}'),
	(2, 1801179000, 'storage', 1, 1, 2500, 1801114200, '{"until":1801157400.0,"file":"kept_2c78e7216b85903d179400aafe201993","offset":0,"length":5000}'),
	(3, 1801243800, 'storage', 1, 1, 3750, 1801157400, '{"until":1801222200.0,"file":"kept_2c78e7216b85903d179400aafe201993","offset":0,"length":5000}'),
	(4, 1801438200, 'storage', 1, 1, 11250, 1801222200, '{"until":1801416600.0,"file":"kept_2c78e7216b85903d179400aafe201993","offset":0,"length":5000}'),
	(5, 1801675800, 'storage', 1, 1, 13750, 1801416600, '{"until":1801654200.0,"file":"kept_2c78e7216b85903d179400aafe201993","offset":0,"length":5000}'),
	(6, 1800007200, 'sent', 1, 1, 70000, 1800000000, '{"result":3}'),
	(7, 1800007200, 'received', 1, 1, 19, 1800000000, '{"result":3,"files":["search_eb2955b56cc4994434238ad0c04632b4.sh"]}'),
	(8, 1800007200, 'received', 2, 2, 19, 1800000000, '{"result":4,"files":["search_eb2955b56cc4994434238ad0c04632b4.sh"]}'),
	(9, 1800007200, 'sent', 1, 1, 70000, 1800000000, '{"result":5}'),
	(10, 1800010800, 'sent', 1, 1, 70000, 1800000000, '{"result":1}'),
	(11, 1800010800, 'received', 3, 3, 19, 1800007200, '{"result":7,"files":["search_eb2955b56cc4994434238ad0c04632b4.sh"]}'),
	(12, 1801049400, 'sent', 1, 1, 70000, 1801047600, '{"result":23}'),
	(13, 1801049400, 'received', 1, 1, 19, 1801047600, '{"result":23,"files":["survey_d23bddda43e2ad10a8081b30db701dac.sh"]}'),
	(14, 1801049400, 'sent', 2, 2, 70000, 1801048500, '{"result":24}'),
	(15, 1801049400, 'received', 2, 2, 19, 1801048500, '{"result":24,"files":["survey_d23bddda43e2ad10a8081b30db701dac.sh"]}'),
	(16, 1801049400, 'sent', 1, 1, 70000, 1801047600, '{"result":25}'),
	(17, 1801049400, 'sent', 2, 2, 70000, 1801048500, '{"result":26}'),
	(18, 1801049400, 'sent', 1, 1, 70000, 1801047600, '{"result":27}'),
	(19, 1801049400, 'sent', 2, 2, 70000, 1801048500, '{"result":28}'),
	(20, 1801049400, 'sent', 1, 1, 6, 1801049400, '{"result":29}'),
	(21, 1801049400, 'received', 1, 1, 5019, 1801049400, '{"result":29,"files":["keeper_cbb10af7f398a86e3751da7b7ff9df34.sh","kept_2c78e7216b85903d179400aafe201993"]}');
INSERT INTO public.credit_day VALUES
	('user', 1, 20833, 1, 2.412452516619184, 3, 2.412452516619184, 3, 0.23759468181946092, 1800010800),
	('user', 1, 20845, 1, 9.259494900183382, 5, 11.671947416802565, 8, 0.9833217993805364, 1801049400),
	('host', 1, 20833, 1, 2.412452516619184, 3, 2.412452516619184, 3, 0.23759468181946092, 1800010800),
	('host', 1, 20845, 1, 9.259494900183382, 5, 11.671947416802565, 8, 0.9833217993805364, 1801049400),
	('user', 2, 20833, 1, 1.8019943019943023, 2, 1.8019943019943023, 2, 0.1780682336488133, 1800007200),
	('user', 2, 20845, 1, 4.615894642311613, 3, 6.417888944305917, 5, 0.5056554163276037, 1801049400),
	('host', 2, 20833, 1, 1.8019943019943023, 2, 1.8019943019943023, 2, 0.1780682336488133, 1800007200),
	('host', 2, 20845, 1, 4.615894642311613, 3, 6.417888944305917, 5, 0.5056554163276037, 1801049400),
	('user', 3, 20833, 1, 1.0609567901234571, 1, 1.0609567901234571, 1, 0.10440952552876415, 1800010800),
	('user', 3, 20845, 1, 2.314814814814815, 1, 3.375771604938272, 2, 0.25591087290721193, 1801047600),
	('host', 3, 20833, 1, 1.0609567901234571, 1, 1.0609567901234571, 1, 0.10440952552876415, 1800010800),
	('host', 3, 20845, 1, 2.314814814814815, 1, 3.375771604938272, 2, 0.25591087290721193, 1801047600);
INSERT INTO public.credit_decay VALUES
	(1, 1801999800, 'host', 1, 3, 21),
	(2, 1801999800, 'user_account', 1, 3, 21),
	(3, 1801999800, 'app_version', 1, 5, 21);
INSERT INTO public.credit_entry VALUES
	(1, 1800003600, 1, 1, 1, 1, NULL, 1, 'trickle', 'trickle', 0.41666666666666663, 0.41666666666666663, 200, 1799917200, '[["trickle","{amount}: {seconds} s x {speed} per second.",{"amount":0.41666666666666663,"seconds":60.0,"speed":3000000000.0}]]', '{"trickle":[60.0,3000000000.0,true,1800000000.0,0.0,231.48148148148147,0.0,25.0,0.0],"rules":[86400.0,3300000000.0,10000000000.0]}'),
	(2, 1800007200, 3, 2, 1, 1, NULL, 1, 'grant', 'creditnew-deployed', 0.763888888888889, 0.9009971509971512, 200, 1800000000, '[["scaled_pfc","{seconds} s x {peak_flops} FLOPS x version scale {version_scale}{about_version} x host scale {host_scale}{about_host} = {flops}.",{"seconds":110.00000000000001,"peak_flops":3000000000.0,"version_scale":1.0,"about_version":{"text":" (not known yet: versions need 100 samples)","sentence":" (not known yet: versions need {n} samples)","values":{"n":100}},"host_scale":1.0,"about_host":{"text":" (not known yet: fewer than 10 samples of this host)","sentence":" (not known yet: fewer than {n} samples of this host)","values":{"n":10}},"flops":330000000000.00006}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":0.9009971509971512,"n":2,"normal":0,"peg":2.314814814814815}]]', '{"result":[110.00000000000001,100.0,1800000000.0,1800007200.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,true,false,7200.0,1],"host":[0,0.1,true,1800432000.0,[0,0.0,0.0,0.0],[0,0.0,0.0,0.0],[0,0.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}'),
	(3, 1800007200, 4, 2, 2, 2, NULL, 1, 'grant', 'creditnew-deployed', 1.0185185185185186, 0.9009971509971512, 200, 1800000000, '[["scaled_pfc","{seconds} s x {peak_flops} FLOPS x version scale {version_scale}{about_version} x host scale {host_scale}{about_host} = {flops}.",{"seconds":110.00000000000001,"peak_flops":4000000000.0,"version_scale":1.0,"about_version":{"text":" (not known yet: versions need 100 samples)","sentence":" (not known yet: versions need {n} samples)","values":{"n":100}},"host_scale":1.0,"about_host":{"text":" (not known yet: fewer than 10 samples of this host)","sentence":" (not known yet: fewer than {n} samples of this host)","values":{"n":10}},"flops":440000000000.00006}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":0.9009971509971512,"n":2,"normal":0,"peg":2.314814814814815}]]', '{"result":[110.00000000000001,100.0,1800000000.0,1800007200.0,4000000000.0,4.0,4000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,false,false,7200.0,1],"host":[0,0.1,true,1800432000.0,[0,0.0,0.0,0.0],[0,0.0,0.0,0.0],[0,0.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}'),
	(4, 1800007200, 5, 3, 1, 1, NULL, 1, 'grant', 'creditnew-deployed', 0.763888888888889, 0.9009971509971512, 200, 1800000000, '[["scaled_pfc","{seconds} s x {peak_flops} FLOPS x version scale {version_scale}{about_version} x host scale {host_scale}{about_host} = {flops}.",{"seconds":110.00000000000001,"peak_flops":3000000000.0,"version_scale":1.0,"about_version":{"text":" (not known yet: versions need 100 samples)","sentence":" (not known yet: versions need {n} samples)","values":{"n":100}},"host_scale":1.0,"about_host":{"text":" (not known yet: fewer than 10 samples of this host)","sentence":" (not known yet: fewer than {n} samples of this host)","values":{"n":10}},"flops":330000000000.00006}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":0.9009971509971512,"n":2,"normal":0,"peg":2.314814814814815}]]', '{"result":[110.00000000000001,100.0,1800000000.0,1800007200.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,true,false,7200.0,1],"host":[1,0.095,true,1800432000.0,[1,0.33000000000000007,0.0,0.0],[1,1.1000000000000001e-10,0.0,0.0],[1,7200.0,0.0,0.0]],"version":[0.0,[2,0.38500000000000006,0.0030249999999999995,0.006049999999999999]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}'),
	(5, 1800007200, 6, 3, 2, 2, NULL, 1, 'grant', 'creditnew-deployed', 1.0185185185185186, 0.9009971509971512, 200, 1800000000, '[["scaled_pfc","{seconds} s x {peak_flops} FLOPS x version scale {version_scale}{about_version} x host scale {host_scale}{about_host} = {flops}.",{"seconds":110.00000000000001,"peak_flops":4000000000.0,"version_scale":1.0,"about_version":{"text":" (not known yet: versions need 100 samples)","sentence":" (not known yet: versions need {n} samples)","values":{"n":100}},"host_scale":1.0,"about_host":{"text":" (not known yet: fewer than 10 samples of this host)","sentence":" (not known yet: fewer than {n} samples of this host)","values":{"n":10}},"flops":440000000000.00006}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":0.9009971509971512,"n":2,"normal":0,"peg":2.314814814814815}]]', '{"result":[110.00000000000001,100.0,1800000000.0,1800007200.0,4000000000.0,4.0,4000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,false,false,7200.0,1],"host":[1,0.095,true,1800432000.0,[1,0.44000000000000006,0.0,0.0],[1,1.1000000000000001e-10,0.0,0.0],[1,7200.0,0.0,0.0]],"version":[0.0,[2,0.38500000000000006,0.0030249999999999995,0.006049999999999999]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}'),
	(6, 1800010800, 1, 1, 1, 1, NULL, 1, 'grant', 'creditnew-deployed', 0.763888888888889, 0.6442901234567905, 200, 1800000000, '[["scaled_pfc","{seconds} s x {peak_flops} FLOPS x version scale {version_scale}{about_version} x host scale {host_scale}{about_host} = {flops}.",{"seconds":110.00000000000001,"peak_flops":3000000000.0,"version_scale":1.0,"about_version":{"text":" (not known yet: versions need 100 samples)","sentence":" (not known yet: versions need {n} samples)","values":{"n":100}},"host_scale":1.0,"about_host":{"text":" (not known yet: fewer than 10 samples of this host)","sentence":" (not known yet: fewer than {n} samples of this host)","values":{"n":10}},"flops":330000000000.00006}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":1.0609567901234571,"n":2,"normal":0,"peg":2.314814814814815}],["granted_before","Of {amount}, trickle messages already granted {provisional} while it ran; {due} is due.",{"amount":1.0609567901234571,"provisional":0.41666666666666663,"due":0.6442901234567905}]]', '{"result":[110.00000000000001,100.0,1800000000.0,1800007200.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.41666666666666663,0.41666666666666663,"normal",false,true,false,10800.0,1],"host":[2,0.09025,true,1800432000.0,[2,0.33000000000000007,0.0,0.0],[2,1.1000000000000001e-10,0.0,0.0],[2,7200.0,0.0,0.0]],"version":[0.0,[4,0.38500000000000006,0.0030249999999999995,0.012099999999999998]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}'),
	(7, 1800010800, 7, 1, 3, 3, NULL, 1, 'grant', 'creditnew-deployed', 1.2731481481481484, 1.0609567901234571, 200, 1800007200, '[["scaled_pfc","{seconds} s x {peak_flops} FLOPS x version scale {version_scale}{about_version} x host scale {host_scale}{about_host} = {flops}.",{"seconds":110.00000000000001,"peak_flops":5000000000.0,"version_scale":1.0,"about_version":{"text":" (not known yet: versions need 100 samples)","sentence":" (not known yet: versions need {n} samples)","values":{"n":100}},"host_scale":1.0,"about_host":{"text":" (not known yet: fewer than 10 samples of this host)","sentence":" (not known yet: fewer than {n} samples of this host)","values":{"n":10}},"flops":550000000000.0001}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":1.0609567901234571,"n":2,"normal":0,"peg":2.314814814814815}]]', '{"result":[110.00000000000001,100.0,1800007200.0,1800010800.0,5000000000.0,4.0,5000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,false,false,10800.0,1],"host":[0,0.1,true,1800439200.0,[0,0.0,0.0,0.0],[0,0.0,0.0,0.0],[0,0.0,0.0,0.0]],"version":[0.0,[4,0.38500000000000006,0.0030249999999999995,0.012099999999999998]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}'),
	(8, 1800010800, 3, 2, 1, 1, NULL, 1, 'correction', 'creditnew-deployed', 0, -0.4504985754985756, 200, 1800000000, '[["kept","Half of it.",{}]]', '{"granted_time":1800007200.0}'),
	(9, 1801047600, 21, 8, 3, 3, NULL, 3, 'grant', 'creditnew-deployed', 2.314814814814815, 2.314814814814815, 200, 1801047600, '[["no_run_time","No usable run time was reported: the job''s estimate is used.",{}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":2.314814814814815,"n":2,"normal":0,"peg":2.314814814814815}]]', '{"result":[0.0,0.0,1801047600.0,1801047600.0,5000000000.0,4.0,5000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,true,false,1047600.0,1],"host":[1,0.095,true,1800439200.0,[1,0.5500000000000002,0.0,0.0],[1,1.1000000000000001e-10,0.0,0.0],[1,3600.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}'),
	(10, 1801047600, 22, 8, 1, 1, NULL, 3, 'grant', 'creditnew-deployed', 2.314814814814815, 2.314814814814815, 200, 1801047600, '[["no_run_time","No usable run time was reported: the job''s estimate is used.",{}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":2.314814814814815,"n":2,"normal":0,"peg":2.314814814814815}]]', '{"result":[0.0,0.0,1801047600.0,1801047600.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,false,false,1047600.0,1],"host":[3,0.0857375,true,1800432000.0,[3,0.33000000000000007,0.0,0.0],[3,1.1000000000000001e-10,0.0,0.0],[3,7200.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}'),
	(11, 1801049400, 23, 9, 1, 1, NULL, 4, 'escrow', 'ledger', 2.312412010053688, 2.312412010053688, 200, 1801047600, '[["ledger_partners","Granted {amount}: the estimate is worth {value}, and other computers ({n}) found the job {factor} times as long. Their reports count with weight {weight}; its own report did not raise the credit.",{"amount":2.312412010053688,"value":2.314814814814815,"n":1,"weight":0.0017519430227076077,"factor":0.998961988343193}],["ledger_provisional","Provisional until the computer passes its next check. A job of ordinary size is checked with probability {chance}, drawn after its result arrived.",{"chance":1.0}]]', '{"result":[110.00000000000001,100.0,1801047600.0,1801048500.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,2.312412010053688,"normal",false,true,false,1049400.0,1],"host":[0,0.1,true,1801479600.0,[0,0.0,0.0,0.0],[0,0.0,0.0,0.0],[0,0.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}'),
	(12, 1801049400, 24, 9, 2, 2, NULL, 4, 'escrow', 'ledger', 2.312408413074093, 2.312408413074093, 200, 1801048500, '[["ledger_partners","Granted {amount}: the estimate is worth {value}, and other computers ({n}) found the job {factor} times as long. Their reports count with weight {weight}; its own report did not raise the credit.",{"amount":2.312408413074093,"value":2.314814814814815,"n":1,"weight":0.0017519430227076077,"factor":0.9989604344480082}],["ledger_provisional","Provisional until the computer passes its next check. A job of ordinary size is checked with probability {chance}, drawn after its result arrived.",{"chance":1.0}]]', '{"result":[110.00000000000001,100.0,1801048500.0,1801049400.0,4000000000.0,4.0,4000000000.0,4000000000.0,0.0,0.0,0.0,2.312408413074093,"normal",false,false,false,1049400.0,1],"host":[0,0.1,true,1801480500.0,[0,0.0,0.0,0.0],[0,0.0,0.0,0.0],[0,0.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}'),
	(13, 1801049400, 25, 10, 1, 1, NULL, 4, 'escrow', 'ledger', 2.322179209516397, 2.322179209516397, 200, 1801047600, '[["ledger_partners","Granted {amount}: the estimate is worth {value}, and other computers ({n}) found the job {factor} times as long. Their reports count with weight {weight}; its own report did not raise the credit.",{"amount":2.322179209516397,"value":2.314814814814815,"n":1,"weight":0.012550337050091419,"factor":1.0031814185110834}],["ledger_provisional","Provisional until the computer passes its next check. A job of ordinary size is checked with probability {chance}, drawn after its result arrived.",{"chance":1.0}]]', '{"result":[110.00000000000001,100.0,1801047600.0,1801048500.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,2.322179209516397,"normal",false,true,false,1049400.0,1],"host":[1,0.095,true,1801479600.0,[1,0.33000000000000007,0.0,0.0],[1,1.1000000000000001e-10,0.0,0.0],[1,900.0,0.0,0.0]],"version":[0.0,[2,0.38500000000000006,0.0030249999999999995,0.006049999999999999]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}'),
	(14, 1801049400, 26, 10, 2, 2, NULL, 4, 'escrow', 'ledger', 2.3137658000919763, 2.3137658000919763, 200, 1801048500, '[["ledger_partners","Granted {amount}: the estimate is worth {value}, and other computers ({n}) found the job {factor} times as long. Their reports count with weight {weight}; its own report did not raise the credit.",{"amount":2.3137658000919763,"value":2.314814814814815,"n":1,"weight":0.013056918959690345,"factor":0.9995468256397337}],["ledger_provisional","Provisional until the computer passes its next check. A job of ordinary size is checked with probability {chance}, drawn after its result arrived.",{"chance":1.0}]]', '{"result":[110.00000000000001,100.0,1801048500.0,1801049400.0,4000000000.0,4.0,4000000000.0,4000000000.0,0.0,0.0,0.0,2.3137658000919763,"normal",false,false,false,1049400.0,1],"host":[1,0.095,true,1801480500.0,[1,0.44000000000000006,0.0,0.0],[1,1.1000000000000001e-10,0.0,0.0],[1,900.0,0.0,0.0]],"version":[0.0,[2,0.38500000000000006,0.0030249999999999995,0.006049999999999999]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}'),
	(15, 1801049400, 27, 11, 1, 1, NULL, 4, 'escrow', 'ledger', 2.31256966076871, 2.31256966076871, 200, 1801047600, '[["ledger_partners","Granted {amount}: the estimate is worth {value}, and other computers ({n}) found the job {factor} times as long. Their reports count with weight {weight}; its own report did not raise the credit.",{"amount":2.31256966076871,"value":2.314814814814815,"n":1,"weight":0.02907274082727323,"factor":0.9990300934520827}],["ledger_provisional","Provisional until the computer passes its next check. A job of ordinary size is checked with probability {chance}, drawn after its result arrived.",{"chance":1.0}]]', '{"result":[110.00000000000001,100.0,1801047600.0,1801048500.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,2.31256966076871,"normal",false,true,false,1049400.0,1],"host":[2,0.09025,true,1801479600.0,[2,0.33000000000000007,0.0,0.0],[2,1.1000000000000001e-10,0.0,0.0],[2,900.0,0.0,0.0]],"version":[0.0,[4,0.38500000000000006,0.0030249999999999995,0.012099999999999998]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}'),
	(16, 1801049400, 28, 11, 2, 2, NULL, 4, 'escrow', 'ledger', 2.302807535728579, 2.302807535728579, 200, 1801048500, '[["ledger_partners","Granted {amount}: the estimate is worth {value}, and other computers ({n}) found the job {factor} times as long. Their reports count with weight {weight}; its own report did not raise the credit.",{"amount":2.302807535728579,"value":2.314814814814815,"n":1,"weight":0.029761356002118995,"factor":0.994812855434746}],["ledger_provisional","Provisional until the computer passes its next check. A job of ordinary size is checked with probability {chance}, drawn after its result arrived.",{"chance":1.0}]]', '{"result":[110.00000000000001,100.0,1801048500.0,1801049400.0,4000000000.0,4.0,4000000000.0,4000000000.0,0.0,0.0,0.0,2.302807535728579,"normal",false,false,false,1049400.0,1],"host":[2,0.09025,true,1801480500.0,[2,0.44000000000000006,0.0,0.0],[2,1.1000000000000001e-10,0.0,0.0],[2,900.0,0.0,0.0]],"version":[0.0,[4,0.38500000000000006,0.0030249999999999995,0.012099999999999998]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}'),
	(17, 1801049400, 23, 9, 1, 1, NULL, 4, 'settlement', 'ledger', 0, -1.156206005026844, 200, 1801049400, '[["ledger_held","Part of the first credit of a new computer is held, and paid later, less what unfinished jobs cost.",{}]]', '{"granted_time":1801049400.0,"event":2,"record":[1,4,"1"]}'),
	(18, 1801049400, 24, 9, 2, 2, NULL, 4, 'settlement', 'ledger', 0, -1.1562042065370466, 200, 1801049400, '[["ledger_held","Part of the first credit of a new computer is held, and paid later, less what unfinished jobs cost.",{}]]', '{"granted_time":1801049400.0,"event":2,"record":[2,4,"1"]}'),
	(19, 1801049400, 25, 10, 1, 1, NULL, 4, 'settlement', 'ledger', 0, -1.1610896047581982, 200, 1801049400, '[["ledger_held","Part of the first credit of a new computer is held, and paid later, less what unfinished jobs cost.",{}]]', '{"granted_time":1801049400.0,"event":3,"record":[1,4,"1"]}'),
	(20, 1801049400, 26, 10, 2, 2, NULL, 4, 'settlement', 'ledger', 0, -1.156882900045988, 200, 1801049400, '[["ledger_held","Part of the first credit of a new computer is held, and paid later, less what unfinished jobs cost.",{}]]', '{"granted_time":1801049400.0,"event":3,"record":[2,4,"1"]}'),
	(21, 1801049400, 29, 12, 1, 1, NULL, 5, 'grant', 'benchmark', 2.314814814814815, 2.314814814814815, 200, 1801049400, '[["no_run_time","No usable time was reported: the job''s estimate, {amount}, is used.",{"amount":2.314814814814815}],["combined","Granted {amount}: {combination} of {n} {n:claim|claims}.",{"amount":2.314814814814815,"combination":{"text":"mean","sentence":"mean","values":{}},"n":1}]]', '{"result":[0.0,0.0,1801049400.0,1801049400.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,true,false,1049400.0,1],"host":[0,0.1,true,1801654200.0,[0,0.0,0.0,0.0],[0,0.0,0.0,0.0],[0,0.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,864000000000000.0,0.0],"max_granted":73000000.0}'),
	(22, 1801999800, 30, 13, 1, 1, 1, 5, 'grant', 'benchmark', 2.314814814814815, 2.314814814814815, 200, 1801999800, '[["no_run_time","No usable time was reported: the job''s estimate, {amount}, is used.",{"amount":2.314814814814815}],["combined","Granted {amount}: {combination} of {n} {n:claim|claims}.",{"amount":2.314814814814815,"combination":{"text":"mean","sentence":"mean","values":{}},"n":1}]]', '{"result":[0.0,0.0,1801999800.0,1801999800.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,true,false,1999800.0,1],"host":[1,0.095,true,1801654200.0,[0,0.0,0.0,0.0],[0,0.0,0.0,0.0],[0,0.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,864000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO public.credit_inheritance VALUES
	(1, 1800529200, 2, 1, 3, 8),
	(2, 1801047600, 1, 1, 3, 8),
	(3, 1801047600, 3, 1, 3, 8);
INSERT INTO public.deletion VALUES
	('user', 1, 'b6c5c7349fe944289869331b85f5b00f', 1801913400),
	('host', 1, '2d3c87458b690eb68a5c887ebd2e9b56', 1801913400),
	('host', 4, '65f4323ae27c7d0ac920684b11cd38fd', 1801913400);
INSERT INTO public.ended_session VALUES
	('a session', 1801999800);
INSERT INTO public.escrow VALUES
	(23, 9, 3, 1, 4, '1', 1, 2.312412010053688, 0),
	(24, 9, 3, 2, 4, '1', 2, 2.312408413074093, 0),
	(25, 10, 3, 1, 4, '1', 1, 2.322179209516397, 0),
	(26, 10, 3, 2, 4, '1', 2, 2.3137658000919763, 0),
	(27, 11, 3, 1, 4, '1', 1, 2.31256966076871, 0),
	(28, 11, 3, 2, 4, '1', 2, 2.302807535728579, 0);
INSERT INTO public.file VALUES
	('search_eb2955b56cc4994434238ad0c04632b4.sh', 19, '15c2796b88a7fe61e29bd231598ac359', NULL, 2, 1800000000),
	('fragile_21f2c793b2dd479f6021e21d2bb202be.sh', 20, 'd94ddbbb297e9aad4eb3f74d0368bae9', NULL, 1, 1800010800),
	('survey_d23bddda43e2ad10a8081b30db701dac.sh', 19, 'fb061c4309eaa50c99a55f65f6659d26', NULL, 1, 1801047600),
	('kept_2c78e7216b85903d179400aafe201993', 5000, 'a633e020972199bb8a244dc1c656a1fe', NULL, 0, 1801999800),
	('keeper_cbb10af7f398a86e3751da7b7ff9df34.sh', 19, '509930986cefdfa6af9c974479f067e3', NULL, 1, 1801049400),
	('open_63b23a5920ed4fb2485119e1484c6213.sh', 17, '3c36cfadc83976efdc7469530e4a6937', NULL, 1, 1801999800);
INSERT INTO public.host VALUES
	(1, 1, '2d3c87458b690eb68a5c887ebd2e9b56', 55, 1801999800, 1800000000, '', 'ada-pc', '', 0, NULL, '127.0.0.1', '{"timezone":0,"p_ncpus":4,"p_vendor":"Vendor","p_model":"Model","p_fpops":3000000000.0,"p_iops":4000000000.0,"p_membw":1000000000.0,"m_nbytes":16000000000.0,"m_cache":0.0,"m_swap":0.0,"d_total":200000000000.0,"d_free":100000000000.0,"os_name":"Linux Debian","os_version":"","n_bwup":0.0,"n_bwdown":0.0,"coprocessors":[],"domain_name":"ada-pc","ip_addr":"","p_features":"","d_boinc_used_total":0.0,"d_boinc_used_project":0.0,"product_name":"","virtualbox_version":"","docker_version":"","on_frac":1.0,"connected_frac":-1.0,"active_frac":1.0,"gpu_active_frac":1.0,"client_version":72005,"platforms":["x86_64-pc-linux-gnu"],"usable_ncpus":4.0,"usable_ram":16000000000.0,"usable_disk":99000000000.0}', '', '', 0, NULL, 13.98676223161738, 0.5298656981399543, 1801999800),
	(2, 2, '09a27773155bd64f8ab0e00b8730c374', 11, 1801999800, 1800000000, '', 'bob-pc', '', 0, NULL, '127.0.0.1', '{"timezone":0,"p_ncpus":4,"p_vendor":"Vendor","p_model":"Model","p_fpops":4000000000.0,"p_iops":4000000000.0,"p_membw":1000000000.0,"m_nbytes":16000000000.0,"m_cache":0.0,"m_swap":0.0,"d_total":200000000000.0,"d_free":100000000000.0,"os_name":"Linux Debian","os_version":"","n_bwup":0.0,"n_bwdown":0.0,"coprocessors":[],"domain_name":"bob-pc","ip_addr":"","p_features":"","d_boinc_used_total":0.0,"d_boinc_used_project":0.0,"product_name":"","virtualbox_version":"","docker_version":"","on_frac":1.0,"connected_frac":-1.0,"active_frac":1.0,"gpu_active_frac":1.0,"client_version":72005,"platforms":["x86_64-pc-linux-gnu"],"usable_ncpus":4.0,"usable_ram":16000000000.0,"usable_disk":99000000000.0}', '', '', 0, NULL, 6.417888944305917, 0.13986138635605158, 1801999800),
	(3, 3, 'b771fca530ccba30d2365c6f1e407d48', 8, 1801047600, 1800000000, '', 'carol-pc', '', 0, NULL, '127.0.0.1', '{"timezone":0,"p_ncpus":4,"p_vendor":"Vendor","p_model":"Model","p_fpops":5000000000.0,"p_iops":4000000000.0,"p_membw":1000000000.0,"m_nbytes":16000000000.0,"m_cache":0.0,"m_swap":0.0,"d_total":200000000000.0,"d_free":100000000000.0,"os_name":"Linux Debian","os_version":"","n_bwup":0.0,"n_bwdown":0.0,"coprocessors":[],"domain_name":"carol-pc","ip_addr":"","p_features":"","d_boinc_used_total":0.0,"d_boinc_used_project":0.0,"product_name":"","virtualbox_version":"","docker_version":"","on_frac":1.0,"connected_frac":-1.0,"active_frac":1.0,"gpu_active_frac":1.0,"client_version":72005,"platforms":["x86_64-pc-linux-gnu"],"usable_ncpus":4.0,"usable_ram":16000000000.0,"usable_disk":99000000000.0}', '', '', 0, NULL, 3.375771604938272, 0.05571728254473553, 1801999800),
	(4, 1, '65f4323ae27c7d0ac920684b11cd38fd', 0, 1800000000, 1800000000, '', '', '', 0, 1800000000, '', '{}', '', '', 0, NULL, 0, 0, 1800000000);
INSERT INTO public.host_app_version VALUES
	(1, 2, 20, 2, 20834, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.18775000000000003, 1, 1800442800, 2),
	(2, 2, 20, 2, 20833, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.18775000000000003, 1, 1800961200, 2),
	(3, 2, 20, 1, 20840, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.14500000000000002, 1, 1800442800, 1),
	(2, 3, 20, 1, 20839, 0, 2, 0.44000000000000006, 0, 0, 2, 1.1000000000000001e-10, 0, 0, 2, 7200, 0, 0, 0.17895062500000003, 1, 1801479600, 1),
	(1, 3, 80, 1, 20846, 4, 3, 0.33000000000000007, 0, 0, 3, 1.1000000000000001e-10, 0, 0, 3, 7200, 0, 0, 0.08145062499999998, 0, 1800432000, 0),
	(3, 3, 80, 1, 20846, 2, 1, 0.5500000000000002, 0, 0, 1, 1.1000000000000001e-10, 0, 0, 1, 3600, 0, 0, 0.09025, 0, 1800439200, 0),
	(1, 4, 500, 3, 20846, 3, 3, 0.33000000000000007, 0, 0, 3, 1.1000000000000001e-10, 0, 0, 3, 900, 0, 0, 0.0857375, 1, 1801479600, 0),
	(2, 4, 500, 3, 20845, 3, 3, 0.44000000000000006, 0, 0, 3, 1.1000000000000001e-10, 0, 0, 3, 900, 0, 0, 0.0857375, 1, 1801480500, 0),
	(1, 5, 160, 1, 20857, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.09025, 0, 1801654200, 0),
	(1, 6, 40, 2, 20857, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.1, 1, 1802431800, 0),
	(2, 6, 40, 2, 20856, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.1, 1, 1802431800, 0);
INSERT INTO public.host_storage VALUES
	(1, 0, 1801999800, 1801654200, 1188000000, NULL, '', 0, 0);
INSERT INTO public.kept_file VALUES
	(1, 'kept_2c78e7216b85903d179400aafe201993', 0, '', 5000, 0, 0);
INSERT INTO public.ledger_event VALUES
	(3, 1, 1801049400, 'Begun', '{"early_exits":false,"unit":2.3148148148148147e-12}'),
	(3, 2, 1801049400, 'JobDecided', '{"job":{"estimate":1000000000000.0,"stratum":""},"reports":[{"result_id":23,"host":[1,4,"1"],"owner":1,"run_time":110.00000000000001,"speed":3000000000.0},{"result_id":24,"host":[2,4,"1"],"owner":2,"run_time":110.00000000000001,"speed":4000000000.0}],"quorum":2,"checked":[]}'),
	(3, 3, 1801049400, 'JobDecided', '{"job":{"estimate":1000000000000.0,"stratum":""},"reports":[{"result_id":25,"host":[1,4,"1"],"owner":1,"run_time":110.00000000000001,"speed":3000000000.0},{"result_id":26,"host":[2,4,"1"],"owner":2,"run_time":110.00000000000001,"speed":4000000000.0}],"quorum":2,"checked":[]}'),
	(3, 4, 1801049400, 'JobDecided', '{"job":{"estimate":1000000000000.0,"stratum":""},"reports":[{"result_id":27,"host":[1,4,"1"],"owner":1,"run_time":110.00000000000001,"speed":3000000000.0},{"result_id":28,"host":[2,4,"1"],"owner":2,"run_time":110.00000000000001,"speed":4000000000.0}],"quorum":2,"checked":[]}');
INSERT INTO public.ledger_record VALUES
	(3, 0, 0, '', '{"unit":2.3148148148148147e-12,"difference":0.15,"mean_size":0.2,"pairs":0,"own":{"paid":0.0,"value":0.0,"count":0.0},"partner":{"paid":128.89121234160658,"value":128.904090657822,"count":6.0},"length":{"paid":0.0,"value":0.0,"count":0.0},"sizes":{"paid":120.48832265839381,"value":122.33172543801285,"count":3.0},"factors":{"paid":122.31620061936913,"value":122.33172543801285,"count":3.0},"detector":{"up":0.0,"down":0.0,"shift":0.0,"left":0},"constant":0.0,"constants":{}}'),
	(3, 0, 4, '1', '{"effect":-1.0219656480504469,"votes":0.912485241276622,"spread":0.3055290661361802}'),
	(3, 1, 4, '1', '{"scale":3000000000.0,"samples":3,"effect":-0.07962362561523269,"variance":0.6219040935107288,"noise":1.0,"bank":0.2777777777777778,"debt":0.0,"trusted":3.0,"jobs":3,"refused":0,"earned":6.947160880338795,"escrow":6.947160880338795,"escrow_count":3,"stake":2.3172956097850426}'),
	(3, 2, 4, '1', '{"scale":4000000000.0,"samples":2,"effect":0.14968396009592597,"variance":0.6327715576102512,"noise":1.0,"bank":0.2777777777777778,"debt":0.0,"trusted":3.0,"jobs":3,"refused":0,"earned":6.928981748894648,"escrow":6.928981748894648,"escrow_count":3,"stake":2.3130871065830347}');
INSERT INTO public.mail VALUES
	(1, 1801913400, 'ada@example.org', 'Hello', 'It works.', 0, 1801913400, NULL, '');
INSERT INTO public.meta VALUES
	('transfer_entry', '21'),
	('app_credit_entry', '21'),
	('credit_day_entry', '21');
INSERT INTO public.milestone VALUES
	('user', 1, 0, 1800007200),
	('user', 2, 0, 1800007200),
	('user', 3, 0, 1800010800);
INSERT INTO public.msg_from_host VALUES
	(1, 1, 'search_1_0_0', 'trickle_credit', 1800003600, '<runtime>60</runtime>', '90674b92e2378467bd51512564fbcbd0', 1800003600, 1);
INSERT INTO public.msg_to_host VALUES
	(1, 1, '', '<x/>', 1801913400, NULL);
INSERT INTO public.news VALUES
	(1, 'It began', 'With a *small* job.', 1801913400);
INSERT INTO public.one_time_code VALUES
	(1, 2, 'recovery', '59ae6da0183531c8f8b7a9769f39969a81cc0d3cf4a044a47fef540bf1809b9e', '', 1801913400, NULL, NULL);
INSERT INTO public.profile VALUES
	(1, 'I compute.', '\x89504e47', 1, 1801913400);
INSERT INTO public.project_sample VALUES
	(1801913400, '{"users":3.0}');
INSERT INTO public.received_file VALUES
	(1, 'search_eb2955b56cc4994434238ad0c04632b4.sh'),
	(2, 'search_eb2955b56cc4994434238ad0c04632b4.sh'),
	(3, 'search_eb2955b56cc4994434238ad0c04632b4.sh'),
	(1, 'survey_d23bddda43e2ad10a8081b30db701dac.sh'),
	(2, 'survey_d23bddda43e2ad10a8081b30db701dac.sh'),
	(1, 'keeper_cbb10af7f398a86e3751da7b7ff9df34.sh'),
	(1, 'kept_2c78e7216b85903d179400aafe201993');
INSERT INTO public.result VALUES
	(1, 'search_1_0_0', 1, 1, 0, 2000, 5, 1, 5, 1, 0, 1, 1, 1, 1800000000, 1800000000, 1800432000, 1800007200, 100, 110.00000000000001, 0, 0.763888888888889, 1.0609567901234571, 3000000000, 0, 0, 0, 60, NULL, NULL, 1, 0),
	(2, 'search_1_0_1', 1, 1, 0, 2000, 5, 1, 5, 2, 2, 2, 2, 1, 1800000000, 1800000000, 1800432000, 1800007200, 100, 110.00000000000001, 0, 0, 0, 4000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(3, 'search_1_1_0', 2, 1, 0, 4000, 5, 1, 5, 1, 0, 1, 1, 1, 1800000000, 1800000000, 1800432000, 1800007200, 100, 110.00000000000001, 0, 0.763888888888889, 0.4504985754985756, 3000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(4, 'search_1_1_1', 2, 1, 0, 4000, 5, 1, 5, 1, 2, 2, 2, 1, 1800000000, 1800000000, 1800432000, 1800007200, 100, 110.00000000000001, 0, 1.0185185185185186, 0.9009971509971512, 4000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(5, 'search_1_2_0', 3, 1, 0, 6000, 5, 1, 5, 1, 0, 1, 1, 1, 1800000000, 1800000000, 1800432000, 1800007200, 100, 110.00000000000001, 0, 0.763888888888889, 0.9009971509971512, 3000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(6, 'search_1_2_1', 3, 1, 0, 6000, 5, 1, 5, 1, 2, 2, 2, 1, 1800000000, 1800000000, 1800432000, 1800007200, 100, 110.00000000000001, 0, 1.0185185185185186, 0.9009971509971512, 4000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(7, 'search_1_0_2', 1, 1, 1, 2000, 5, 1, 5, 1, 2, 3, 3, 1, 1800007200, 1800007200, 1800439200, 1800010800, 100, 110.00000000000001, 0, 1.2731481481481484, 1.0609567901234571, 5000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(8, 'fragile_2_0_0', 4, 2, 0, 8000, 5, 3, 3, 2, 1, 1, 1, 2, 1800010800, 1800010800, 1800442800, 1800010800, 0, 0, 1, 0, 0, 3000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(9, 'fragile_2_0_1', 4, 2, 0, 8000, 5, 5, 0, 0, 0, NULL, NULL, NULL, 1800010800, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0),
	(10, 'fragile_2_0_2', 4, 2, 1, 8000, 5, 3, 3, 2, 1, 2, 2, 2, 1800010800, 1800010800, 1800442800, 1800010800, 0, 0, 1, 0, 0, 4000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(11, 'fragile_2_0_3', 4, 2, 1, 8000, 5, 3, 3, 2, 1, 3, 3, 2, 1800010800, 1800010800, 1800442800, 1800010800, 0, 0, 1, 0, 0, 5000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(12, 'fragile_3_0_0', 5, 2, 0, 10000, 5, 6, 5, 2, 0, 1, 1, 2, 1800010800, 1800010800, 1800442800, 1800010800, 0, 0, 0, 0, 0, 3000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(13, 'fragile_3_0_1', 5, 2, 0, 10000, 5, 4, 0, 0, 0, 2, 2, 2, 1800010800, 1800010800, 1800442800, NULL, 0, 0, 0, 0, 0, 4000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(14, 'fragile_3_0_2', 5, 2, 1, 10000, 5, 1, 5, 4, 0, 3, 3, 2, 1800529200, 1800529200, 1800961200, 1800529200, 0, 0, 0, 0, 0, 5000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(15, 'fragile_3_0_3', 5, 2, 1, 10000, 2, 0, 0, 0, 0, NULL, NULL, NULL, 1800529200, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0),
	(16, 'fragile_4_0_0', 6, 2, 0, 12000, 5, 5, 0, 0, 0, NULL, NULL, NULL, 1800529200, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0),
	(17, 'fragile_4_0_1', 6, 2, 0, 12000, 5, 5, 0, 0, 0, NULL, NULL, NULL, 1800529200, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0),
	(18, 'fragile_4_1_0', 7, 2, 0, 14000, 5, 5, 0, 0, 0, NULL, NULL, NULL, 1800529200, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0),
	(19, 'fragile_4_1_1', 7, 2, 0, 14000, 5, 5, 0, 0, 0, NULL, NULL, NULL, 1800529200, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0),
	(20, 'search_5_0_0', 8, 1, 0, 12000, 5, 1, 5, 5, 2, 2, 2, 3, 1800529200, 1800529200, 1800961200, 1801047600, 100, 110.00000000000001, 0, 0, 0, 4000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(21, 'search_5_0_1', 8, 1, 0, 12000, 5, 1, 5, 1, 2, 3, 3, 3, 1800529200, 1801047600, 1801479600, 1801047600, 0, 0, 0, 2.314814814814815, 2.314814814814815, 5000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(22, 'search_5_0_2', 8, 1, 1, 12000, 5, 1, 5, 1, 2, 1, 1, 3, 1801047600, 1801047600, 1801479600, 1801047600, 0, 0, 0, 2.314814814814815, 2.314814814814815, 3000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(23, 'survey_6_0_0', 9, 3, 0, 14000, 5, 1, 5, 1, 0, 1, 1, 4, 1801047600, 1801047600, 1801479600, 1801048500, 100, 110.00000000000001, 0, 2.312412010053688, 2.312412010053688, 3000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(24, 'survey_6_0_1', 9, 3, 0, 14000, 5, 1, 5, 1, 0, 2, 2, 4, 1801047600, 1801048500, 1801480500, 1801049400, 100, 110.00000000000001, 0, 2.312408413074093, 2.312408413074093, 4000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(25, 'survey_6_1_0', 10, 3, 0, 16000, 5, 1, 5, 1, 0, 1, 1, 4, 1801047600, 1801047600, 1801479600, 1801048500, 100, 110.00000000000001, 0, 2.322179209516397, 2.322179209516397, 3000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(26, 'survey_6_1_1', 10, 3, 0, 16000, 5, 1, 5, 1, 0, 2, 2, 4, 1801047600, 1801048500, 1801480500, 1801049400, 100, 110.00000000000001, 0, 2.3137658000919763, 2.3137658000919763, 4000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(27, 'survey_6_2_0', 11, 3, 0, 18000, 5, 1, 5, 1, 0, 1, 1, 4, 1801047600, 1801047600, 1801479600, 1801048500, 100, 110.00000000000001, 0, 2.31256966076871, 2.31256966076871, 3000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(28, 'survey_6_2_1', 11, 3, 0, 18000, 5, 1, 5, 1, 0, 2, 2, 4, 1801047600, 1801048500, 1801480500, 1801049400, 100, 110.00000000000001, 0, 2.302807535728579, 2.302807535728579, 4000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(29, 'keeper_7_0_0', 12, 4, 0, 19000, 5, 1, 5, 1, 0, 1, 1, 5, 1801049400, 1801049400, 1801654200, 1801049400, 0, 0, 0, 2.314814814814815, 2.314814814814815, 3000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(30, 'keeper_8_0_0', 13, 4, 0, 20000, 5, 1, 5, 1, 0, 1, 1, 5, 1801049400, 1801999800, 1802604600, 1801999800, 0, 0, 0, 2.314814814814815, 2.314814814814815, 3000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(31, 'open_9_0_0', 14, 5, 0, 21000, 5, 1, 5, 4, 0, 1, 1, 6, 1801999800, 1801999800, 1802431800, 1801999800, 0, 0, 0, 0, 0, 3000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(32, 'open_9_0_1', 14, 5, 0, 21000, 5, 1, 5, 4, 0, 2, 2, 6, 1801999800, 1801999800, 1802431800, 1801999800, 0, 0, 0, 0, 0, 4000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(33, 'open_9_1_0', 15, 5, 0, 23000, 4, 0, 0, 0, 0, 1, 1, 6, 1801999800, 1801999800, 1802431800, NULL, 0, 0, 0, 0, 0, 3000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(34, 'open_9_1_1', 15, 5, 0, 23000, 4, 0, 0, 0, 0, 2, 2, 6, 1801999800, 1801999800, 1802431800, NULL, 0, 0, 0, 0, 0, 4000000000, 0, 0, 0, 0, NULL, NULL, 1, 0),
	(35, 'open_9_0_2', 14, 5, 1, 21000, 2, 0, 0, 0, 0, NULL, NULL, NULL, 1801999800, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0),
	(36, 'open_10_0_0', 16, 5, 0, 25000, 2, 0, 0, 0, 0, NULL, NULL, NULL, 1801999800, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0),
	(37, 'open_10_0_1', 16, 5, 0, 25000, 2, 0, 0, 0, 0, NULL, NULL, NULL, 1801999800, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0),
	(38, 'open_10_1_0', 17, 5, 0, 27000, 2, 0, 0, 0, 0, NULL, NULL, NULL, 1801999800, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0),
	(39, 'open_10_1_1', 17, 5, 0, 27000, 2, 0, 0, 0, 0, NULL, NULL, NULL, 1801999800, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0);
INSERT INTO public.result_text VALUES
	(1, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(2, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[{"code":"invalid","text":"search_1_0_1 disagrees with the canonical result search_1_0_0: out: 70000 and 3 bytes, different from byte 0 on","sentence":"{result} disagrees with the canonical result {canonical}: {difference}","values":{"result":"search_1_0_1","canonical":"search_1_0_0","difference":{"text":"out: 70000 and 3 bytes, different from byte 0 on","sentence":"{part0}","values":{"part0":{"text":"out: 70000 and 3 bytes, different from byte 0 on","sentence":"{file}: {first} and {second} bytes, different from byte {offset} on","values":{"file":"out","first":70000,"second":3,"offset":0}}}}}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(3, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(4, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(5, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(6, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(7, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(8, '\x480dcb2c51482acacf4e05000d760311', '{"client_message":"","client_version":"7.20.5","reasons":[{"code":"exit_status","text":"The program ended with status 1.","sentence":"The program ended with status {status}.","values":{"status":1}},{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(10, '\x480dcb2c51482acacf4e05000d760311', '{"client_message":"","client_version":"7.20.5","reasons":[{"code":"exit_status","text":"The program ended with status 1.","sentence":"The program ended with status {status}.","values":{"status":1}},{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(11, '\x480dcb2c51482acacf4e05000d760311', '{"client_message":"","client_version":"7.20.5","reasons":[{"code":"exit_status","text":"The program ended with status 1.","sentence":"The program ended with status {status}.","values":{"status":1}},{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(12, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}},{"code":"unusable","text":"fragile_3_0_0 is not usable: out: gzip cannot be decompressed: Error -3 while decompressing data: unknown compression method","sentence":"{result} is not usable: {problem}","values":{"result":"fragile_3_0_0","problem":{"text":"out: gzip cannot be decompressed: Error -3 while decompressing data: unknown compression method","sentence":"{file}: {problem}","values":{"file":"out","problem":{"text":"gzip cannot be decompressed: Error -3 while decompressing data: unknown compression method","sentence":"{what} cannot be decompressed: {error}","values":{"what":"gzip","error":"Error -3 while decompressing data: unknown compression method"}}}}}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(14, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(20, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(21, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(22, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(23, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(24, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(25, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(26, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(27, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(28, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(29, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(30, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(31, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}'),
	(32, '\x480dcb48cdc9c90700062c0215', '{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO public.server_process VALUES
	('1', 'alpha', 1, 'web', '0.1.0', 1801913400, 1801913400, 0, '[]');
INSERT INTO public.team VALUES
	(1, 'Team', 'team', 1, 1801913400, 'We.', '', '', 1, 2.314814814814815, 0.2182322586483641, 1801999800, 6, '<b>Team</b>');
INSERT INTO public.team_message VALUES
	(1, 1, 1, 'Welcome', 'All of you.', 1801913400);
INSERT INTO public.told_account VALUES
	(1, 'c92e4f87ec484d8725859e410513dd80', 1, '1_5979a975b0eb29c35cf4e81fa12043c7', 1801913400);
INSERT INTO public.upload VALUES
	('search_1_0_0_0', 1, 70000, 'bbe08e77a44b51de811b3d30272b9916', 0, NULL, 1800007200),
	('search_1_1_0_0', 3, 70000, 'bbe08e77a44b51de811b3d30272b9916', 0, NULL, 1800007200),
	('search_1_2_0_0', 5, 70000, 'bbe08e77a44b51de811b3d30272b9916', 0, NULL, 1800007200),
	('fragile_3_0_0_0', 12, 9, '05c6a03eb03934aaced5b6a346293664', 0, '\x1f8b2062726f6b656e', 1800010800),
	('fragile_3_0_2_0', 14, 7, 'c254bf0486a136bb7bcd15ec36dea6b7', 0, '\x312e3520322e35', 1800529200),
	('survey_6_0_0_0', 23, 70000, 'bbe08e77a44b51de811b3d30272b9916', 0, NULL, 1801048500),
	('survey_6_1_0_0', 25, 70000, 'bbe08e77a44b51de811b3d30272b9916', 0, NULL, 1801048500),
	('survey_6_2_0_0', 27, 70000, 'bbe08e77a44b51de811b3d30272b9916', 0, NULL, 1801048500),
	('survey_6_0_1_0', 24, 70000, 'bbe08e77a44b51de811b3d30272b9916', 0, NULL, 1801049400),
	('survey_6_1_1_0', 26, 70000, 'bbe08e77a44b51de811b3d30272b9916', 0, NULL, 1801049400),
	('survey_6_2_1_0', 28, 70000, 'bbe08e77a44b51de811b3d30272b9916', 0, NULL, 1801049400),
	('keeper_7_0_0_0', 29, 6, 'a363b8d13575101a0226e8d0d054f2e7', 0, '\x616e73776572', 1801049400),
	('keeper_8_0_0_0', 30, 3, 'f97c5d29941bfb1b2fdab0874906ab82', 0, '\x6f6e65', 1801999800),
	('open_9_0_0_0', 31, 3, 'f97c5d29941bfb1b2fdab0874906ab82', 0, '\x6f6e65', 1801999800),
	('open_9_0_1_0', 32, 5, '795f3202b17cb6bc3d4b771d8c6c9eaf', 0, '\x6f74686572', 1801999800);
INSERT INTO public.user_account VALUES
	(1, 'Ada', 'ada@example.org', '78acfb3441bd156ce7e878203653359f', '1_5979a975b0eb29c35cf4e81fa12043c7', '$argon2id$v=19$m=65536,t=3,p=4$QVARsyUkubNJAT/wwUAj1Q$+ZG+Q4hjLF4/zgm/2CWkGZKH+PsmpR4LLOVMZXLu9uk', 'f92e065030f823a0051dd7517636fe19', 1800000000, 1, '', '', '', '', 0, '', 1, '', '', 1, '', '', 0, 0, NULL, NULL, 13.98676223161738, 0.5298656981399543, 1801999800, 1801913400, 1),
	(2, 'Bob', 'bob@example.org', '88de489338e14805aaa2256c7ee6655f', '2_e555525209f930e81f80a3e5eaa8619a', '$argon2id$v=19$m=65536,t=3,p=4$w3/miqAPVpJv6cQId0O8WA$ynMO+YCkAC74TjAItPezhgDzlcmrIZmGMS31otZtdEI', 'a1a6ab9d97ae77989d522b27d821d18d', 1800000000, 1, '', '', '', '', 0, '', 1, '', '', 1, '', '', 0, 0, NULL, NULL, 6.417888944305917, 0.13986138635605158, 1801999800, NULL, 1),
	(3, 'Carol', 'carol@example.org', '9d91ab4199dc1fc112155453571e14c1', '3_fa813d78be603d2074bb57eafcd30114', '$argon2id$v=19$m=65536,t=3,p=4$4im6TbiL4adCGdQkrbcqFg$Wm8v2Z+W10YbaIpF9GqRyqmUTL/AU+hdJw2dOx4WT2g', 'f548b39e1a683878572c73c01053a480', 1800000000, NULL, '', '', '', '', 0, '', 1, '', '', 1, '', '', 0, 1, 1801999800, NULL, 3.375771604938272, 0.05571728254473553, 1801999800, NULL, 1);
INSERT INTO public.webhook VALUES
	(8, 'https://lab.example/hook', 'whsec_', 0, 0, '', 1801913400);
INSERT INTO public.workunit VALUES
	(1, 'search_1_0', 1, 1, '', 1800000000, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 3, 2, 10, 6, 0, 1, 1.0609567901234571, 0, NULL, 0, 2, 2, 0, NULL, NULL, NULL, NULL, -1, 2000, 3, 1800010800, 0, 0, ''),
	(2, 'search_1_1', 1, 1, '', 1800000000, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 2, 2, 10, 6, 0, 3, 0.9009971509971512, 0, NULL, 0, 2, 2, 0, NULL, NULL, NULL, NULL, -1, 4000, 1, 1800007200, 0, 0, ''),
	(3, 'search_1_2', 1, 1, '', 1800000000, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 2, 2, 10, 6, 0, 5, 0.9009971509971512, 0, NULL, 0, 2, 2, 0, NULL, NULL, NULL, NULL, -1, 6000, 2, 1800007200, 0, 0, ''),
	(4, 'fragile_2_0', 2, 2, '', 1800010800, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 2, 2, 10, 6, 0, NULL, 0, 0, NULL, 2, 2, 2, 0, NULL, NULL, NULL, NULL, -1, 8000, 1, 1800010800, 0, 0, ''),
	(5, 'fragile_3_0', 2, 3, '', 1800010800, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 2, 2, 10, 6, 0, NULL, 0, 0, 1802431800, 0, 0, 0, 0, NULL, NULL, NULL, NULL, -1, 10000, NULL, NULL, 0, 0, ''),
	(6, 'fragile_4_0', 2, 4, '', 1800529200, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 2, 2, 10, 6, 0, NULL, 0, 0, NULL, 16, 2, 2, 0, NULL, NULL, NULL, NULL, -1, 12000, 1, 1800529200, 0, 0, ''),
	(7, 'fragile_4_1', 2, 4, '', 1800529200, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 2, 2, 10, 6, 0, NULL, 0, 0, NULL, 16, 2, 2, 0, NULL, NULL, NULL, NULL, -1, 14000, 2, 1800529200, 0, 0, ''),
	(8, 'search_5_0', 1, 5, '', 1800529200, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 2, 2, 10, 6, 0, 21, 2.314814814814815, 0, NULL, 0, 2, 2, 0, NULL, NULL, NULL, NULL, -1, 12000, 1, 1801047600, 0, 0, ''),
	(9, 'survey_6_0', 3, 6, '', 1801047600, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 2, 2, 10, 6, 0, 23, 2.312412010053688, 0, 1802086200, 0, 2, 0, 0, NULL, NULL, NULL, NULL, -1, 14000, 1, 1801049400, 0, 0, ''),
	(10, 'survey_6_1', 3, 6, '', 1801047600, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 2, 2, 10, 6, 0, 25, 2.322179209516397, 0, 1802086200, 0, 2, 0, 0, NULL, NULL, NULL, NULL, -1, 16000, 2, 1801049400, 0, 0, ''),
	(11, 'survey_6_2', 3, 6, '', 1801047600, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 2, 2, 10, 6, 0, 27, 2.31256966076871, 0, 1802086200, 0, 2, 0, 0, NULL, NULL, NULL, NULL, -1, 18000, 3, 1801049400, 0, 0, ''),
	(12, 'keeper_7_0', 4, 7, '', 1801049400, 0, '', '[{"name":"kept_2c78e7216b85903d179400aafe201993","open_name":"in","nbytes":5000,"md5":"a633e020972199bb8a244dc1c656a1fe","gzipped_nbytes":null,"sticky":true,"copy_file":true,"given_name":""}]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 864000000000000, 500000000, 1000000000, 0, 604800, 1, 1, 3, 10, 6, 0, 29, 2.314814814814815, 0, NULL, 0, 2, 2, 0, NULL, NULL, NULL, NULL, -1, 19000, 1, 1801049400, 0, 0, ''),
	(13, 'keeper_8_0', 4, 8, '', 1801049400, 0, '', '[{"name":"kept_2c78e7216b85903d179400aafe201993","open_name":"in","nbytes":5000,"md5":"a633e020972199bb8a244dc1c656a1fe","gzipped_nbytes":null,"sticky":true,"copy_file":true,"given_name":""}]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 864000000000000, 500000000, 1000000000, 0, 604800, 1, 1, 3, 10, 6, 0, 30, 2.314814814814815, 0, NULL, 0, 2, 2, 0, NULL, NULL, NULL, NULL, -1, 20000, 1, 1801999800, 0, 0, ''),
	(14, 'open_9_0', 5, 9, '', 1801999800, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 3, 2, 10, 6, 0, NULL, 0, 0, 1802431800, 0, 0, 0, 0, NULL, NULL, NULL, NULL, -1, 21000, NULL, NULL, 0, 0, ''),
	(15, 'open_9_1', 5, 9, '', 1801999800, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 2, 2, 10, 6, 0, NULL, 0, 0, 1802431800, 0, 0, 0, 0, NULL, NULL, NULL, NULL, -1, 23000, NULL, NULL, 0, 0, ''),
	(16, 'open_10_0', 5, 10, '', 1801999800, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 2, 2, 10, 6, 0, NULL, 0, 0, 1802431800, 0, 0, 0, 0, NULL, NULL, NULL, NULL, -1, 25000, NULL, NULL, 0, 0, ''),
	(17, 'open_10_1', 5, 10, '', 1801999800, 0, '', '[]', '[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]', 1000000000000, 100000000000000, 500000000, 1000000000, 0, 432000, 2, 2, 2, 10, 6, 0, NULL, 0, 0, 1802431800, 0, 0, 0, 0, NULL, NULL, NULL, NULL, -1, 27000, NULL, NULL, 0, 0, '');
SELECT pg_catalog.setval('public.api_token_id_seq', 2, true);
SELECT pg_catalog.setval('public.app_id_seq', 5, true);
SELECT pg_catalog.setval('public.app_version_id_seq', 6, true);
SELECT pg_catalog.setval('public.audit_entry_id_seq', 2, true);
SELECT pg_catalog.setval('public.badge_id_seq', 9, true);
SELECT pg_catalog.setval('public.batch_id_seq', 10, true);
SELECT pg_catalog.setval('public.code_sign_key_id_seq', 1, true);
SELECT pg_catalog.setval('public.consent_id_seq', 1, true);
SELECT pg_catalog.setval('public.contribution_entry_id_seq', 21, true);
SELECT pg_catalog.setval('public.credit_decay_id_seq', 3, true);
SELECT pg_catalog.setval('public.credit_entry_id_seq', 22, true);
SELECT pg_catalog.setval('public.credit_inheritance_id_seq', 3, true);
SELECT pg_catalog.setval('public.host_id_seq', 4, true);
SELECT pg_catalog.setval('public.mail_id_seq', 1, true);
SELECT pg_catalog.setval('public.msg_from_host_id_seq', 1, true);
SELECT pg_catalog.setval('public.msg_to_host_id_seq', 1, true);
SELECT pg_catalog.setval('public.news_id_seq', 1, true);
SELECT pg_catalog.setval('public.one_time_code_id_seq', 1, true);
SELECT pg_catalog.setval('public.result_id_seq', 39, true);
SELECT pg_catalog.setval('public.team_id_seq', 1, true);
SELECT pg_catalog.setval('public.team_message_id_seq', 1, true);
SELECT pg_catalog.setval('public.user_account_id_seq', 3, true);
SELECT pg_catalog.setval('public.workunit_id_seq', 17, true);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.api_reply
    ADD CONSTRAINT api_reply_pkey PRIMARY KEY (request_key);
ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT api_token_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT api_token_token_hash_key UNIQUE (token_hash);
ALTER TABLE ONLY public.app_credit
    ADD CONSTRAINT app_credit_pkey PRIMARY KEY (owner, app_id, owner_id);
ALTER TABLE ONLY public.app_day
    ADD CONSTRAINT app_day_pkey PRIMARY KEY (app_id, day);
ALTER TABLE ONLY public.app_host_day
    ADD CONSTRAINT app_host_day_pkey PRIMARY KEY (app_id, host_id);
ALTER TABLE ONLY public.app
    ADD CONSTRAINT app_name_key UNIQUE (name);
ALTER TABLE ONLY public.app
    ADD CONSTRAINT app_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.app_version
    ADD CONSTRAINT app_version_app_id_platform_version_num_plan_class_key UNIQUE (app_id, platform, version_num, plan_class);
ALTER TABLE ONLY public.app_version
    ADD CONSTRAINT app_version_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.audit_entry
    ADD CONSTRAINT audit_entry_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.badge
    ADD CONSTRAINT badge_kind_level_key UNIQUE (kind, level);
ALTER TABLE ONLY public.badge_owner
    ADD CONSTRAINT badge_owner_pkey PRIMARY KEY (owner, owner_id, badge_id);
ALTER TABLE ONLY public.badge
    ADD CONSTRAINT badge_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.batch
    ADD CONSTRAINT batch_request_key_key UNIQUE (request_key);
ALTER TABLE ONLY public.code_sign_key
    ADD CONSTRAINT code_sign_key_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.consent
    ADD CONSTRAINT consent_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.contribution_entry
    ADD CONSTRAINT contribution_entry_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.contribution
    ADD CONSTRAINT contribution_pkey PRIMARY KEY (owner, owner_id, kind);
ALTER TABLE ONLY public.credit_day
    ADD CONSTRAINT credit_day_pkey PRIMARY KEY (owner, owner_id, day);
ALTER TABLE ONLY public.credit_decay
    ADD CONSTRAINT credit_decay_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.credit_entry
    ADD CONSTRAINT credit_entry_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.credit_inheritance
    ADD CONSTRAINT credit_inheritance_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.deletion
    ADD CONSTRAINT deletion_pkey PRIMARY KEY (owner, owner_id);
ALTER TABLE ONLY public.ended_session
    ADD CONSTRAINT ended_session_pkey PRIMARY KEY (session_hash);
ALTER TABLE ONLY public.escrow
    ADD CONSTRAINT escrow_pkey PRIMARY KEY (result_id);
ALTER TABLE ONLY public.file
    ADD CONSTRAINT file_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.host_app_version
    ADD CONSTRAINT host_app_version_pkey PRIMARY KEY (host_id, app_version_id);
ALTER TABLE ONLY public.host
    ADD CONSTRAINT host_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.host_storage
    ADD CONSTRAINT host_storage_pkey PRIMARY KEY (host_id);
ALTER TABLE ONLY public.kept_file
    ADD CONSTRAINT kept_file_pkey PRIMARY KEY (host_id, file_name);
ALTER TABLE ONLY public.ledger_event
    ADD CONSTRAINT ledger_event_pkey PRIMARY KEY (app_id, seq);
ALTER TABLE ONLY public.ledger_record
    ADD CONSTRAINT ledger_record_pkey PRIMARY KEY (app_id, host_id, app_version_id, usage);
ALTER TABLE ONLY public.mail
    ADD CONSTRAINT mail_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.milestone
    ADD CONSTRAINT milestone_pkey PRIMARY KEY (owner, owner_id, credit);
ALTER TABLE ONLY public.msg_from_host
    ADD CONSTRAINT msg_from_host_host_id_result_name_time_digest_key UNIQUE (host_id, result_name, "time", digest);
ALTER TABLE ONLY public.msg_from_host
    ADD CONSTRAINT msg_from_host_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.msg_to_host
    ADD CONSTRAINT msg_to_host_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.news
    ADD CONSTRAINT news_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.one_time_code
    ADD CONSTRAINT one_time_code_code_hash_key UNIQUE (code_hash);
ALTER TABLE ONLY public.one_time_code
    ADD CONSTRAINT one_time_code_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.process_program
    ADD CONSTRAINT process_program_pkey PRIMARY KEY (member);
ALTER TABLE ONLY public.profile
    ADD CONSTRAINT profile_pkey PRIMARY KEY (user_id);
ALTER TABLE ONLY public.project_sample
    ADD CONSTRAINT project_sample_pkey PRIMARY KEY ("time");
ALTER TABLE ONLY public.received_file
    ADD CONSTRAINT received_file_pkey PRIMARY KEY (host_id, file_name);
ALTER TABLE ONLY public.result
    ADD CONSTRAINT result_name_key UNIQUE (name);
ALTER TABLE ONLY public.result
    ADD CONSTRAINT result_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.result_text
    ADD CONSTRAINT result_text_pkey PRIMARY KEY (result_id);
ALTER TABLE ONLY public.schema_bears
    ADD CONSTRAINT schema_bears_pkey PRIMARY KEY (one);
ALTER TABLE ONLY public.server_process
    ADD CONSTRAINT server_process_pkey PRIMARY KEY (process_key);
ALTER TABLE ONLY public.team_message
    ADD CONSTRAINT team_message_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.team
    ADD CONSTRAINT team_name_lc_key UNIQUE (name_lc);
ALTER TABLE ONLY public.team
    ADD CONSTRAINT team_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.told_account
    ADD CONSTRAINT told_account_pkey PRIMARY KEY (token_id, account);
ALTER TABLE ONLY public.told_account
    ADD CONSTRAINT told_account_token_id_user_id_key UNIQUE (token_id, user_id);
ALTER TABLE ONLY public.upload
    ADD CONSTRAINT upload_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.user_account
    ADD CONSTRAINT user_account_authenticator_key UNIQUE (authenticator);
ALTER TABLE ONLY public.user_account
    ADD CONSTRAINT user_account_email_addr_key UNIQUE (email_addr);
ALTER TABLE ONLY public.user_account
    ADD CONSTRAINT user_account_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.user_account
    ADD CONSTRAINT user_account_weak_authenticator_key UNIQUE (weak_authenticator);
ALTER TABLE ONLY public.webhook
    ADD CONSTRAINT webhook_pkey PRIMARY KEY (batch_id);
ALTER TABLE ONLY public.workunit
    ADD CONSTRAINT workunit_name_key UNIQUE (name);
ALTER TABLE ONLY public.workunit
    ADD CONSTRAINT workunit_pkey PRIMARY KEY (id);
CREATE INDEX api_reply_expired ON public.api_reply USING btree (expire_time);
CREATE INDEX app_credit_by_owner ON public.app_credit USING btree (owner, owner_id);
CREATE INDEX app_credit_by_recent ON public.app_credit USING btree (owner, app_id, expavg_credit);
CREATE INDEX app_credit_by_total ON public.app_credit USING btree (owner, app_id, total_credit);
CREATE INDEX audit_by_target ON public.audit_entry USING btree (target);
CREATE INDEX batch_to_archive ON public.batch USING btree (id) WHERE ((state = 4) AND (archived = 0));
CREATE INDEX batch_unfinished ON public.batch USING btree (token_id) WHERE (state = ANY (ARRAY[(0)::bigint, (1)::bigint]));
CREATE INDEX code_by_user ON public.one_time_code USING btree (user_id, purpose);
CREATE INDEX consent_by_user ON public.consent USING btree (user_id, kind, id);
CREATE INDEX contribution_by_host ON public.contribution_entry USING btree (host_id, id);
CREATE INDEX contribution_by_user ON public.contribution_entry USING btree (user_id, id);
CREATE INDEX credit_by_host ON public.credit_entry USING btree (host_id, "time");
CREATE INDEX credit_by_result ON public.credit_entry USING btree (result_id);
CREATE INDEX credit_by_team ON public.credit_entry USING btree (team_id, "time") WHERE (team_id IS NOT NULL);
CREATE INDEX credit_by_user ON public.credit_entry USING btree (user_id, "time");
CREATE INDEX credit_day_by_age ON public.credit_day USING btree (n_days, day);
CREATE UNIQUE INDEX credit_once ON public.credit_entry USING btree (result_id) WHERE (kind = 'grant'::text);
CREATE INDEX ended_session_expired ON public.ended_session USING btree (expire_time);
CREATE INDEX escrow_by_host ON public.escrow USING btree (host_id, price);
CREATE INDEX escrow_by_user ON public.escrow USING btree (user_id, price);
CREATE INDEX escrow_by_workunit ON public.escrow USING btree (workunit_id);
CREATE INDEX file_unused ON public.file USING btree (touched_time) WHERE (refs <= 0);
CREATE INDEX host_by_cpid ON public.host USING btree (user_id, host_cpid);
CREATE INDEX host_by_credit ON public.host USING btree (expavg_credit, id, merged_into, removed_time) WHERE ((merged_into IS NULL) AND (removed_time IS NULL));
CREATE INDEX host_by_total ON public.host USING btree (total_credit, id, merged_into, removed_time) WHERE ((merged_into IS NULL) AND (removed_time IS NULL));
CREATE INDEX host_merged ON public.host USING btree (merged_into) WHERE (merged_into IS NOT NULL);
CREATE INDEX host_removed ON public.host USING btree (removed_time) WHERE (removed_time IS NOT NULL);
CREATE INDEX host_storage_answered ON public.host_storage USING btree (host_id) WHERE (answer <> ''::text);
CREATE INDEX kept_file_by_name ON public.kept_file USING btree (file_name, counted);
CREATE INDEX kept_file_to_count ON public.kept_file USING btree (host_id) WHERE ((listed = 1) AND (counted = 0));
CREATE INDEX mail_waiting ON public.mail USING btree (next_time) WHERE (sent_time IS NULL);
CREATE INDEX msg_from_host_waiting ON public.msg_from_host USING btree (variety, id) WHERE (handled = 0);
CREATE INDEX msg_to_host_waiting ON public.msg_to_host USING btree (host_id) WHERE (sent_time IS NULL);
CREATE INDEX received_file_by_name ON public.received_file USING btree (file_name);
CREATE INDEX result_by_app ON public.result USING btree (app_id);
CREATE INDEX result_by_host ON public.result USING btree (host_id, id);
CREATE INDEX result_by_user ON public.result USING btree (user_id, id);
CREATE INDEX result_by_workunit ON public.result USING btree (workunit_id, user_id);
CREATE INDEX result_delete ON public.result USING btree (id) WHERE (file_delete_state = 1);
CREATE INDEX result_in_progress ON public.result USING btree (host_id) WHERE (server_state = 4);
CREATE INDEX result_unsent ON public.result USING btree (priority DESC, turn, id) WHERE (server_state = 2);
CREATE INDEX team_by_credit ON public.team USING btree (expavg_credit, id);
CREATE INDEX team_by_total ON public.team USING btree (total_credit, id);
CREATE INDEX team_message_by_team ON public.team_message USING btree (team_id, id);
CREATE INDEX upload_by_result ON public.upload USING btree (result_id);
CREATE INDEX user_by_credit ON public.user_account USING btree (expavg_credit, id, erased_time) WHERE (erased_time IS NULL);
CREATE INDEX user_by_team ON public.user_account USING btree (team_id);
CREATE INDEX user_by_total ON public.user_account USING btree (total_credit, id, erased_time) WHERE (erased_time IS NULL);
CREATE INDEX user_to_erase ON public.user_account USING btree (erase_time) WHERE ((erase_time IS NOT NULL) AND (erased_time IS NULL));
CREATE INDEX webhook_by_next ON public.webhook USING btree (next_time);
CREATE INDEX wu_archive ON public.workunit USING btree (batch_id, completed_time) WHERE (file_delete_state = 2);
CREATE INDEX wu_assimilate ON public.workunit USING btree (id) WHERE (assimilate_state = 1);
CREATE INDEX wu_by_batch ON public.workunit USING btree (batch_id, completed_seq);
CREATE INDEX wu_delete ON public.workunit USING btree (id) WHERE (file_delete_state = 1);
CREATE INDEX wu_due ON public.workunit USING btree (transition_time) WHERE (transition_time IS NOT NULL);
CREATE INDEX wu_for_host ON public.workunit USING btree (target_host_id, id) WHERE ((target_host_id IS NOT NULL) AND (assimilate_state = 0));
CREATE INDEX wu_for_team ON public.workunit USING btree (target_team_id, id) WHERE ((target_team_id IS NOT NULL) AND (assimilate_state = 0));
CREATE INDEX wu_for_user ON public.workunit USING btree (target_user_id, id) WHERE ((target_user_id IS NOT NULL) AND (assimilate_state = 0));
CREATE INDEX wu_of_batch ON public.workunit USING btree (batch_id, id) WHERE (batch_id IS NOT NULL);
CREATE INDEX wu_targeted ON public.workunit USING btree (id) WHERE ((assimilate_state = 0) AND ((target_host_id IS NOT NULL) OR (target_user_id IS NOT NULL) OR (target_team_id IS NOT NULL)));
CREATE INDEX wu_validate ON public.workunit USING btree (id) WHERE (need_validate = 1);
