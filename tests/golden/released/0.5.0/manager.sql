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
INSERT INTO "account" VALUES(1,'ann@example.org','Ann','$argon2id$v=19$m=65536,t=3,p=4$gpDxij8mE5M5fHyr1sk2qg$X7VJ14cunAlIa/YpwQkDyqujv0CW7kJU9k6xW3oL4NU','d73d0a2a6983907a2c8344ec17e77c1b','1_4c8be26de427598deed204b5bf2a9b9f','0e4fc0698f7c08d16f7ca0c662bfcbfd','',0,1,'{"mode":"science","preset":"standard","venue_presets":{},"yes":[],"no":[],"kept_out":[],"kept_out_devices":[],"shares":{},"suspended":[],"statistics":null,"team_name":"","changed":0.0}',1790000000.0,NULL);
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
INSERT INTO "host" VALUES(1,1,'f598686e82c4381a5d266855fb7edf9d','8fa79ab82e7660579153950a371e06fb','box','127.0.0','','Granite 4',4,1000000000.0,'',0,0.0,'','',72005,'',0,'{"first_contact":1790000000.0,"contact":1790003600.0,"contacts":2,"counted":{"cpu_ec":33.333333333333336,"cpu_time":14400.0,"gpu_ec":0.0,"gpu_time":0.0,"njobs_success":1.0,"njobs_error":0.0},"spare_cpu_seconds":0.0,"spare_gpu_seconds":0.0}','[{"project_id":1,"chosen":true,"reasons":[{"code":"share","text":"It should get 100.0 percent of all computing; by that measure it was number 1 in the order.","sentence":"It should get {percent} percent of all computing; by that measure it was number {place} in the order.","values":{"percent":100.0,"place":1}},{"code":"covers","text":"It has work for CPU.","sentence":"It has work for {device}.","values":{"device":"CPU"}}]},{"project_id":2,"chosen":false,"reasons":[{"code":"account_soon","text":"Your account there is being created.","sentence":"Your account there is being created.","values":{}}]}]',1790000000.0,1790003600.0);
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

http://127.0.0.1:8180/email_confirm.php?code=x-KXJMdLscRmT7d4C9Da9ruJ4Yc7-IhJDES1GEsnBt0

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
INSERT INTO "one_time_code" VALUES(1,1,'confirm_email','5b092a0edbe564ccb5b50914b0f5f7720b3c36a73d344ab7c9f404ded8c9512b','',1790000000.0,1790604800.0,NULL);
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
INSERT INTO "project" VALUES(1,'http://p1.example.org/','p1.example.org','1f76f628a571aebb37a462996dad1e533a95f15799b52e0436ef37971c110784
a14390e4da4c3df690e44d7d15eaa48b1e4c883441930276c2dfa38e52651f5f
885e45e4ae78d670267ff5497959bd220fe02ee537968e932058dca334a188e4
59d5dd3c07d23e64f25dd740e28441cd9dab428215db4f71e49e47cf49762a5f
.
','P1',1.0,0,'1_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','{}','[{"platform":"x86_64-pc-linux-gnu","device":"NVIDIA","virtualbox":false},{"platform":"x86_64-pc-linux-gnu","device":"CPU","virtualbox":false}]','{"CPU":0.0}',3.33333333333333357026e+01,1790003600.0,0,1000000000000.0,'',0.0,1790000000.0,400.0);
INSERT INTO "project" VALUES(2,'http://p2.example.org/','p2.example.org','6dd5211ba59ed57a9437a3f07faf6b11c11a77c4fd3f74bd07529f90168f4d96
afb3a67bc3997dd8220b5b345984162e53203ca8543f61f260588dd650d97426
a89776ebc9dc5ced9b8c39feeeba59614647ceb337f6b8f02baa467869a86b61
397c4548337b5bd11f8a997c3fa6cceb361256199555a674216d5865d2324ba7
.
','P2',1.0,0,'','{}','[{"platform":"x86_64-pc-linux-gnu","device":"NVIDIA","virtualbox":false},{"platform":"x86_64-pc-linux-gnu","device":"CPU","virtualbox":false}]','{}',0.0,1790003600.0,0,1000000000000.0,'',0.0,1790000000.0,0.0);
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
