BEGIN TRANSACTION;
CREATE TABLE account (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
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
) STRICT;
INSERT INTO "account" VALUES(1,'ann@example.org','Ann','$argon2id$v=19$m=65536,t=3,p=4$MMiRv0d/4RYXqXA6oWtWug$WZrlaidzo+110J54eEb//5F9i5hqrL++eWN3PAoNnXQ','153bfbba094055a4707c4648b9c79cea','1_9550f86b0c8c0f3887aba99b23491e63','12d31d5f89d32cbb5263d37499ed8447','',0,1,'{"mode":"science","preset":"standard","venue_presets":{},"yes":[],"no":[],"kept_out":[],"kept_out_devices":[],"shares":{},"suspended":[],"statistics":null,"team_name":"","changed":0.0}',1790000000.0,NULL);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0006');
CREATE TABLE api_token (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT DEFAULT '' NOT NULL,
    token_hash TEXT DEFAULT '' NOT NULL UNIQUE,
    scopes TEXT DEFAULT '' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    expire_time REAL,
    revoke_time REAL,
    used_time REAL
) STRICT;
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
) STRICT;
INSERT INTO "daily" VALUES('account',1,20717,3.33333333333333357026e+01,14400.0,0.0,0.0,1.0,0.0);
INSERT INTO "daily" VALUES('project',1,20717,3.33333333333333357026e+01,14400.0,0.0,0.0,1.0,0.0);
INSERT INTO "daily" VALUES('all',0,20717,3.33333333333333357026e+01,14400.0,0.0,0.0,1.0,0.0);
CREATE TABLE ended_session (
    session_hash TEXT NOT NULL PRIMARY KEY,
    expire_time REAL DEFAULT 0 NOT NULL
) STRICT;
CREATE TABLE figure (
    account_id INTEGER NOT NULL PRIMARY KEY,
    shown REAL DEFAULT 0 NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    starter REAL DEFAULT 0 NOT NULL,
    address_block TEXT DEFAULT '' NOT NULL
) STRICT;
CREATE TABLE granted_account (
    account_id INTEGER NOT NULL,
    project_id INTEGER NOT NULL,
    told_name TEXT NOT NULL,
    weak_key TEXT DEFAULT '' NOT NULL,
    record TEXT DEFAULT '{}' NOT NULL,
    PRIMARY KEY (account_id, project_id),
    UNIQUE (project_id, told_name)
) STRICT;
CREATE TABLE host (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
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
) STRICT;
INSERT INTO "host" VALUES(1,1,'0d5c1b91c8de514f80442959cfaa2895','168c00a07883812150658e11f698fccc','box','127.0.0','','Granite 4',4,1000000000.0,'',0,0.0,'','',72005,'',0,'{"first_contact":1790000000.0,"contact":1790003600.0,"contacts":2,"counted":{"cpu_ec":33.333333333333336,"cpu_time":14400.0,"gpu_ec":0.0,"gpu_time":0.0,"njobs_success":1.0,"njobs_error":0.0},"spare_cpu_seconds":0.0,"spare_gpu_seconds":0.0}','[{"project_id":1,"chosen":true,"reasons":[{"code":"share","text":"It should get 100.0 percent of all computing; by that measure it was number 1 in the order.","sentence":"It should get {percent} percent of all computing; by that measure it was number {place} in the order.","values":{"percent":100.0,"place":1}},{"code":"covers","text":"It has work for CPU.","sentence":"It has work for {device}.","values":{"device":"CPU"}}]},{"project_id":2,"chosen":false,"reasons":[{"code":"account_soon","text":"Your account there is being created.","sentence":"Your account there is being created.","values":{}}]}]',1790000000.0,1790003600.0);
CREATE TABLE host_project (
    host_id INTEGER NOT NULL,
    project_id INTEGER NOT NULL,
    project_host_id INTEGER DEFAULT 0 NOT NULL,
    record TEXT DEFAULT '{}' NOT NULL,
    expected REAL DEFAULT 0 NOT NULL,
    kept_back REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (host_id, project_id)
) STRICT;
INSERT INTO "host_project" VALUES(1,1,7,'{"reported":{"cpu_ec":33.333333333333336,"cpu_time":14400.0,"gpu_ec":0.0,"gpu_time":0.0,"njobs_success":1.0,"njobs_error":0.0},"fallen":null,"fallen_contact":0,"held":{"cpu_ec":0.0,"cpu_time":0.0,"gpu_ec":0.0,"gpu_time":0.0,"njobs_success":0.0,"njobs_error":0.0},"held_since":0.0,"disputed":{"cpu_ec":0.0,"cpu_time":0.0,"gpu_ec":0.0,"gpu_time":0.0,"njobs_success":0.0,"njobs_error":0.0}}',400.0,0.0);
CREATE TABLE keyword (
    id INTEGER NOT NULL PRIMARY KEY,
    kind TEXT DEFAULT 'subject' NOT NULL,
    name TEXT DEFAULT '' NOT NULL
) STRICT;
CREATE TABLE ledger (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
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
) STRICT;
INSERT INTO "ledger" VALUES(1,1,1,1,20717,'contact',3.33333333333333357026e+01,14400.0,0.0,0.0,1.0,0.0,0.0,'');
CREATE TABLE listed_job (
    project_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    account_id INTEGER NOT NULL,
    granted REAL DEFAULT 0 NOT NULL,
    until REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (project_id, name)
) STRICT;
CREATE TABLE mail (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    create_time REAL DEFAULT 0 NOT NULL,
    recipient TEXT DEFAULT '' NOT NULL,
    subject TEXT DEFAULT '' NOT NULL,
    body TEXT DEFAULT '' NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    next_time REAL DEFAULT 0 NOT NULL,
    sent_time REAL,
    error TEXT DEFAULT '' NOT NULL
) STRICT;
INSERT INTO "mail" VALUES(1,1790000000.0,'ann@example.org','Stones: confirm your address','Hello,

Someone, most likely you, has created an account with this e-mail address. To confirm it, open within a week:

http://127.0.0.1:8180/email_confirm.php?code=ikCmcPb3Qiv6bxS8peeXsThCYouCitvKDK18whSzuCE

If this was not you, ignore this mail.

Stones
http://127.0.0.1:8180/
',0,1790000000.0,NULL,'');
CREATE TABLE news (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    title TEXT DEFAULT '' NOT NULL,
    text TEXT DEFAULT '' NOT NULL,
    time REAL DEFAULT 0 NOT NULL
) STRICT;
CREATE TABLE one_time_code (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER DEFAULT 0 NOT NULL,
    purpose TEXT DEFAULT '' NOT NULL,
    code_hash TEXT DEFAULT '' NOT NULL UNIQUE,
    payload TEXT DEFAULT '' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    expire_time REAL,
    used_time REAL
) STRICT;
INSERT INTO "one_time_code" VALUES(1,1,'confirm_email','fd11cc665ca9f07ad5b143f313a104804c9ea96bf419d0ab5b93e2ceb1bbaa9e','',1790000000.0,1790604800.0,NULL);
CREATE TABLE project (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
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
) STRICT;
INSERT INTO "project" VALUES(1,'http://p1.example.org/','p1.example.org','801ed0437113120d7e2cf14cefb422c5f5953f8340335fe05e5ac4cc24796b50
41a175ba14d302a2c11e3a63f89ba131bc90ae1b29b75553b636d03ee1fd8e67
adf95345c11f035e9ae23bb70bfbb179191043d3f554752031562a91a1e7c5cc
8eea67a69c2b09e6a028f93cbf93e33b6137118f6afc2a25c071ede31b4d82ad
.
','P1',1.0,0,'1_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','{}','[{"platform":"x86_64-pc-linux-gnu","device":"CPU","virtualbox":false},{"platform":"x86_64-pc-linux-gnu","device":"NVIDIA","virtualbox":false}]','{"CPU":0.0}',3.33333333333333357026e+01,1790003600.0,0,1000000000000.0,'',0.0,1790000000.0,400.0);
INSERT INTO "project" VALUES(2,'http://p2.example.org/','p2.example.org','b1cd46c90958dd41139774ad0b9580888068685138d131c716d99d02545836ab
5013ccfd12cf91f9b975b248a8e955c15f65b924ab6ef7e390a71d2880c83a11
e4f04ce11ff3692ec9c55fa7da97ced42694a58c41e2998347bfb5eb4e790703
2c4613e55d60e99768d0bc8c7089303d8f506fdc7a2702bd56df637cff8ae81c
.
','P2',1.0,0,'','{}','[{"platform":"x86_64-pc-linux-gnu","device":"CPU","virtualbox":false},{"platform":"x86_64-pc-linux-gnu","device":"NVIDIA","virtualbox":false}]','{}',0.0,1790003600.0,0,1000000000000.0,'',0.0,1790000000.0,0.0);
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
) STRICT;
INSERT INTO "project_account" VALUES(1,2,'',0,1790000000.0,'',0.0,0.0,0.0,NULL,'');
INSERT INTO "project_account" VALUES(1,1,'',0,NULL,'',3.33333333333333357026e+01,3.30070085980926331004e+00,1790003600.0,NULL,'');
CREATE TABLE project_accounting (
    project_id INTEGER NOT NULL PRIMARY KEY,
    token TEXT DEFAULT '' NOT NULL,
    vouched INTEGER DEFAULT 0 NOT NULL,
    next_day INTEGER DEFAULT 0 NOT NULL,
    next_ask REAL DEFAULT 0 NOT NULL,
    asked_time REAL DEFAULT 0 NOT NULL,
    failures INTEGER DEFAULT 0 NOT NULL,
    problem TEXT DEFAULT '' NOT NULL
) STRICT;
CREATE INDEX daily_of_day ON daily (day);
CREATE INDEX ended_session_expired ON ended_session (expire_time);
CREATE INDEX figure_of_block ON figure (address_block);
CREATE INDEX host_of_account ON host (account_id, id);
CREATE INDEX host_of_block ON host (address_block, p_model, create_time);
CREATE INDEX host_of_client ON host (account_id, host_cpid);
CREATE INDEX host_of_gpu_model ON host (gpu_model, account_id);
CREATE INDEX host_of_model ON host (p_model, account_id);
CREATE INDEX host_project_kept_back ON host_project (kept_back);
CREATE INDEX ledger_of_account ON ledger (account_id, day);
CREATE INDEX ledger_of_day ON ledger (day);
CREATE INDEX ledger_of_project ON ledger (project_id, day);
CREATE INDEX listed_job_of_account ON listed_job (account_id);
CREATE INDEX mail_waiting ON mail (next_time) WHERE sent_time IS NULL;
CREATE INDEX code_by_user ON one_time_code (user_id, purpose);
CREATE INDEX project_account_due ON project_account (next_try);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('project',2);
INSERT INTO "sqlite_sequence" VALUES('account',1);
INSERT INTO "sqlite_sequence" VALUES('one_time_code',1);
INSERT INTO "sqlite_sequence" VALUES('mail',1);
INSERT INTO "sqlite_sequence" VALUES('host',1);
INSERT INTO "sqlite_sequence" VALUES('ledger',1);
COMMIT;
